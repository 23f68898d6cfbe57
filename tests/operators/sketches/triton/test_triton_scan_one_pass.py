"""Scans in one pass: tiles that wait for what the tiles before them have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from operators.sketches.sketch import Sketch
from operators.sketches.triton.lookback import TRITON_SCAN_ONE_PASS
from problems.graph import OperatorGraph
from problems.problem import Problem
from problems.trace import trace
from tests.operators.sketches.made import made_problem
from tests.operators.sketches.triton.interpreter import Case, case_of, interpreted, on_device

SUM = "torch.cumsum(x, 1)"
ZERO = "torch.zeros_like(x.narrow(1, 0, 1))"
ROWS: Mapping[str, Any] = {"BLOCK": 256, "WINDOW": 8}
COLUMNS: Mapping[str, Any] = {"ROWS": 2, "BLOCK": 256, "WINDOW": 8}
LONG, TALL = (2, 1030), (1, 1030, 3)
PUBLISHED = "    announce(first_ptr + step * ROWS, joined(carry, own), ALL)\n"


def problem(forward: str, shape: tuple[int, ...] = LONG, arguments: str = "x") -> Problem:
    inputs = dict.fromkeys(arguments.split(", "), f"torch.randn({shape})")
    return made_problem(forward, inputs, name="scan")


def _seldom(problem: Problem, graph: OperatorGraph) -> str | None:
    """The program, but only every fifth tile tells what all before it come to."""
    source = TRITON_SCAN_ONE_PASS.write(problem, graph)
    assert source is not None
    assert PUBLISHED in source
    return source.replace(PUBLISHED, "    if step % 5 == 0:\n    " + PUBLISHED)


def _mixed(problem: Problem, graph: OperatorGraph) -> str | None:
    """The program, but rows of a tile tell at different tiles: as may be seen on a device."""
    source = TRITON_SCAN_ONE_PASS.write(problem, graph)
    assert source is not None
    return source.replace(
        PUBLISHED,
        PUBLISHED
        + """    all_here = (row + step) % 6 == 0
    word = tl.where(all_here, joined(carry, own), own).to(tl.int32, bitcast=True)
    word = (word.to(tl.int64) & 0xFFFFFFFF) | ((1 + all_here.to(tl.int64)) << 32)
    tl.store(first_ptr + step * ROWS, word, mask=row + step > row)
""",
    )


MIXED = Sketch(name=TRITON_SCAN_ONE_PASS.name, device="cuda", write=_mixed)
SELDOM = Sketch(name=TRITON_SCAN_ONE_PASS.name, device="cuda", write=_seldom)


def _cases() -> dict[str, Case]:
    # Products of a thousand numbers.
    near: dict[str, Any] = {"variations": ((0.02, 1.0),), "tolerance": 64.0}
    forms: dict[str, tuple[str, str]] = {
        "sums": (SUM, "x"),
        "products": ("torch.cumprod(x, 1)", "x"),
        "from the end": ("torch.cumsum(x.flip(1), 1).flip(1)", "x"),
        "masked": ("torch.cumsum(x * y, 1)", "x, y"),
        "exclusive": (f"torch.cumsum(torch.cat(({ZERO}, x), 1)[:, :-1], 1)", "x"),
    }
    cases = {}
    for name, (forward, arguments) in forms.items():
        one = problem(forward, LONG, arguments)
        cases[name] = case_of(TRITON_SCAN_ONE_PASS, one, ROWS, specials=name == "sums", **near)
        if name in ("from the end", "exclusive"):
            tall = problem(forward, TALL, arguments)
            cases[f"{name}, columns"] = case_of(TRITON_SCAN_ONE_PASS, tall, COLUMNS, **near)
    shifted = problem(forms["exclusive"][0])
    cases["shifted loads"] = case_of(
        TRITON_SCAN_ONE_PASS, shifted, {**ROWS, "SHIFTED_LOADS": True}, **near
    )
    whole = problem(SUM, (3, 1280))
    cases["whole tiles"] = case_of(TRITON_SCAN_ONE_PASS, whole, {**ROWS, "CACHE": ".cs"}, **near)
    for window in (1, 4, 64):
        changes = {"BLOCK": 64, "WINDOW": window}
        cases[f"back by {window}"] = case_of(SELDOM, problem(SUM), changes, **near)
    changes = {**COLUMNS, "BLOCK": 64, "WINDOW": 4}
    cases["columns, back by 4"] = case_of(SELDOM, problem(SUM, TALL), changes, **near)
    cases["rows that tell apart"] = case_of(MIXED, problem(SUM, TALL), changes, **near)
    for precision in ("bfloat16", "float16"):
        cases[precision] = case_of(
            TRITON_SCAN_ONE_PASS, problem(SUM), ROWS, precision=precision, **near
        )
    return cases


CASES = _cases()


@pytest.fixture(scope="module")
def verdicts() -> dict[str, str]:
    return interpreted(CASES)


@pytest.mark.parametrize("name", CASES)
def test_programs_do_what_their_references_do(name: str, verdicts: dict[str, str]) -> None:
    assert verdicts[name] == ""


@pytest.mark.gpu
def test_the_device_agrees() -> None:
    many = problem(SUM, (7, 1 << 20))
    cases = CASES | {
        f"a million columns by {block}": replace(
            case_of(TRITON_SCAN_ONE_PASS, many, {"BLOCK": block, "WINDOW": 32}), tolerance=8.0
        )
        for block in (256, 8192)
    }
    verdicts = on_device(cases)
    assert {name: wrong for name, wrong in verdicts.items() if wrong} == {}


@pytest.mark.parametrize("shape", [(2048, 2048), (2, 1024)])
def test_many_or_short_rows_are_left_to_others(shape: tuple[int, ...]) -> None:
    one = problem(SUM, shape)
    assert TRITON_SCAN_ONE_PASS.write(one, trace(one.source)) is None
