from evokernel.doctor import examine
from problems.errors import EvaluatorError

EVERYTHING = "user+pid+net+ipc+mount+proc+uid+rlimits+nnp+landlock+seccomp"


def test_a_machine_that_runs_the_tests_lacks_nothing() -> None:
    findings = examine(lambda: EVERYTHING)
    assert [finding.name for finding in findings if finding.status == "missing"] == []
    names = [finding.name for finding in findings]
    assert {"python", "torch", "g++", "objdump", "ray", "cores", "memory", "gpu"} <= set(names)
    assert names.count("sanitizer") == 1
    assert all(finding.found for finding in findings)
    assert all(finding.advice for finding in findings if finding.status != "ok")


def test_each_missing_protection_is_named_with_its_cure() -> None:
    findings = [f for f in examine(lambda: "rlimits+nnp+landlock") if f.name == "isolation"]
    assert findings[0].found == "rlimits+nnp+landlock"
    said = {finding.found.partition(":")[0]: finding.advice for finding in findings[1:]}
    assert "use a newer kernel" in said["no seccomp"]
    assert "allow user namespaces" in said["no process namespaces"]
    assert "no Landlock" not in said


def test_a_worker_that_does_not_start_is_what_is_missing() -> None:
    def broken() -> str:
        raise EvaluatorError("no candidate worker could be started: no /proc")

    missing = [finding for finding in examine(broken) if finding.status == "missing"]
    assert [finding.advice for finding in missing] == [
        "no candidate worker could be started: no /proc"
    ]
