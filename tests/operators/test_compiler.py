"""The operator "compiler": Inductor's code, then other points of it."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import numpy as np

from archives.candidate import Candidate
from archives.configuration import read_configuration, read_space
from operators.compiler import COMPILER
from operators.operator import OperatorContext, Proposal
from operators.registry import load_operator
from problems.lifted import Argument, Lifted, Output
from tests.operators.lifting.texts import lifted_text, problem_of

_NAME = "softmax_looped"
_FAILED = Lifted(options="templates", reason="several_graphs", detail="two of them", kernels={})

_PRODUCT = """
def call(args):
    x, = args
    buf0 = extern_kernels.mm(x, x)
    return (buf0, )
"""


def _propose(context: OperatorContext, seed: int = 0) -> Proposal:
    return asyncio.run(COMPILER.propose([], context, np.random.default_rng(seed)))


def _context(*lifted: Lifted, known: frozenset[str] = frozenset()) -> OperatorContext:
    return OperatorContext(
        problem=problem_of(_NAME), graph=None, device="cuda", lifted=lifted, known=known
    )


def test_a_program_comes_once_and_then_other_points_of_it() -> None:
    context = _context(_FAILED, lifted_text(_NAME))
    assert load_operator("compiler").applies(context)
    first = _propose(context)
    assert first.source is not None
    assert first.note == "Inductor's code, options default"
    chosen = read_configuration(first.source)
    assert first.configurations[0] == chosen
    assert len(first.configurations) == 4
    space = read_space(first.source)
    for point in first.configurations:
        assert all(point[name] in values for name, values in space.items())
        assert sum(point[name] != chosen[name] for name in space) <= 3
    program = Candidate.of(context.problem.key, first.source).program_id
    later = _context(lifted_text(_NAME), known=frozenset({program}))
    second = _propose(later, seed=1)
    assert second.note.endswith("other points of a known program")
    assert second.source == first.source
    assert second == _propose(later, seed=1)


def test_why_there_is_no_program() -> None:
    assert not COMPILER.applies(_context())
    assert not COMPILER.applies(_context(_FAILED))
    refused = _propose(_context(_FAILED))
    assert (refused.source, refused.reason) == (None, "several_graphs")
    assert refused.note == "templates: two of them"
    strange = Lifted(options="default", code="while True: pass\n", kernels={})
    assert _propose(_context(strange)).reason == "unknown_module"
    assert _propose(_context()).reason == "nothing_lifted"


def test_a_known_program_is_left_alone_where_none_is_to_be_repeated() -> None:
    first = _propose(_context(lifted_text(_NAME)))
    assert first.source is not None
    program = Candidate.of(problem_of(_NAME).key, first.source).program_id
    once = replace(
        _context(_FAILED, lifted_text(_NAME), known=frozenset({program})), settings={"repeats": 0}
    )
    assert COMPILER.num_programs(once) == 1
    proposal = _propose(once)
    assert (proposal.source, proposal.reason) == (None, "lifts_exhausted")


def test_a_known_program_without_other_points_is_left_alone() -> None:
    problem = problem_of(_NAME)
    product = Lifted(
        options="default",
        code=_PRODUCT,
        arguments=(Argument(input=0),),
        outputs=(Output(result=0),),
        kernels={},
    )
    first = _propose(_context(product))
    assert first.source is not None
    program = Candidate.of(problem.key, first.source).program_id
    again = _propose(_context(product, known=frozenset({program})))
    assert (again.source, again.reason) == (None, "lifts_exhausted")
