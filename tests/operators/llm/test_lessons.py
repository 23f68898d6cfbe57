"""What failures teach, and that every reason of the referee teaches something."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from archives.evaluation import LIBRARY_WORK, Status
from operators.llm.lessons import NO_LESSON, RULES, Setback, lessons_of, rule_of, telling_line

EVALUATOR = Path(__file__).parents[3] / "evaluator"
OF_THE_PROBLEM = {
    "reference_worker.py",
    "trace_worker.py",
    "nursery.py",
    "rates_worker.py",
    "compat_worker.py",
    "sanitizer_worker.py",
}
"""Files whose failures are those of the problem or the machine."""
RAISERS = {"CandidateFailed": 1, "Failure": 1, "_finding": 0}
"""Which positional argument of a call is a reason code."""


def reasons() -> set[str]:
    """Every reason code written out in the evaluator's source."""
    return {
        code
        for path in sorted(EVALUATOR.rglob("*.py"))
        if path.name not in OF_THE_PROBLEM
        for code in codes_in(ast.parse(path.read_text()))
    }


def codes_in(tree: ast.Module) -> Iterator[str]:
    """What is given as a reason, or assigned to a name with "reason" in it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = node.func.id if isinstance(node.func, ast.Name) else ""
            at = RAISERS.get(name, len(node.args))
            given = [keyword.value for keyword in node.keywords if keyword.arg == "reason"]
            for expression in node.args[at : at + 1] + given:
                yield from texts_in(expression)
        elif isinstance(node, ast.Assign):
            target = ast.unparse(node.targets[0])
            if "reason" in target:
                yield from texts_in(node.value)
            elif target == "FORBIDDEN_CALLS":
                assert isinstance(node.value, ast.Dict)
                yield from (text for value in node.value.values for text in texts_in(value))


def texts_in(expression: ast.expr) -> Iterator[str]:
    """The texts that an expression may have as its value, those of its branches included."""
    if isinstance(expression, ast.Constant) and isinstance(expression.value, str):
        yield from [expression.value] if expression.value else []
    elif isinstance(expression, ast.IfExp):
        yield from (*texts_in(expression.body), *texts_in(expression.orelse))
    elif isinstance(expression, ast.BoolOp | ast.Tuple):
        parts = expression.values if isinstance(expression, ast.BoolOp) else expression.elts
        yield from (text for part in parts for text in texts_in(part))


def test_every_reason_of_the_referee_has_a_rule_of_its_own() -> None:
    found = reasons()
    assert {"wrong_value", "compile_failed", "slope", "output_reused", "frame_access"} <= found
    unruled = {
        code
        for code in found - NO_LESSON
        if rule_of(Status.CRASHED, code).startswith("Avoid what the referee calls")
    }
    assert unruled == set()


def test_no_rule_is_for_a_reason_that_nobody_gives() -> None:
    text = "".join(path.read_text() for path in EVALUATOR.rglob("*.py"))
    others = {"no_model_new", LIBRARY_WORK}
    assert {code for code in RULES if f'"{code}"' not in text} - others == set()


def test_what_a_runs_policy_rejects_has_a_rule_of_its_own() -> None:
    assert "write kernels" in rule_of(Status.SCREENED, LIBRARY_WORK)


@pytest.mark.parametrize("reason", ["killed_by_SIGSEGV", "timeout_in_open", "timeout_in_leg"])
def test_reasons_that_vary_have_a_rule_by_their_first_letters(reason: str) -> None:
    assert not rule_of(Status.CRASHED, reason).startswith("Avoid")


def test_an_unknown_reason_has_a_general_rule() -> None:
    assert rule_of(Status.CRASHED, "new\nthing`") == (
        "Avoid what the referee calls CRASHED (new thing')."
    )


def test_lessons_are_grouped_counted_and_ordered() -> None:
    setbacks = [
        Setback(status=Status.WRONG_SHAPE, reason="wrong_shape", log="output 0 has shape [3]"),
        Setback(status=Status.WRONG_VALUE, reason="output_reused", log="overwritten", count=2),
        Setback(status=Status.WRONG_VALUE, reason="output_reused", family="norm", count=3),
        Setback(status=Status.MUTATED_INPUT, reason="mutated_input", family="norm"),
        Setback(status=Status.UNSTABLE, reason="host_noisy", count=50),
    ]
    lessons = lessons_of(setbacks)
    assert lessons == (
        "Outputs must be new tensors on each call: a later call must not overwrite them. "
        "(2x here, 3x in family norm; such as: `overwritten`)",
        "Outputs must have the shapes of the reference's outputs. "
        "(1x here; such as: `output 0 has shape [3]`)",
        "You cannot write to inputs: write to a tensor of your own. (1x in family norm)",
    )
    assert lessons_of(setbacks, 1) == lessons[:1]
    assert lessons_of([]) == ()


def test_the_first_error_of_a_log_is_its_telling_line() -> None:
    log = (
        "line 40, in <module>: KERNELS = load()\nRuntimeError: g++ failed on CPP_SOURCE:\n"
        "<stdin>:3:1: error: 'y' was not declared"
    )
    assert telling_line(log) == "RuntimeError: g++ failed on CPP_SOURCE:"
    assert telling_line("inputs 'own': rms 0.3\nmore") == "inputs 'own': rms 0.3"
    assert telling_line("") == ""
