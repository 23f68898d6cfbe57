"""Products whose rows are reduced in the kernel that multiplies."""

from __future__ import annotations

from typing import Any

import pytest

from operators.sketches.triton.matmul_reduced import TILED_REDUCED
from problems.problem import Problem
from problems.trace import trace
from tests.operators.sketches.made import made_problem
from tests.operators.sketches.triton.interpreter import (
    Case,
    case_of,
    cases_of,
    interpreted,
    on_device,
)

LINEAR = "self.l = nn.Linear(18, 50)"
WIDE = "self.l = nn.Linear(18, 150)"


def _made(forward: str, build: str = LINEAR, shape: tuple[int, ...] = (19, 18)) -> Problem:
    """A problem whose forward is some statements and a value, between semicolons."""
    drawn = {"x": f"torch.rand({shape})", "y": "torch.rand(19, 1)", "w": "torch.rand(3, 18, 50)"}
    return made_problem(forward.replace("; ", "\n"), drawn, build, name=forward)


TILES = {"BLOCK_M": 16, "BLOCK_N": 16, "BLOCK_K": 16}
SPLIT = {**TILES, "SPANS": 3}
OPTIONS: dict[str, Any] = {"tolerance": 128.0, "variations": ((-2.0, 0.5),)}
"""Short sums in float32 are nearly exact, see the tests of other products."""
BY_HAND = "z = self.l(x); m = z.amax(1, keepdim=True); (z - m).exp().sum(1).log() + m.squeeze(1)"

GRAPHS = (
    "self.l(x).sum(1)",
    "torch.relu(self.l(x)).mean(-1, keepdim=True) * 0.5 + y",
    "torch.max(self.l(x) * y, dim=1).values",
    "F.gelu(torch.min(self.l(x), dim=1, keepdim=True)[0] - 1)",
    "torch.logsumexp(self.l(x).clamp(-3, 3) * 2, dim=1, keepdim=True)",
    BY_HAND,
    "self.l(x).norm(dim=1)",
    "z = self.l(x); torch.sigmoid(z).sum(1) - z.amax(1) * z.amin(1)",
    "F.mish((x @ w[0]).abs().sum(1))",
)
BATCHES = (
    ("torch.bmm(x, w).amax(-1)", "pass", (3, 7, 18)),
    ("(x @ w[1]).tanh().sum(2).view(21)", "pass", (3, 7, 18)),
    # One row; and as many rows as columns.
    ("torch.logsumexp(self.l(x), 1)", WIDE, (1, 18)),
    ("(self.l(x) + x).sum(1) / y.view(19)", "self.l = nn.Linear(19, 19, bias=False)", (19, 19)),
    # The maximum of one number, and what follows, as in a chain of reductions.
    ("z = self.l(x).sum(1, keepdim=True); z.amax(1).exp()", LINEAR, (19, 18)),
)
SPECIALS = (
    "torch.max(self.l(x) + y, dim=1)[0]",
    "torch.amin(self.l(x) + y, dim=1)",
    "torch.logsumexp(self.l(x) + y, dim=1)",
    BY_HAND.replace("self.l(x)", "self.l(x) + y"),
    "(self.l(x) + y).sum(1)",
    # The largest value and the sum relative to it, each seen by itself.
    "z = self.l(x) + y; m = z.amax(1, True); s = (z - m).exp().sum(1, True); "
    "torch.where(s > 0.5, s, m)",
)
OTHERS = (
    # Not a reduction of rows.
    "self.l(x).sum(0)",
    "self.l(x).sum()",
    "torch.bmm(x.view(1, 19, 18).expand(3, 19, 18), w).sum(0)",
    "self.l(x).view(19, 5, 10).sum(2)",
    "self.l(x).view(19, 5, 10).sum(1)",
    "self.l(x).t().sum(1)",
    "F.linear(x, x).sum(0)",
    # The product is wanted besides, or is another product's operand, or there are two.
    "z = self.l(x); z - z.amax(1, keepdim=True)",
    "torch.softmax(self.l(x), 1)",
    "(self.l(x) @ w[0].t()).sum(1)",
    "self.l(x).sum(1) + self.l(x * 2).amax(1)",
    "z = self.l(x); z.sum(1), z.amax(1)",
    # Two passes over a row, and reductions that are not covered.
    "z = self.l(x); (z - z.mean(1, keepdim=True)).abs().sum(1)",
    "z = self.l(x); (z * 2 - z.amax(1, keepdim=True)).exp().sum(1)",
    "torch.max(self.l(x), dim=1)",
    "torch.argmax(self.l(x), 1)",
    "torch.argmax(self.l(x), 1) * 0.5",
    "torch.prod(self.l(x), 1)",
    # The reduction comes before, or there is nothing but the product.
    "(x.sum(1, keepdim=True) * x) @ w[0]",
    "self.l(x.sum(1, keepdim=True).expand(19, 18)).sum(1)",
    "torch.relu(self.l(x))",
    "x.sum(1)",
    # Tensors that programs cannot reach.
    "(x @ torch.tensor([[2.0] * 50] * 18)).sum(1)",
    "(self.l(x) * torch.tensor([2.0] * 50)).sum(1)",
)


def _cases() -> dict[str, Case]:
    cases = {}
    for forward in GRAPHS:
        made = _made(forward)
        cases[forward] = case_of(TILED_REDUCED, made, TILES, **OPTIONS)
        cases[f"{forward}, split"] = case_of(TILED_REDUCED, made, SPLIT, **OPTIONS)
    for forward, build, shape in BATCHES:
        made = _made(forward, build, shape)
        cases[f"{forward} {shape}"] = case_of(TILED_REDUCED, made, SPLIT, **OPTIONS)
    for forward in SPECIALS:
        made, exact = _made(forward), {"PRECISION": "ieee", "BLOCK_M": 32, "BLOCK_N": 32}
        for spans in (1, 2):
            changes = {**exact, "SPANS": spans}
            case = case_of(TILED_REDUCED, made, changes, specials=True, **OPTIONS)
            cases[f"{forward}, special, {spans}"] = case
    for forward in (GRAPHS[1], GRAPHS[2], GRAPHS[4]):
        for precision in ("float16", "bfloat16"):
            case = case_of(TILED_REDUCED, _made(forward), SPLIT, precision=precision)
            cases[f"{forward} in {precision}"] = case
    # The interpreter cuts bfloat16 off where a GPU rounds, and float32 is at its best here.
    coarse: dict[str, Any] = {**OPTIONS, "tolerance": 512.0}
    changes = {**SPLIT, "PRECISION": "bf16x3"}
    cases["in bf16x3"] = case_of(TILED_REDUCED, _made(GRAPHS[2]), changes, **coarse)
    return cases | cases_of(TILED_REDUCED, _made(GRAPHS[1]), TILES, **OPTIONS)


CASES = _cases()


@pytest.fixture(scope="module")
def verdicts() -> dict[str, str]:
    return interpreted(CASES)


@pytest.mark.parametrize("name", CASES)
def test_programs(name: str, verdicts: dict[str, str]) -> None:
    assert verdicts[name] == ""


@pytest.mark.parametrize("forward", OTHERS)
def test_other_graphs_are_left_alone(forward: str) -> None:
    problem = _made(forward, shape=(19, 18))
    assert TILED_REDUCED.write(problem, trace(problem.source)) is None


def _device_cases() -> dict[str, Case]:
    """Tensor cores at sizes that fill a GPU, rows and columns that no tile divides."""
    large = "self.l = nn.Linear(1000, 3001)"
    cases = {}
    for forward in ("torch.logsumexp(self.l(x) * 2, 1)", "torch.relu(self.l(x)).sum(1)"):
        made = _made(forward, large, (777, 1000))
        for precision in ("ieee", "tf32x3", "fp16x3", "bf16x6"):
            changes = {"PRECISION": precision, "BLOCK_M": 64, "BLOCK_N": 128, "SPANS": 4}
            cases[f"{forward}, {precision}, large"] = case_of(TILED_REDUCED, made, changes)
        for precision in ("float16", "bfloat16"):
            case = case_of(TILED_REDUCED, made, precision=precision)
            cases[f"{forward}, {precision}, large"] = case
    return cases


@pytest.mark.gpu
def test_the_device_agrees() -> None:
    # TF32 is what the interpreter does not round to: the referee judges it, by the policy.
    exact = {name: case for name, case in CASES.items() if not name.endswith("PRECISION=tf32")}
    verdicts = on_device(exact | _device_cases())
    assert {name: wrong for name, wrong in verdicts.items() if wrong} == {}
