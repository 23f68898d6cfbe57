"""Norms, variances, losses and tensors of one number: every sketch that writes a program for one.

C++ programs run as they are and Triton's in its interpreter, against the reference in float64;
narrow convolutions, which are less accurate than float32 by intent, have tests of their own.
"""

from __future__ import annotations

import pytest

from operators.sketches.registry import SKETCHES
from problems.trace import trace
from tests.operators.sketches.forms import CONSTANTS, FORMS, REFUSED, Form, problem
from tests.operators.sketches.triton.interpreter import Case, interpreted

PRECISIONS = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16"}


def _cases(name: str, form: Form, short: str = "fp32") -> dict[str, Case]:
    one = problem(name, form)
    graph = trace(one.source, short)
    return {
        f"{name} by {sketch.name} in {short}": Case(
            program=source.replace('DEVICE = "cuda"', 'DEVICE = "cpu"'),
            reference=one.source,
            precision=PRECISIONS[short],
            **form.options,
        )
        for sketch in SKETCHES
        if not sketch.name.startswith("narrow") and (source := sketch.write(one, graph)) is not None
    }


CASES = {
    **{
        n: c
        for name, form in FORMS.items()
        for s in PRECISIONS
        for n, c in _cases(name, form, s).items()
    },
    **{n: c for name, form in CONSTANTS.items() for n, c in _cases(name, form).items()},
}


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EVOKERNEL_BUILD_DIR", str(tmp_path_factory.mktemp("kernels")))
        return interpreted(CASES)


@pytest.mark.parametrize("name", CASES)
def test_programs_do_what_their_references_do(name: str, verdicts: dict[str, str]) -> None:
    assert verdicts[name] == ""


@pytest.mark.parametrize("name", FORMS)
def test_each_form_is_known_on_either_device(name: str) -> None:
    one = problem(name, FORMS[name])
    graph = trace(one.source)
    known = {sketch.device for sketch in SKETCHES if sketch.write(one, graph) is not None}
    assert known == {"cpu", "cuda"}


@pytest.mark.parametrize("forward", REFUSED)
def test_what_is_not_covered_is_left_alone(forward: str) -> None:
    one = problem("refused", Form(forward=forward))
    graph = trace(one.source)
    assert [s.name for s in SKETCHES if s.write(one, graph) is not None] == []
