"""Rewrites: each keeps what its kernels compute, in Triton's interpreter, and knows its place."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from archives.attempt import Slot
from archives.candidate import Candidate
from archives.configuration import read_configuration, read_space
from archives.evaluation import Evaluation, Status
from operators.lifting.program import write_lifted
from operators.operator import OperatorContext, Parent
from operators.rewrite import REWRITE
from operators.rewrites.memory import CACHE_MODIFIER, EVICTION_POLICY
from operators.rewrites.registry import REWRITES
from operators.rewrites.source import Module, edited, parse_module
from problems.problem import Problem, Scale
from tests.operators.lifting.texts import lifted_text, problem_of
from tests.operators.sketches.triton.interpreter import Case, interpreted

_SOFTMAX = """
import torch
import triton
import triton.language as tl
from torch import nn

TUNE_PARAMS = {"BLOCK": [16, 32], "num_warps": [1, 2]}
CONFIG = {"BLOCK": 16, "num_warps": 1}
DEVICE = "cpu"


@triton.jit
def softmax(x_ptr, y_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    highest = tl.full([BLOCK], float("-inf"), tl.float32)
    for start in range(0, columns, BLOCK):
        place = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * columns + place, mask=place < columns, other=float("-inf"))
        highest = tl.maximum(highest, x)
    top = tl.max(highest, 0)
    total = tl.zeros([BLOCK], tl.float32)
    for start in range(0, columns, BLOCK):
        place = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * columns + place, mask=place < columns, other=float("-inf"))
        total += tl.exp(x - top)
    sum = tl.sum(total, 0)
    for start in range(0, columns, BLOCK):
        place = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * columns + place, mask=place < columns, other=float("-inf"))
        tl.store(y_ptr + row * columns + place, tl.exp(x - top) / sum, mask=place < columns)


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        softmax[(x.shape[0],)](x, y, x.shape[1], BLOCK=CONFIG["BLOCK"], num_warps=1)
        return y
"""
_MATMUL = """
import torch
import triton
import triton.language as tl
from torch import nn

DEVICE = "cpu"


@triton.jit
def product(a_ptr, b_ptr, c_ptr, M, N, K, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    across = tl.cdiv(N, BLOCK)
    row = pid // across
    column = pid % across
    rows = row * BLOCK + tl.arange(0, BLOCK)
    columns = column * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK, BLOCK], tl.float32)
    for start in range(0, K, BLOCK):
        depth = start + tl.arange(0, BLOCK)
        a = tl.load(a_ptr + rows[:, None] * K + depth[None, :],
                    mask=(rows[:, None] < M) & (depth[None, :] < K), other=0.0)
        b = tl.load(b_ptr + depth[:, None] * N + columns[None, :],
                    mask=(depth[:, None] < K) & (columns[None, :] < N), other=0.0)
        total = tl.dot(a, b, total)
    inside = (rows[:, None] < M) & (columns[None, :] < N)
    tl.store(c_ptr + rows[:, None] * N + columns[None, :], total / 2.0, mask=inside)


class ModelNew(nn.Module):
    def forward(self, a, b):
        (m, k), n = a.shape, b.shape[1]
        c = torch.empty(m, n, device=DEVICE)
        product[(triton.cdiv(m, 16) * triton.cdiv(n, 16),)](a, b, c, m, n, k, BLOCK=16,)
        return c
"""


def _reference(expression: str, arguments: str, *shapes: str) -> str:
    inputs = ", ".join(f"torch.randn({shape})" for shape in shapes)
    return (
        "import torch\nfrom torch import nn\n\n\nclass Model(nn.Module):\n"
        f"    def forward(self, {arguments}):\n        return {expression}\n\n\n"
        f"def get_inputs():\n    return [{inputs}]\n\n\ndef get_init_inputs():\n    return []\n"
    )


_PROGRAMS = {
    "softmax": (_SOFTMAX, _reference("torch.softmax(x, 1)", "x", "7, 45")),
    "matmul": (_MATMUL, _reference("a @ b / 2.0", "a, b", "37, 20", "20, 51")),
    "lifted": (
        write_lifted(problem_of("cumsum"), lifted_text("cumsum")).replace('"cuda"', '"cpu"'),
        problem_of("cumsum").source,
    ),
}
_FITTING = {
    "softmax": {
        "eviction_policy", "cache_modifier", "pipeline", "unroll", "exp2", "reciprocal",
        "persistent", "several_tiles", "reversed",
    },
    "matmul": {
        "eviction_policy", "cache_modifier", "pipeline", "unroll", "reciprocal", "dot_precision",
        "persistent", "several_tiles", "swizzle", "reversed",
    },
    "lifted": {"eviction_policy", "cache_modifier", "persistent", "several_tiles", "reversed"},
}  # fmt: skip


def _children() -> dict[str, Case]:
    cases = {}
    for program, (source, reference) in _PROGRAMS.items():
        module = parse_module(source)
        assert module is not None
        for rewrite in REWRITES:
            child = rewrite.apply(module, np.random.default_rng(3))
            if child is not None:
                cases[f"{program} {rewrite.name}"] = Case(
                    # So that a program has several tiles.
                    program=child.source.replace("1056", "2"),
                    reference=reference,
                    # A product in tf32 is one in float32 to the interpreter.
                    tolerance=64.0,
                    variations=((1.0, 0.0),),
                )
    return cases


CASES = _children()


@pytest.fixture(scope="module")
def verdicts() -> dict[str, str]:
    return interpreted(CASES)


@pytest.mark.parametrize("name", CASES)
def test_a_rewritten_program_does_what_it_did(name: str, verdicts: dict[str, str]) -> None:
    assert verdicts[name] == ""


@pytest.mark.parametrize("program", _PROGRAMS)
def test_each_rewrite_knows_where_it_fits(program: str) -> None:
    fitting = {name.split()[1] for name in CASES if name.split()[0] == program}
    assert fitting == _FITTING[program]


def test_all_rewrites_are_covered() -> None:
    assert {rewrite.name for rewrite in REWRITES} == set().union(*_FITTING.values())


def test_a_persistent_grid_is_a_parameter_of_the_search() -> None:
    child = CASES["softmax persistent"].program
    assert read_space(child)["PROGRAMS"] == (132, 264, 528, 2, 2112)
    assert read_configuration(child)["PROGRAMS"] == 2
    assert 'softmax[(min(x.shape[0], CONFIG["PROGRAMS"]),)]' in child


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("    row = tl.program_id(0)\n", "    row = tl.program_id(0)\n    x_ptr += 0\n"),
        ("    top = tl.max", "    tl.atomic_add(y_ptr, 0.0)\n    top = tl.max"),
        ("softmax[(x.shape[0],)]", "softmax[lambda meta: (7,)]"),
        (
            "    row = tl.program_id(0)\n",
            "    row = tl.program_id(0)\n    if row > 8:\n        return\n",
        ),
    ],
)
def test_a_loop_over_tiles_is_refused_where_it_would_change_the_result(old: str, new: str) -> None:
    module = parse_module(_SOFTMAX.replace(old, new, 1))
    assert module is not None
    refused = {
        rewrite.name
        for rewrite in REWRITES
        if rewrite.apply(module, np.random.default_rng(0)) is None
    }
    assert {"persistent", "several_tiles"} <= refused


@pytest.mark.parametrize(
    "helper",
    [
        "    while tl.load(p) == 0.0:\n        pass\n    return tl.load(p)\n",
        "    return tl.load(p + tl.program_id(0))\n",
    ],
)
def test_what_a_kernel_calls_is_looked_at_too(helper: str) -> None:
    called = f"@triton.jit\ndef take(p):\n{helper}\n\n@triton.jit\n"
    source = _SOFTMAX.replace("@triton.jit\n", called, 1)
    source = source.replace("    top = tl.max", "    take(y_ptr)\n    top = tl.max", 1)
    module = parse_module(source)
    assert module is not None
    refused = {
        rewrite.name
        for rewrite in REWRITES
        if rewrite.apply(module, np.random.default_rng(0)) is None
    }
    assert {"persistent", "several_tiles", "reversed", "swizzle"} <= refused


def _parent(problem: Problem, source: str) -> Parent:
    return Parent(
        slot=Slot(problem=problem.key, generation=1, island=0, index=0),
        candidate=Candidate.of(problem.key, source),
        evaluation=Evaluation(status=Status.CRASHED, reason="x"),
    )


def test_the_operator_proposes_a_new_program_until_there_is_none() -> None:
    problem = Problem(
        level=0, id=1, name="made", family="custom", scale=Scale.CUSTOM,
        source=_reference("torch.softmax(x, 1)", "x", "7, 45"),
    )  # fmt: skip
    parent, known = _parent(problem, _SOFTMAX), set[str]()
    context = OperatorContext(problem=problem, graph=None, device="cuda")
    assert REWRITE.applies(context)
    for seed in range(12):
        proposal = asyncio.run(REWRITE.propose([parent], context, np.random.default_rng(seed)))
        again = asyncio.run(REWRITE.propose([parent], context, np.random.default_rng(seed)))
        assert proposal.source is not None
        assert proposal == again
        known.add(Candidate.of(problem.key, proposal.source).program_id)
    assert len(known) >= 6
    plain = _parent(problem, "import torch\n")
    refused = asyncio.run(REWRITE.propose([plain], context, np.random.default_rng(0)))
    assert refused.reason == "no_triton_kernel"
    assert not REWRITE.applies(OperatorContext(problem=problem, graph=None, device="cpu"))


def _accessing(name: str, value: str, *calls: str) -> Module:
    """The softmax with a keyword at some of its accesses."""
    module = parse_module(_SOFTMAX)
    assert module is not None
    found = [call for kernel in module.kernels for call in kernel.calls(*calls)]
    given = parse_module(edited(module, [module.keyword(call, name, value) for call in found]))
    assert given is not None
    return given


@pytest.mark.parametrize("policy", ["POLICY", "'evict_first'"])
def test_no_access_gets_a_cache_modifier_beside_an_eviction_policy(policy: str) -> None:
    module = _accessing("eviction_policy", policy, "tl.load")
    for seed in range(20):
        child = CACHE_MODIFIER.apply(module, np.random.default_rng(seed))
        assert child is not None
        assert "of tl.store" in child.note


@pytest.mark.parametrize("modifier", ["CACHE", "'.cg'"])
def test_no_access_gets_an_eviction_policy_beside_a_cache_modifier(modifier: str) -> None:
    module = _accessing("cache_modifier", modifier, "tl.load", "tl.store")
    assert EVICTION_POLICY.apply(module, np.random.default_rng(0)) is None
