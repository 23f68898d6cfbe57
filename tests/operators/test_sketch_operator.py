from __future__ import annotations

import asyncio
from dataclasses import replace

import numpy as np
import pytest

from archives.candidate import Candidate
from archives.configuration import read_configuration, read_space
from operators.operator import OperatorContext, Proposal
from operators.relatives import Relative
from operators.sketch import SketchOperator
from operators.sketches.cpp.sweeps import SHIFTED_SWEEP, SWEEP
from problems.graph import OperatorGraph
from problems.problem import Problem, Scale
from problems.trace import trace

SOURCE = """
import torch
from torch import nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(24)

    def forward(self, x):
        return self.norm(x)

def get_inputs():
    return [torch.rand(3, 24)]

def get_init_inputs():
    return []
"""
CASE = Problem(level=0, id=1, name="norm", family="norm", scale=Scale.CUSTOM, source=SOURCE)
OPERATOR = SketchOperator(sketches=(SWEEP, SHIFTED_SWEEP))


@pytest.fixture(scope="module")
def context() -> OperatorContext:
    return OperatorContext(problem=CASE, graph=trace(SOURCE))


def propose(context: OperatorContext, seed: int = 0) -> Proposal:
    return asyncio.run(OPERATOR.propose([], context, np.random.default_rng(seed)))


def program_id(source: str) -> str:
    return Candidate.of(CASE.key, source).program_id


def test_the_same_seed_gives_the_same_proposal(context: OperatorContext) -> None:
    assert propose(context) == propose(context)
    assert len({propose(context, seed).source for seed in range(8)}) == 2


def test_the_first_proposal_of_a_sketch_holds_its_default(context: OperatorContext) -> None:
    proposal = propose(context)
    assert proposal.source is not None
    points = [dict(point) for point in proposal.configurations]
    assert points[0] == read_configuration(proposal.source)
    assert len(points) == 4
    assert all(points.count(point) == 1 for point in points)
    space = read_space(proposal.source)
    assert all(point[name] in space[name] for point in points for name in space)
    assert proposal.note == "sketch sweep" or "variance" in proposal.note


def test_settings_tell_how_many_points(context: OperatorContext) -> None:
    proposal = propose(replace(context, settings={"configurations": 9}))
    assert len(proposal.configurations) == 9


def test_programs_not_yet_known_come_first(context: OperatorContext) -> None:
    first = propose(context).source
    assert first is not None
    known = replace(context, known=frozenset({program_id(first)}))
    others = {propose(known, seed).source for seed in range(6)}
    assert len(others) == 1
    assert first not in others


def test_known_programs_are_proposed_again_with_other_points(context: OperatorContext) -> None:
    both = [propose(context, seed).source for seed in range(8)]
    known = frozenset(program_id(source) for source in both if source is not None)
    proposal = propose(replace(context, known=known))
    assert proposal.source in both
    assert "known" in proposal.note
    assert proposal.configurations


def test_known_programs_are_left_alone_where_none_is_to_be_repeated(
    context: OperatorContext,
) -> None:
    once = replace(context, settings={"repeats": 0})
    both = {propose(once, seed).source for seed in range(8)}
    assert OPERATOR.num_programs(once) == len(both) == 2
    known = frozenset(program_id(source) for source in both if source is not None)
    proposal = propose(replace(once, known=known))
    assert (proposal.source, proposal.reason) == (None, "sketches_exhausted")


def test_what_no_sketch_covers_is_a_reason(context: OperatorContext) -> None:
    empty = OperatorGraph(inputs=(), parameters={}, buffers={}, nodes=(), outputs=("node0",))
    proposal = propose(replace(context, graph=empty))
    assert proposal.source is None
    assert proposal.reason == "no_sketch_matches"


def test_it_applies_where_there_is_a_graph_and_a_sketch_for_the_device(
    context: OperatorContext,
) -> None:
    assert OPERATOR.applies(context)
    assert not OPERATOR.applies(replace(context, graph=None))
    assert not OPERATOR.applies(replace(context, device="cuda"))


def test_what_was_best_for_relatives_follows_the_default(context: OperatorContext) -> None:
    source = propose(context).source
    assert source is not None
    default, space = read_configuration(source), read_space(source)
    others = [
        {**default, name: value}
        for name, values in space.items()
        for value in values
        if value != default[name]
    ][:3]
    relatives = [Relative(problem="1/40 LayerNorm", configuration=one) for one in others]
    related = replace(context, relatives=relatives)
    assert list(propose(related).configurations[:3]) == [default, *others[:2]]
    off = replace(related, settings={"transfer": 0})
    assert propose(off) == propose(context)
