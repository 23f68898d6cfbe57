"""Each problem of the covered families has a sketch over terms, and its program is right."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

import pytest
import torch

from operators.sketches.cpp.sweeps import KEPT_SWEEP, ONLINE_SWEEP, SHIFTED_SWEEP, SWEEP
from operators.sketches.cpp.tiles import COLUMN_TILES
from problems.catalogue import load_level
from problems.problem import Domain, DomainKind, Problem, Scale
from problems.trace import trace

FAMILIES = {"elementwise", "loss", "norm", "reduction"}
PROBLEMS = [p for p in load_level(1, Scale.TINY) if p.family in FAMILIES]


def varied(inputs: list[object], domains: tuple[Domain, ...], factor: float) -> list[object]:
    """Inputs scaled where their domain allows it."""
    return [
        x * factor if isinstance(x, torch.Tensor) and domain.kind is DomainKind.REAL else x
        for x, domain in zip(inputs, domains, strict=True)
    ]


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: problem.label)
def test_every_program_is_right(
    problem: Problem,
    load_program: Callable[[str], ModuleType],
    assert_close: Callable[[torch.Tensor, torch.Tensor, torch.Tensor], None],
) -> None:
    graph = trace(problem.source)
    sketches = (SWEEP, KEPT_SWEEP, ONLINE_SWEEP, SHIFTED_SWEEP, COLUMN_TILES)
    sources = [s for s in (sketch.write(problem, graph) for sketch in sketches) if s is not None]
    assert sources
    reference = load_program(problem.source)
    init = reference.get_init_inputs()
    torch.manual_seed(problem.id)
    drawn = reference.get_inputs()
    domains = problem.domains
    for source in sources:
        program = load_program(source)
        for factor in (1.0, -30.0):
            model, double = reference.Model(*init), reference.Model(*init).double()
            new = program.ModelNew(*init)
            new.load_state_dict(model.state_dict())
            inputs = varied(drawn, domains, factor)
            wide = [
                x.double() if isinstance(x, torch.Tensor) and x.is_floating_point() else x
                for x in inputs
            ]
            with torch.no_grad():
                assert_close(new(*inputs), model(*inputs), double(*wide))
            for name, value in model.state_dict().items():
                torch.testing.assert_close(new.state_dict()[name], value, rtol=1e-4, atol=1e-5)
