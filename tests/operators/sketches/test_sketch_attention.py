"""Attention: fused and staged against torch; which masks are causal."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from operators.sketches.cpp.attention import BLOCKED_ATTENTION
from operators.sketches.patterns.attention import Attention, find_attention
from operators.sketches.patterns.operands import FLOATS
from problems.catalogue import load_level
from problems.problem import Problem, Scale
from problems.trace import trace

Check = Callable[..., int]
Make = Callable[..., Problem]

SHAPE = (1, 2, 4, 4)
SDPA = "nn.functional.scaled_dot_product_attention"
TRIANGLE = "torch.tril(torch.ones(8, 8)).view(1, 1, 8, 8)"
BIASED = "{}.masked_fill(self.bias[:, :, :4, :4] == 0, float('-inf'))"


def _attention(scores: str, pattern: str) -> str:
    return f"torch.softmax({scores.format(pattern)}, dim=-1) @ v"


def _found(make: Make, scores: str, build: str = "pass") -> Attention | None:
    """What attention is found with some form of masked scores."""
    forward = _attention(scores, "(q @ k.transpose(-2, -1) / 2.0)")
    problem = make(forward, {"q": SHAPE, "k": SHAPE, "v": SHAPE}, build)
    return find_attention(problem, trace(problem.source))


def test_catalogue(check_sketch: Check) -> None:
    (problem,) = load_level(1, Scale.TINY, [97])
    check_sketch(BLOCKED_ATTENTION, problem, {}, {"STAGED": True}, {"QUERY_BLOCK": 16})


def test_written_out_by_hand(check_sketch: Check, make_problem: Make) -> None:
    forward = "torch.softmax(q @ k.transpose(-2, -1) / 3.0, dim=-1) @ v"
    shapes = {"q": (2, 3, 19, 9), "k": (2, 3, 23, 9), "v": (2, 3, 23, 14)}
    problem = make_problem(forward, shapes)
    check_sketch(BLOCKED_ATTENTION, problem, {}, {"STAGED": True, "ROWS": 6, "VECTORS": 1})


@pytest.mark.parametrize(("queries", "keys"), [(23, 23), (19, 23), (23, 19)])
def test_causal(queries: int, keys: int, check_sketch: Check, make_problem: Make) -> None:
    shapes = {"q": (2, 3, queries, 9), "k": (2, 3, keys, 9), "v": (2, 3, keys, 14)}
    problem = make_problem(f"{SDPA}(q, k, v, is_causal=True)", shapes)
    check_sketch(BLOCKED_ATTENTION, problem, {}, {"STAGED": True}, {"QUERY_BLOCK": 16})


def test_queries_without_keys(check_sketch: Check, make_problem: Make) -> None:
    shapes = {"q": (2, 23, 9), "k": (2, 23, 9), "v": (2, 23, 14)}
    mask = "torch.ones(23, 23, dtype=torch.bool).tril(-2)"
    safe = make_problem(f"{SDPA}(q, k, v, attn_mask={mask})", shapes)
    forward = f"torch.softmax((q @ k.mT).masked_fill(~{mask}, -torch.inf), -1) @ v"
    for problem in (safe, make_problem(forward, shapes)):
        check_sketch(BLOCKED_ATTENTION, problem, {}, {"STAGED": True})


@pytest.mark.parametrize(
    "scores",
    [
        "{}.masked_fill(torch.ones(4, 4).tril() == 0, float('-inf'))",
        "torch.where(torch.ones(4, 4, dtype=torch.bool).tril(), {}, float('-inf'))",
        "torch.where(torch.ones(4, 4).triu(1).bool(), -torch.inf, {})",
        "{} + torch.full((4, 4), float('-inf')).triu(1)",
        "{}.masked_fill((torch.ones(4, 4).triu() == 1).T.logical_not(), -torch.inf) * 2.0",
        "{}.masked_fill(1 - torch.ones(9, 9).tril(-3)[3:7, :4] > 0.5, float('-inf'))",
    ],
)
def test_a_mask_made_on_the_way(scores: str, make_problem: Make) -> None:
    found = _found(make_problem, scores)
    assert found is not None
    assert found.reach == 0
    assert found.causal


@pytest.mark.parametrize(
    "made",
    [
        TRIANGLE,
        "torch.tril(torch.ones((8, 8), dtype=torch.bool))[None, None]",
        "torch.ones(1, 1, 8, 8).tril(diagonal=0).to(torch.int32)",
        "~torch.triu(torch.full((8, 8), True), 1)[None, None, :, :]",
        "(torch.triu(torch.ones(8, 8)) == 1).t().contiguous().float().unsqueeze(0)[None]",
    ],
)
def test_a_mask_in_a_buffer(made: str, make_problem: Make) -> None:
    for build in (
        f"self.register_buffer('bias', {made})",
        f"m = {made}\nself.register_buffer('bias', m)",
    ):
        found = _found(make_problem, BIASED, build)
        assert found is not None
        assert found.reach == 0


def test_a_slice_of_a_mask_moves_its_diagonal(make_problem: Make) -> None:
    """As for queries that follow keys that are kept."""
    scores = BIASED.replace(":4, :4", "3:7, 1:5")
    found = _found(make_problem, scores, f"self.register_buffer('bias', {TRIANGLE})")
    assert found is not None
    assert found.reach == 2


@pytest.mark.parametrize(
    ("scores", "made"),
    [
        (BIASED, "torch.triu(torch.ones(8, 8)).view(1, 1, 8, 8)"),
        (BIASED, "torch.tril(torch.ones(2, 32)).view(1, 1, 8, 8)"),
        (BIASED, "torch.tril(torch.rand(8, 8)).view(1, 1, 8, 8)"),
        (BIASED, "torch.tril(torch.ones(8, 8)).view(1, 1, 8, 8).flip(2)"),
        (BIASED, f"{TRIANGLE})\nself.bias[0, 0, 0, 1] = (1"),
        (BIASED.replace("== 0", "== 1"), TRIANGLE),
        (BIASED.replace("-inf", "-1"), TRIANGLE),
        (BIASED.replace("-inf", "inf"), TRIANGLE),
        (BIASED.replace(":4, :4", ":1, :4"), TRIANGLE),
        (BIASED + " * -1.0", TRIANGLE),
        ("{} + self.bias[0, 0, :4, :4]", TRIANGLE),
        ("{} * self.bias[0, 0, :4, :4]", TRIANGLE),
        ("{}.masked_fill(q == 0, float('-inf'))", TRIANGLE),
        ("{}.masked_fill_(torch.ones(4, 4).tril() == 0, float('-inf'))", TRIANGLE),
        ("{}.masked_fill(torch.ones(4, 4).tril().triu(-1) == 0, float('-inf'))", TRIANGLE),
    ],
)
def test_other_masks_are_left_alone(scores: str, made: str, make_problem: Make) -> None:
    assert _found(make_problem, scores, f"self.register_buffer('bias', {made})") is None


@pytest.mark.parametrize("precision", ["fp16", "bf16"])
def test_widening_inside_is_seen_through(precision: str, make_problem: Make) -> None:
    (problem,) = load_level(1, Scale.OFFICIAL, [97])
    dtype = {"fp16": "float16", "bf16": "bfloat16"}[precision]
    found = find_attention(problem, trace(problem.source, precision), FLOATS)
    assert found is not None
    assert found.dtype == dtype
    assert not found.causal
    for scores in ("{}.float()", BIASED):
        build = f"self.register_buffer('bias', {TRIANGLE})"
        forward = f"torch.softmax({scores.format('(q @ k.mT)')}, -1).to(v.dtype) @ v"
        problem = make_problem(forward, {"q": SHAPE, "k": SHAPE, "v": SHAPE}, build)
        found = find_attention(problem, trace(problem.source, precision), FLOATS)
        assert found is not None
        assert found.causal == (scores == BIASED)


@pytest.mark.parametrize(
    "forward",
    [
        "torch.softmax(q @ k.transpose(-2, -1), dim=-2) @ v",
        "(q @ k.transpose(-2, -1)) @ v",
        "torch.softmax((q + 1) @ k.transpose(-2, -1), dim=-1) @ v",
        "torch.softmax(q @ k.transpose(-2, -1), dim=-1).transpose(-2, -1) @ v",
        "torch.softmax((q @ k.transpose(-2, -1)).transpose(-2, -1), dim=-1) @ v",
        "torch.softmax(q @ k.transpose(-2, -1), dim=-1)[:, :, :1] @ v",
        "torch.softmax(q @ k.transpose(-2, -1), dim=-1) @ (v * 2)",
    ],
)
def test_other_graphs_are_left_alone(forward: str, make_problem: Make) -> None:
    problem = make_problem(forward, {"q": SHAPE, "k": SHAPE, "v": SHAPE})
    assert find_attention(problem, trace(problem.source)) is None


def test_an_output_wider_than_the_operands_is_left_alone(make_problem: Make) -> None:
    forward = "torch.softmax(q.float() @ k.float().mT, -1) @ v.float()"
    problem = make_problem(forward, {"q": SHAPE, "k": SHAPE, "v": SHAPE})
    assert find_attention(problem, trace(problem.source, "fp16"), FLOATS) is None
