"""Products with pointwise operations after them, in one kernel with the product."""

from __future__ import annotations

from typing import Any

import pytest

from operators.sketches.triton.matmul_followed import PACKED_FOLLOWED, TILED_FOLLOWED
from problems.problem import Problem
from problems.trace import trace
from tests.operators.sketches.made import made_problem
from tests.operators.sketches.triton.interpreter import Case, case_of, cases_of, interpreted


def _made(forward: str, build: str, shape: tuple[int, ...]) -> Problem:
    inputs = {"x": f"torch.rand({shape})", "y": "torch.rand(33, 1)"}
    return made_problem(forward, inputs, build, name=forward)


LINEAR = "self.l = nn.Linear(18, 50)"
GRAPHS = (
    ("torch.relu(self.l(x)) * 2.0", LINEAR, (33, 18)),
    ("torch.sigmoid(self.l(x)) + y", LINEAR, (33, 18)),
    ("self.l(x)", LINEAR, (3, 7, 18)),
    # An axis as long as the other side is wide, and operands larger than the product.
    ("(self.l(x) * y).view(3, 11, 33).sigmoid()", "self.l = nn.Linear(70, 33)", (33, 70)),
    ("torch.relu(self.l(x).view(33, 2, 33) + y.view(33))", "self.l = nn.Linear(18, 66)", (33, 18)),
)
OTHERS = (
    ("torch.softmax(self.l(x), 1)", LINEAR, (33, 18)),
    ("torch.relu(x) + y", LINEAR, (33, 18)),
    ("self.l(x) + self.l(x * 2)", LINEAR, (33, 18)),
    ("torch.relu(self.l(x) * torch.tensor([2.0] * 50))", LINEAR, (33, 18)),
)


def _cases() -> dict[str, Case]:
    tiles = {"BLOCK_M": 16, "BLOCK_N": 32}
    options: dict[str, Any] = {"tolerance": 128.0, "variations": ((-2.0, 0.5),)}
    cases = {}
    for forward, build, shape in GRAPHS:
        made = _made(forward, build, shape)
        cases[f"tiled {forward}"] = case_of(TILED_FOLLOWED, made, tiles, **options)
        cases[f"packed {forward}"] = case_of(PACKED_FOLLOWED, made, tiles, **options)
    made = _made(*GRAPHS[0])
    for sketch in (TILED_FOLLOWED, PACKED_FOLLOWED):
        cases |= cases_of(sketch, made, tiles, **options)
    options = {"precision": "float16"}
    return cases | {"in float16": case_of(TILED_FOLLOWED, made, tiles, **options)}


CASES = _cases()


@pytest.fixture(scope="module")
def verdicts() -> dict[str, str]:
    return interpreted(CASES)


@pytest.mark.parametrize("name", CASES)
def test_programs(name: str, verdicts: dict[str, str]) -> None:
    assert verdicts[name] == ""


@pytest.mark.parametrize(("forward", "build", "shape"), OTHERS)
def test_other_graphs_are_left_alone(forward: str, build: str, shape: tuple[int, ...]) -> None:
    problem = _made(forward, build, shape)
    graph = trace(problem.source)
    assert TILED_FOLLOWED.write(problem, graph) is None
    assert PACKED_FOLLOWED.write(problem, graph) is None
