"""Scans in Triton's interpreter, every form and structural option included."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from operators.sketches.triton.scan import TRITON_SCAN
from problems.catalogue import load_level
from problems.problem import Problem, Scale
from tests.operators.sketches.made import made_problem
from tests.operators.sketches.triton.interpreter import Case, case_of, interpreted, on_device


def problem(forward: str, shape: tuple[int, ...], arguments: str = "x") -> Problem:
    inputs = dict.fromkeys(arguments.split(", "), f"torch.randn({shape})")
    return made_problem(forward, inputs, name="scan")


FORMS: dict[str, tuple[str, tuple[int, ...], Mapping[str, Any]]] = {
    "odd rows": ("torch.cumsum(x, 1)", (3, 45), {"BLOCK": 16}),
    "whole rows": ("torch.cumsum(x, 1)", (3, 64), {"BLOCK": 64}),
    "rows in parts": ("torch.cumsum(x, 1)", (2, 90), {"BLOCK": 16, "WAVES": 8}),
    "products": ("torch.cumprod(x, 1)", (2, 45), {"BLOCK": 16, "WAVES": 4}),
    "from the end": ("torch.cumsum(x.flip(1), 1).flip(1)", (2, 45), {"BLOCK": 16, "WAVES": 4}),
    "columns": ("torch.cumsum(x, 1)", (2, 45, 5), {"ROWS": 4, "BLOCK": 16, "WAVES": 2}),
    "columns in parts": ("torch.cumsum(x, 0)", (45, 5), {"ROWS": 8, "BLOCK": 8, "WAVES": 4}),
    "columns from the end": (
        "torch.cumsum(x.flip(0), 0).flip(0)",
        (20, 5),
        {"ROWS": 8, "BLOCK": 8, "STAGES": 2},
    ),
}

ONE = "torch.{}_like(x.narrow(1, 0, 1))"
EXCLUSIVE = {
    "exclusive product": f"torch.cumprod(torch.cat(({ONE.format('ones')}, x[:, :-1]), 1), 1)",
    "exclusive, masked": (
        f"torch.cumsum(torch.cat(({ONE.format('zeros')}, (x * y)[:, :-1]), 1), 1)"
    ),
    "exclusive, cut when joined": (
        f"torch.cumsum(torch.cat(({ONE.format('zeros')}, x), 1)[:, :-1], 1)"
    ),
    "exclusive, masked and cut when joined": (
        f"torch.cumsum(torch.cat(({ONE.format('zeros')}, x * y), 1)[:, :-1], 1)"
    ),
    "exclusive product, masked before": (
        f"torch.cumprod(torch.cat(({ONE.format('ones')}, x[:, :-1] * y[:, :-1]), 1), 1)"
    ),
}


def _exclusive_cases() -> Iterator[tuple[str, Case]]:
    rows: Mapping[str, Any] = {"BLOCK": 16, "WAVES": 6}
    columns: Mapping[str, Any] = {"BLOCK": 16, "ROWS": 4, "WAVES": 2}
    for name, forward in EXCLUSIVE.items():
        arguments = "x, y" if "y" in forward else "x"
        for shifted in (False, True):
            one, changes = problem(forward, (2, 37), arguments), {**rows, "SHIFTED_LOADS": shifted}
            case = case_of(TRITON_SCAN, one, changes, variations=((-2.0, 0.5),), specials=True)
            yield f"{name}, shifted {shifted}", case
        one = problem(forward, (1, 21, 3), arguments)
        yield f"{name}, columns", case_of(TRITON_SCAN, one, columns, variations=((-2.0, 0.5),))


def _cases() -> dict[str, Case]:
    cases = {
        name: case_of(TRITON_SCAN, problem(forward, shape), changes, specials=True)
        for name, (forward, shape, changes) in FORMS.items()
    }
    for one in load_level(1, Scale.TINY, (89, 90, 91, 92, 93)):
        cases[one.name] = case_of(TRITON_SCAN, one, {"BLOCK": 256})
    for precision in ("bfloat16", "float16"):
        one = problem("torch.cumsum(x, 1)", (3, 45))
        changes = {"BLOCK": 16, "WAVES": 8}
        cases[precision] = case_of(TRITON_SCAN, one, changes, precision=precision)
    masked = problem("torch.cumprod((x * y).flip(1), 1).flip(1)", (3, 45), "x, y")
    cases["masked product"] = case_of(TRITON_SCAN, masked, {"BLOCK": 16})
    many = problem("torch.cumsum(x, 1)", (2050, 5))
    cases["rows enough for a device"] = case_of(TRITON_SCAN, many, {"BLOCK": 8})
    exclusive = load_level(1, Scale.TINY, (92,))[0]
    for waves in (1, 16):
        changes = {"BLOCK": 256, "SHIFTED_LOADS": True, "WAVES": waves}
        cases[f"exclusive by loads {waves}"] = case_of(TRITON_SCAN, exclusive, changes)
    return cases | dict(_exclusive_cases())


CASES = _cases()


DEVICE_ALONE = "rows enough for a device"
"""Two thousand programs, one after the other, take the interpreter 40 s."""
INTERPRETED = {name: case for name, case in CASES.items() if name != DEVICE_ALONE}


@pytest.fixture(scope="module")
def verdicts() -> dict[str, str]:
    return interpreted(INTERPRETED)


@pytest.mark.parametrize("name", INTERPRETED)
def test_programs_do_what_their_references_do(name: str, verdicts: dict[str, str]) -> None:
    assert verdicts[name] == ""


@pytest.mark.gpu
def test_the_device_agrees() -> None:
    verdicts = on_device(CASES)
    assert {name: wrong for name, wrong in verdicts.items() if wrong} == {}
