"""Attention in Triton: both forms against the reference in float64."""

from __future__ import annotations

from typing import Any

import pytest

from operators.sketches.triton.attention import (
    ONLINE_ATTENTION,
    STAGED_ATTENTION,
    TILED_ATTENTION,
)
from problems.catalogue import load_level
from problems.problem import Problem, Scale
from problems.trace import trace
from tests.operators.sketches.triton.interpreter import Case, case_of, cases_of, interpreted


def _made(forward: str, queries: int, keys: int, depth: int, wide: int) -> Problem:
    shapes = ((2, 3, queries, depth), (2, 3, keys, depth), (2, 3, keys, wide))
    drawn = ", ".join(f"torch.randn{shape}" for shape in shapes)
    source = (
        "import torch\nfrom torch import nn\n\n\nclass Model(nn.Module):\n"
        f"    def forward(self, q, k, v):\n        return {forward}\n\n\n"
        f"def get_inputs():\n    return [{drawn}]\n\n\ndef get_init_inputs():\n    return []\n"
    )
    return Problem(level=0, id=1, name="made", family="custom", scale=Scale.CUSTOM, source=source)


BY_HAND = _made("torch.softmax(q @ k.transpose(-2, -1) / 3.0, dim=-1) @ v", 19, 23, 17, 18)


def _cases() -> dict[str, Case]:
    (problem,) = load_level(1, Scale.TINY, [97])
    exact: dict[str, Any] = {"tolerance": 64.0}
    online = {"BLOCK_M": 16, "BLOCK_N": 16, "PRECISION": "bf16x6"}
    tiled = {"BLOCK_M": 16, "BLOCK_N": 16, "BLOCK_K": 16, "PRECISION": "fp16x3"}
    staged = {"BLOCK_M": 16, "BLOCK_N": 32, "BLOCK_K": 32}
    cases = {
        "online": case_of(ONLINE_ATTENTION, problem),
        "staged": case_of(STAGED_ATTENTION, problem),
        "tiled": case_of(TILED_ATTENTION, problem),
        "tiled by hand": case_of(TILED_ATTENTION, BY_HAND, tiled, **exact),
        "online by hand": case_of(ONLINE_ATTENTION, BY_HAND, online),
    }
    return cases | cases_of(STAGED_ATTENTION, BY_HAND, staged, **exact)


CASES = _cases()


@pytest.fixture(scope="module")
def verdicts() -> dict[str, str]:
    return interpreted(CASES)


@pytest.mark.parametrize("name", CASES)
def test_programs(name: str, verdicts: dict[str, str]) -> None:
    assert verdicts[name] == ""


def test_long_heads_do_not_fit_into_registers() -> None:
    (problem,) = load_level(1, Scale.OFFICIAL, [97])
    graph = trace(problem.source)
    assert ONLINE_ATTENTION.write(problem, graph) is None
    assert STAGED_ATTENTION.write(problem, graph) is not None
