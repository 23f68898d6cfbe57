"""Exclusive scans: products, masks before or after the move by one, and what is none."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from operators.sketches.cpp.scan import SCAN_COLUMNS, SCAN_ROWS
from operators.sketches.patterns.scan import find_scan
from problems.problem import Problem
from problems.trace import trace

Check = Callable[..., int]
Make = Callable[..., Problem]

CAT = "torch.cat((torch.{}_like(x.narrow(1, 0, 1)), {}), 1)"
FORMS = {
    "product": f"torch.cumprod({CAT.format('ones', 'x[:, :-1]')}, 1)",
    "masked": f"torch.cumsum({CAT.format('zeros', '(x * y)[:, :-1]')}, 1)",
    "masked before": f"torch.cumsum({CAT.format('zeros', 'x[:, :-1] * y[:, :-1]')}, 1)",
    "masked product": f"torch.cumprod({CAT.format('ones', '(x * y)[:, :-1]')}, 1)",
    "cut when joined": f"torch.cumsum({CAT.format('zeros', 'x')}[:, :-1], 1)",
    "masked, cut when joined": f"torch.cumsum({CAT.format('zeros', 'x * y')}[:, :-1], 1)",
}


@pytest.mark.parametrize("form", FORMS)
def test_forms(form: str, check_sketch: Check, make_problem: Make) -> None:
    names = "xy" if "y" in FORMS[form] else "x"
    for shape in ((7, 83), (3, 37, 21)):
        problem = make_problem(FORMS[form], dict.fromkeys(names, shape))
        check_sketch(SCAN_COLUMNS, problem)
        if len(shape) == 2:
            check_sketch(SCAN_ROWS, problem, {}, *([{"STAGED": True}] if names == "xy" else []))


@pytest.mark.parametrize(
    "forward",
    [
        f"torch.cumprod({CAT.format('zeros', 'x[:, :-1]')}, 1)",
        f"torch.cumsum({CAT.format('ones', 'x[:, :-1]')}, 1)",
        f"torch.cumsum({CAT.format('zeros', 'x[:, 1:]')}, 1)",
        f"torch.cumsum({CAT.format('zeros', '(x * y)[:, 1:]')}, 1)",
        f"torch.cumsum({CAT.format('zeros', 'x[:, :-1] * y[:, 1:]')}, 1)",
        f"torch.cumsum({CAT.format('zeros', '(x + y)[:, :-1]')}, 1)",
        f"torch.cumsum({CAT.format('zeros', '(x * y).mT[:, :-1]')}, 1)",
        f"torch.cumsum({CAT.format('zeros', '(x * 2.0)[:, :-1]')}, 1)",
        f"torch.cumsum({CAT.format('zeros', 'x[:, :-1] * 2.0')}, 1)",
        f"torch.cumsum({CAT.format('zeros', 'x[:, :-1] * y[:, :1]')}, 1)",
        f"torch.cumsum({CAT.format('zeros', 'x')}[:, 1:], 1)",
        f"torch.cumsum({CAT.format('ones', 'x')}[:, :-1], 1)",
        f"torch.cumsum({CAT.format('zeros', '(x * y)[:, 1:]')}[:, :6], 1)",
        f"torch.cumsum({CAT.format('zeros', 'x.flip(1)')}[:, :-1], 1)",
        f"torch.cumsum({CAT.format('zeros', CAT.format('zeros', 'x[:, :-1]'))}[:, :-1], 1)",
    ],
)
def test_other_graphs_are_left_alone(forward: str, make_problem: Make) -> None:
    problem = make_problem(forward, {"x": (6, 6), "y": (6, 6)})
    assert find_scan(trace(problem.source)) is None
