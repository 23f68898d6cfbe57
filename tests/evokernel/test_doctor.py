import os

import pytest

from evaluator.referee.spawner import Spawner, Worker, WorkerPlan
from evokernel.doctor import examine, isolation_of_a_worker
from evokernel.protections import PROTECTIONS
from problems.errors import EvaluatorError

HELD_EVERYWHERE = "affinity+caps+rlimits+nnp"
EVERYTHING = (
    "user+pid+net+ipc+mount+affinity+readonly+proc+tmpfs+uid+caps+rlimits+nproc+nnp+landlock"
    "+seccomp+memory-read"
)


def test_a_machine_that_runs_the_tests_lacks_nothing() -> None:
    findings = examine(lambda: EVERYTHING)
    assert [finding.name for finding in findings if finding.status == "missing"] == []
    names = [finding.name for finding in findings]
    assert {"python", "torch", "g++", "objdump", "ray", "cores", "memory", "gpu"} <= set(names)
    assert names.count("sanitizer") == 1
    assert names.count("isolation") == 1
    assert all(finding.found for finding in findings)
    assert all(finding.advice for finding in findings if finding.status != "ok")


def test_each_missing_protection_is_named_with_its_cure() -> None:
    findings = [f for f in examine(lambda: "rlimits+nnp+landlock") if f.name == "isolation"]
    assert findings[0].found == "rlimits+nnp+landlock"
    said = {finding.found.partition(":")[0]: finding.advice for finding in findings[1:]}
    assert "use a newer kernel" in said["no seccomp"]
    assert "allow user namespaces" in said["no process namespaces"]
    assert "no Landlock" not in said


@pytest.mark.parametrize("name", EVERYTHING.split("+"))
def test_every_protection_that_may_be_missing_is_named_alone(name: str) -> None:
    held = "+".join(other for other in EVERYTHING.split("+") if other != name)
    found = [f for f in examine(lambda: held) if f.name == "isolation"][1:]
    if name in HELD_EVERYWHERE.split("+") or name == "user":
        assert not found, "it is held everywhere, or others are missing with it"
        return
    assert len(found) == 1
    (one,) = (each for each in PROTECTIONS if each.name == name)
    assert found[0].found == f"no {one.what}: {one.without}"
    assert found[0].advice.startswith(one.cure)


def test_what_then_does_not_hold_is_said() -> None:
    held = "user+pid+net+ipc+mount+tmpfs+nproc+landlock+seccomp"
    found = [f.found for f in examine(lambda: held) if f.name == "isolation"][1:]
    said = dict(line.split(": ", 1) for line in found)
    assert "from writing to your files" in said["no read-only mounts"]
    assert "other processes" in said["no /proc of its own"]
    assert "a candidate is you" in said["no user id of its own"]
    assert "after the clock has stopped" in said["no reading of a candidate's memory"]
    assert len(said) == 4


@pytest.mark.parametrize(("gpus", "role"), [(0, "candidate"), (2, "cuda_candidate")])
def test_the_worker_is_one_of_the_device_that_judges(
    gpus: int, role: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    spawned: list[str] = []
    spawn = Spawner.spawn

    def watched(self: Spawner, plan: WorkerPlan) -> Worker:
        spawned.append(plan.role)
        return spawn(self, plan)

    monkeypatch.setattr("evaluator.referee.cuda.device.gpu_count", lambda: gpus)
    monkeypatch.setattr(Spawner, "spawn", watched)
    assert "nnp" in isolation_of_a_worker().split("+")
    assert spawned == [role]


@pytest.mark.parametrize("readable", [True, False])
def test_a_worker_tells_of_nothing_that_the_doctor_does_not_know(
    readable: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    def can_read_memory(pid: int) -> bool:
        asked.append(pid)
        return readable

    monkeypatch.setattr("evaluator.referee.foreign_memory.can_read_memory", can_read_memory)
    held = set(isolation_of_a_worker().split("+"))
    assert held <= {one.name for one in PROTECTIONS} | set(HELD_EVERYWHERE.split("+")) | {"user"}
    assert ("memory-read" in held) == readable
    assert len(asked) == 1
    assert asked[0] != os.getpid(), "the worker's memory is what has to be read"


def test_a_worker_that_does_not_start_is_what_is_missing() -> None:
    def broken() -> str:
        raise EvaluatorError("no candidate worker could be started: no /proc")

    missing = [finding for finding in examine(broken) if finding.status == "missing"]
    assert [finding.advice for finding in missing] == [
        "no candidate worker could be started: no /proc"
    ]
