"""Scans: every form, structure and dimension against torch."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from operators.sketches.cpp.scan import SCAN_COLUMNS, SCAN_ROWS
from operators.sketches.patterns.scan import find_scan
from operators.sketches.sketch import Sketch
from problems.catalogue import load_level
from problems.problem import Problem, Scale
from problems.trace import trace

Check = Callable[..., int]
Make = Callable[..., Problem]

FORMS = {
    "sum": "torch.cumsum(x, dim={dim})",
    "product": "torch.cumprod(x, dim={dim})",
    "reverse": "torch.cumsum(x.flip({dim}), dim={dim}).flip({dim})",
    "exclusive": (
        "torch.cumsum(torch.cat((torch.zeros_like(x.narrow({dim}, 0, 1)), "
        "x.narrow({dim}, 0, x.size({dim}) - 1)), dim={dim}), dim={dim})"
    ),
    "masked": "torch.cumsum(x * (y), dim={dim})",
}


@pytest.mark.parametrize("sketch", [SCAN_ROWS, SCAN_COLUMNS], ids=lambda s: s.name)
@pytest.mark.parametrize("problem", load_level(1, Scale.TINY, range(89, 94)), ids=lambda p: p.name)
def test_catalogue(problem: Problem, sketch: Sketch, check_sketch: Check) -> None:
    check_sketch(sketch, problem)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_forms_over_any_dimension(
    form: str, dim: int, check_sketch: Check, make_problem: Make
) -> None:
    shapes = {"x": (3, 37, 21)} | ({"y": (3, 37, 21)} if form == "masked" else {})
    problem = make_problem(FORMS[form].format(dim=dim), shapes)
    check_sketch(SCAN_COLUMNS, problem)
    if dim == -1:
        check_sketch(SCAN_ROWS, problem, {}, {"LANES": 4, "ROWS": 2, "BLOCKS": 1})


@pytest.mark.parametrize("form", ["product", "exclusive"])
@pytest.mark.parametrize("sketch", [SCAN_ROWS, SCAN_COLUMNS], ids=lambda s: s.name)
def test_every_structure(
    form: str, sketch: Sketch, check_sketch: Check, make_problem: Make
) -> None:
    problem = make_problem(FORMS[form].format(dim=1), {"x": (7, 83)})
    assert check_sketch(sketch, problem, each=True) > 4


def test_mask_in_its_own_stage(check_sketch: Check) -> None:
    (problem,) = load_level(1, Scale.TINY, [93])
    check_sketch(SCAN_ROWS, problem, {"STAGED": True})
    check_sketch(SCAN_COLUMNS, problem, {"STAGED": True})


@pytest.mark.parametrize(
    "forward",
    [
        "torch.cumsum(x.flip(0), dim=1).flip(0)",
        "torch.cumsum(x.flip(1), dim=1)",
        "torch.cumsum(x, dim=1) + 1",
        "torch.cumsum(x * 2, dim=1)",
        "torch.cumsum(x.T, dim=1)",
    ],
)
def test_other_graphs_are_left_alone(forward: str, make_problem: Make) -> None:
    assert find_scan(trace(make_problem(forward, {"x": (4, 4)}).source)) is None
