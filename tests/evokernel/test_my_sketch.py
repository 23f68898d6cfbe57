"""The documented sketch: a copy of it, in a folder of its own, writes right programs for a run."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import evokernel
from archives.evaluation import Evaluation, KernelFacts
from archives.store import Store
from evaluator.evaluator import EvaluationRequest
from operators.registry import load_operator
from operators.sketch import SketchOperator
from operators.sketches.registry import SKETCHES
from operators.sketches.sketch import Sketch
from problems.graph import OperatorGraph
from problems.loaders import load_file
from problems.problem import Problem, Scale
from problems.trace import trace
from tests.evokernel import landscape as world
from tests.evokernel.gpu_landscape import GpuLandscape
from tests.operators.sketches.triton.interpreter import Case, case_of, cases_of, interpreted

EXAMPLES = Path(__file__).parents[2] / "examples"
LONGEST = 100


@pytest.fixture(scope="module")
def operator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SketchOperator]:
    """The operator of a copy, as a run loads it."""
    folder = tmp_path_factory.mktemp("mine")
    shutil.copy(EXAMPLES / "my_sketch.py", folder / "copied_sketch.py")
    sys.path.insert(0, str(folder))
    found = load_operator("copied_sketch:OPERATOR")
    assert isinstance(found, SketchOperator)
    yield found
    sys.path.remove(str(folder))
    del sys.modules["copied_sketch"]


@pytest.fixture(scope="module")
def sketch(operator: SketchOperator) -> Sketch:
    (one,) = operator.sketches
    return one


def unit(forward: str, shape: str = "7, 60") -> Problem:
    """A problem whose `forward` is given, for x of a shape."""
    source = f"""\
import torch
from torch import nn
from torch.nn import functional as F


class Model(nn.Module):
    def forward(self, x):
        {forward}


def get_inputs():
    return [torch.randn({shape})]


def get_init_inputs():
    return []
"""
    return Problem(level=0, id=1, name="unit", family="user", scale=Scale.CUSTOM, source=source)


SWIGLU = "a, b = x.chunk(2, dim=-1); return F.silu(a) * b"
GATE_LAST = "a, b = x.chunk(2, dim=-1); return a * torch.sigmoid(b)"
GEGLU = "a, b = x.split(x.shape[-1] // 2, -1); return b * F.gelu(a)"


def cases(sketch: Sketch) -> dict[str, Case]:
    """Every structural option, every activation, either half as the gate, and half precisions."""
    small = {"BLOCK": 16}
    found = cases_of(sketch, unit(SWIGLU), small)
    # Of gelu(-inf), torch says NaN or -0.0, as the processor has it.
    found["gate last"] = case_of(sketch, unit(GATE_LAST, "3, 2, 34"), small, specials=True)
    found["gelu"] = case_of(sketch, unit(GEGLU, "48"), small)
    for precision in ("float16", "bfloat16"):
        found[precision] = case_of(sketch, unit(SWIGLU), small, precision=precision)
    return found


def test_its_programs_are_right(sketch: Sketch) -> None:
    verdicts = interpreted(cases(sketch))
    assert len(verdicts) >= 7
    assert set(verdicts.values()) == {""}, verdicts


@pytest.mark.parametrize(
    "forward",
    [
        "a, b = x.chunk(2, dim=-1); return F.silu(a) * a",
        "a, b = x.chunk(2, dim=-1); return F.silu(a) + b",
        "a, b = x.chunk(2, dim=0); return F.silu(a) * b",
        "a, b, c = x.chunk(3, dim=-1); return F.silu(a) * b",
        "a, b = x.chunk(2, dim=-1); return F.gelu(a, approximate='tanh') * b",
        "return F.silu(x) * x",
    ],
)
def test_what_is_another_pattern_is_left_alone(forward: str, sketch: Sketch) -> None:
    problem = unit(forward, "6, 60")
    assert sketch.write(problem, trace(problem.source, "fp32")) is None


def test_no_bundled_sketch_knows_the_pattern() -> None:
    problem = load_file(EXAMPLES / "my_gated_unit.py")
    graph = trace(problem.source, "fp32")
    assert all(bundled.write(problem, graph) is None for bundled in SKETCHES)


def test_a_run_uses_it(operator: SketchOperator, tmp_path: Path) -> None:
    def kernels_are_faster(request: EvaluationRequest) -> Evaluation:
        own = "gate_kernel" in request.candidate.source
        return world.fit(2.0 if own else 1.0, KernelFacts(own_kernel_share=float(own)))

    class Traced(GpuLandscape):
        async def graph(self, problem: Problem) -> OperatorGraph:
            return trace(problem.source, problem.precision)

    report = evokernel.run(
        problem_file=EXAMPLES / "my_gated_unit.py",
        settings=['operators.use=["copied_sketch:OPERATOR"]', "evaluation.verify=false"],
        generations=1,
        folder=tmp_path / "run",
        evaluator=Traced(verdict=kernels_are_faster),
    )
    (line,) = report.problems
    with Store.open(tmp_path / "run") as store:
        notes = {attempt.note for attempt in store.attempts(line.problem.key)}
    assert "sketch gated-unit" in notes
    assert operator.name == "my_sketch"


def test_it_is_short_enough_to_be_read() -> None:
    lines = (EXAMPLES / "my_sketch.py").read_text().splitlines()
    assert len(lines) <= LONGEST
    assert max(map(len, lines)) <= LONGEST
