"""Products whose last tiles are shared by programs, step by step of their depth."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from archives.configuration import read_configuration, read_space
from operators.sketches.triton.matmul import PACKED_MATMUL, TILED_MATMUL
from operators.sketches.triton.matmul_followed import PACKED_FOLLOWED, TILED_FOLLOWED
from problems.problem import Domain, DomainKind, Problem
from problems.trace import trace
from tests.operators.sketches.made import made_problem
from tests.operators.sketches.triton.interpreter import Case, case_of, interpreted, on_device

TILES: Mapping[str, Any] = {"BLOCK_M": 16, "BLOCK_N": 16, "BLOCK_K": 16}
PACKED_TILES: Mapping[str, Any] = {**TILES, "BLOCK_K": 32}
ANY_SUM: Mapping[str, Any] = {"tolerance": 128.0, "variations": ((-2.0, 0.5),)}
"""As in the tests of the same products without sharing."""


def product(rows: int, depth: int, columns: int, batch: tuple[int, ...] = ()) -> Problem:
    shapes = {"A": (*batch, rows, depth), "B": (*batch, depth, columns)}
    inputs = {name: f"torch.rand({shape})" for name, shape in shapes.items()}
    return made_problem("torch.matmul(A, B)", inputs, name="product")


ODD, DEEPER = product(40, 70, 18), product(40, 150, 18)
"""Six tiles of five steps, by `TILES` and by `PACKED_TILES`. No size is a multiple of a block, and
the lower half of the last tiles lies outside."""


def _cases() -> dict[str, Case]:
    cases = {}
    for programs, what in (
        (4, "of six tiles two by four programs"),
        (5, "of six tiles one by five programs, a step each"),
        (6, "six tiles by six programs: none is shared"),
        (13, "six tiles by thirteen programs, up to four to a tile"),
        (50, "six tiles by fifty programs: a step each, and none for twenty"),
    ):
        cases[what] = case_of(TILED_MATMUL, ODD, {**TILES, "STREAM": programs}, **ANY_SUM)
    for programs, precision in ((4, "fp16x3"), (13, "bf16x6")):
        changes = {**PACKED_TILES, "STREAM": programs, "PRECISION": precision, "CHAIN": 32}
        label = f"packed, {programs} programs, {precision}"
        cases[label] = case_of(PACKED_MATMUL, DEEPER, changes, **ANY_SUM)
    eighths = {**TILES, "BLOCK_K": 64, "STREAM": 3, "PRECISION": "fp16fp8", "CHAIN": 256}
    # Around 0, where it shows if small products are added twice.
    cases["packed, three programs, fp16fp8"] = case_of(
        PACKED_MATMUL, product(16, 600, 20), eighths, tolerance=128.0, variations=((-2.0, 1.0),)
    )
    # Half of the last tile of the first batch would lie in the second one.
    batches, even = product(40, 70, 32, (2,)), product(32, 96, 32)
    scaled = {**TILES, "STREAM": 7, "PRECISION": "fp16x3", "CHAIN": 32}
    cases["batches, fp16x3"] = case_of(TILED_MATMUL, batches, scaled, **ANY_SUM)
    halves = {**TILES, "STREAM": 8}
    cases["halves of tiles"] = case_of(TILED_MATMUL, even, halves, precision="float16")
    cases["bfloat16"] = case_of(TILED_MATMUL, ODD, {**TILES, "STREAM": 7}, precision="bfloat16")
    return cases | _followed_cases()


def _followed_cases() -> dict[str, Case]:
    inputs = {"x": "torch.rand(40, 70)", "y": "torch.rand(40, 1)"}
    build = "self.l = nn.Linear(70, 18)"
    made = made_problem("torch.sigmoid(self.l(x)) + y", inputs, build, name="followed")
    return {
        "tiled, followed": case_of(TILED_FOLLOWED, made, {**TILES, "STREAM": 13}, **ANY_SUM),
        "packed, followed": case_of(
            PACKED_FOLLOWED, made, {**PACKED_TILES, "STREAM": 4}, **ANY_SUM
        ),
    }


CASES = _cases()


@pytest.fixture(scope="module")
def verdicts() -> dict[str, str]:
    return interpreted(CASES)


@pytest.mark.parametrize("name", CASES)
def test_programs_do_what_their_references_do(name: str, verdicts: dict[str, str]) -> None:
    assert verdicts[name] == ""


@pytest.mark.gpu
def test_the_device_agrees() -> None:
    whole, few = product(1536, 1024, 1536), product(300, 2000, 500)
    shares = [{"STREAM": programs} for programs in (132, 264)]
    large = {
        f"{sketch.name} {problem.source} {changes}": case_of(sketch, problem, changes)
        for problem in (whole, few)
        for sketch in (TILED_MATMUL, PACKED_MATMUL)
        for changes in shares
    }
    verdicts = on_device(CASES | large)
    assert {name: wrong for name, wrong in verdicts.items() if wrong} == {}


def test_sharing_is_offered_and_off() -> None:
    problem = product(1536, 4096, 1536)
    for sketch in (TILED_MATMUL, PACKED_MATMUL):
        source = sketch.write(problem, trace(problem.source))
        assert source is not None
        assert read_space(source)["STREAM"] == (0, 132, 264)
        assert read_configuration(source)["STREAM"] == 0


def _triangular() -> Problem:
    domain = Domain(kind=DomainKind.UPPER_TRIANGULAR)
    problem = product(128, 128, 128)
    source = problem.source.replace("torch.rand((128, 128))", "torch.rand(128, 128).triu()")
    return replace(problem, source=source, domains=(domain, domain))


UNSHARED = {
    "many tiles": product(4096, 128, 8192),
    "one step": product(1536, 32, 1536),
    "triangles": _triangular(),
}


@pytest.mark.parametrize("problem", UNSHARED.values(), ids=list(UNSHARED))
def test_sharing_is_not_offered_where_it_brings_nothing(problem: Problem) -> None:
    for sketch in (TILED_MATMUL, PACKED_MATMUL):
        source = sketch.write(problem, trace(problem.source))
        assert source is not None
        assert "STREAM" not in read_space(source)
        assert "join_pieces" not in source
