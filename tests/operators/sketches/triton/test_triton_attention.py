"""Attention in Triton: both forms against the reference in float64."""

from __future__ import annotations

from collections.abc import Iterator
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
from tests.operators.sketches.made import made_problem
from tests.operators.sketches.triton.interpreter import Case, case_of, cases_of, interpreted


def _made(
    forward: str,
    sizes: tuple[int, int, int, int],
    build: str = "pass",
    batch: tuple[int, int] = (2, 3),
) -> Problem:
    queries, keys, depth, wide = sizes
    shapes = ((*batch, queries, depth), (*batch, keys, depth), (*batch, keys, wide))
    drawn = (f"torch.randn{shape}" for shape in shapes)
    return made_problem(forward, dict(zip("qkv", drawn, strict=True)), build)


HAND = "torch.softmax(q @ k.transpose(-2, -1) / 3.0, dim=-1) @ v"
BY_HAND = _made(HAND, (19, 23, 17, 18))

CAUSAL = "nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)"
SLICED = (
    "torch.softmax((q @ k.mT * 0.5).masked_fill(self.bias[:, :, {}:{}, :{}] == 0, float('-inf')),"
    " dim=-1) @ v"
)
EARLIER = "attn_mask=torch.ones(45, 45, dtype=torch.bool).tril(-17)"
BIAS = "self.register_buffer('bias', torch.tril(torch.ones(64, 64)).view(1, 1, 64, 64))"


ONLINE: dict[str, Any] = {"BLOCK_M": 16, "BLOCK_N": 16, "PRECISION": "bf16x6"}
TILED: dict[str, Any] = {"BLOCK_M": 16, "BLOCK_N": 16, "BLOCK_K": 16, "PRECISION": "fp16x3"}
STAGED: dict[str, Any] = {"BLOCK_M": 16, "BLOCK_N": 32, "BLOCK_K": 32}
ONCE: dict[str, Any] = {"variations": ((-2.0, 0.5),)}


def _masked(forward: str, queries: int, keys: int, build: str = "pass") -> Problem:
    return _made(forward, (queries, keys, 17, 18), build, (1, 2))


MASKED = {
    "square": _masked(CAUSAL, 45, 45),
    "more keys": _masked(CAUSAL, 19, 61),
    "more queries": _masked(CAUSAL, 61, 19),
    "by hand": _masked(SLICED.format(0, 45, 45), 45, 45, BIAS),
    "after kept keys": _masked(SLICED.format(23, 56, 56), 33, 56, BIAS),
    "queries without keys": _masked(CAUSAL.replace("is_causal=True", EARLIER), 45, 45),
}
"""In blocks of 16 queries and keys some blocks are left out, and some cut."""


def _causal_cases() -> Iterator[tuple[str, Case]]:
    for name, made in MASKED.items():
        yield f"online, {name}", case_of(ONLINE_ATTENTION, made, ONLINE, **ONCE)
    for name in ("square", "after kept keys", "queries without keys"):
        exact = {**ONCE, "tolerance": 64.0}
        yield f"tiled, {name}", case_of(TILED_ATTENTION, MASKED[name], TILED, **exact)
        yield f"staged, {name}", case_of(STAGED_ATTENTION, MASKED[name], STAGED, **exact)


def _half_cases() -> Iterator[tuple[str, Case]]:
    (catalogue,) = load_level(1, Scale.TINY, [97])
    for precision in ("float16", "bfloat16"):
        halves = {**ONCE, "precision": precision}
        for name, made in {
            "catalogue": catalogue,
            "square": MASKED["square"],
            "by hand": MASKED["by hand"],
        }.items():
            changes = {**ONLINE, "PRECISION": "native"}
            case = case_of(ONLINE_ATTENTION, made, changes, **halves)
            yield f"online, {name} in {precision}", case
        changes = {**TILED, "PRECISION": "native"}
        case = case_of(TILED_ATTENTION, MASKED["square"], changes, **halves)
        yield f"tiled, square in {precision}", case


def _cases() -> dict[str, Case]:
    (problem,) = load_level(1, Scale.TINY, [97])
    exact: dict[str, Any] = {"tolerance": 64.0}
    cases = {
        "online": case_of(ONLINE_ATTENTION, problem),
        "staged": case_of(STAGED_ATTENTION, problem),
        "tiled": case_of(TILED_ATTENTION, problem),
        "online by hand": case_of(ONLINE_ATTENTION, BY_HAND, ONLINE),
    }
    cases |= dict(_causal_cases()) | dict(_half_cases())
    small = _masked(HAND, 19, 23)
    cases |= cases_of(TILED_ATTENTION, small, TILED, **exact, **ONCE)
    return cases | cases_of(STAGED_ATTENTION, BY_HAND, STAGED, **exact)


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
    assert TILED_ATTENTION.write(problem, trace(problem.source, "fp16")) is not None


def test_a_mask_that_is_not_causal_is_left_alone() -> None:
    backward = BIAS.replace("tril", "triu")
    problem = _masked(SLICED.format(0, 45, 45), 45, 45, backward)
    graph = trace(problem.source)
    for sketch in (ONLINE_ATTENTION, STAGED_ATTENTION, TILED_ATTENTION):
        assert sketch.write(problem, graph) is None
