"""Matrix products in Triton: every structure and layout against the reference in float64."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from archives.configuration import read_configuration, read_space
from operators.sketches.triton.matmul import PACKED_MATMUL, TILED_MATMUL
from operators.sketches.triton.matmul_wide import WIDE_MATMUL
from operators.sketches.triton.matvec import MATRIX_VECTOR
from operators.sketches.triton.precision import exact_from
from problems.catalogue import load_level
from problems.problem import Domain, DomainKind, Problem, Scale
from problems.trace import trace
from tests.operators.sketches.made import made_problem
from tests.operators.sketches.triton.interpreter import Case, case_of, cases_of, interpreted

FAMILY = [*range(1, 4), *range(6, 12), *range(13, 19)]
ANY_SUM: dict[str, Any] = {"tolerance": 128.0, "variations": ((-2.0, 0.5),)}
"""bf16x3 is for long sums; on the short ones here float32 itself is nearly exact. Besides, Triton's
interpreter cuts numbers off where a GPU rounds them."""


def _made(forward: str, a: tuple[int, ...], b: tuple[int, ...]) -> Problem:
    inputs = {"A": f"torch.rand({a})", "B": f"torch.rand({b})"}
    return made_problem(forward, inputs, name=forward)


def _triangles(kind: str, forward: str) -> Problem:
    problem = _made(forward, (50, 50), (50, 50))
    domain = Domain(kind=DomainKind(kind))
    draw = "triu" if domain.kind is DomainKind.UPPER_TRIANGULAR else "tril"
    source = problem.source.replace("torch.rand((50, 50))", f"torch.rand(50, 50).{draw}()")
    name = f"{forward} {draw}"
    return replace(problem, source=source, domains=(domain, domain), name=name)


TILES = {"BLOCK_M": 16, "BLOCK_N": 32, "BLOCK_K": 16}
PACKED_TILES = {**TILES, "BLOCK_K": 32}


def _catalogue_cases() -> Iterator[tuple[str, Case]]:
    plain: dict[str, Any] = {"variations": ((1.0, 0.0), (-8.0, 0.0)), "tolerance": 32.0}
    for problem in load_level(1, Scale.TINY, FAMILY):
        # A long sum in order, against one that some processors' libraries sum in 16 parts.
        sums = {**plain, "tolerance": 128.0} if problem.id == 6 else plain
        yield f"tiled {problem.name}", case_of(TILED_MATMUL, problem, **sums)
        if problem.id in (7, 9):
            yield f"wide {problem.name}", case_of(WIDE_MATMUL, problem, **plain)
        if problem.id != 6:
            yield f"packed {problem.name}", case_of(PACKED_MATMUL, problem, **plain)
    (problem,) = load_level(1, Scale.TINY, [4])
    yield "vector of the catalogue", case_of(MATRIX_VECTOR, problem)


def _precision_cases() -> Iterator[tuple[str, Case]]:
    odd, long = _made("A @ B", (37, 50), (50, 67)), _made("A @ B", (16, 1600), (1600, 32))
    for precision in ("bf16x3", "fp16x3", "ieee", "tf32x3", "bf16x6"):
        changes = {**TILES, "PRECISION": precision}
        yield f"tiled {precision}", case_of(TILED_MATMUL, odd, changes, **ANY_SUM)
    changes = {**TILES, "CHAIN": 32}
    yield "tiled, chained", case_of(TILED_MATMUL, odd, changes, **ANY_SUM)
    for chain in (64, 4096):
        several = {**PACKED_TILES, "CHAIN": chain, "PROGRAMS": 3}
        for precision in ("bf16x3", "fp16x3", "bf16x6"):
            case = case_of(PACKED_MATMUL, odd, {**several, "PRECISION": precision}, **ANY_SUM)
            yield f"packed {precision} {chain}", case
        changes = {**several, "PRECISION": "fp16fp8", "BLOCK_K": 128, "CHAIN": 16 * chain}
        yield f"packed fp16fp8 {chain}", case_of(PACKED_MATMUL, long, changes, **ANY_SUM)
    changes = {**PACKED_TILES, "PRECISION": "fp16x3", "CHAIN": 32, "SUMS": "memory"}
    yield "packed, summed in memory", case_of(PACKED_MATMUL, odd, changes, **ANY_SUM)
    short = {"BLOCK_M": 16, "BLOCK_N": 32, "SPANS": 2}
    made = _made("torch.bmm(A, B)", (2, 21, 18), (2, 18, 70))
    yield "wide, odd", case_of(WIDE_MATMUL, made, short, **ANY_SUM)
    made = _made("A @ B", (32, 32), (32, 64))
    yield from cases_of(WIDE_MATMUL, made, short, **ANY_SUM).items()
    even = _made("A @ B", (40, 32), (32, 64))
    yield from cases_of(PACKED_MATMUL, even, PACKED_TILES, **ANY_SUM).items()
    half = case_of(TILED_MATMUL, odd, TILES, precision="float16")
    yield "tiled in float16", half
    vector = _made("A @ B", (13, 300), (300,))
    yield "vector in bfloat16", case_of(MATRIX_VECTOR, vector, precision="bfloat16")


def _layout_cases() -> Iterator[tuple[str, Case]]:
    for forward, a, b in (
        ("A.T @ B", (33, 18), (33, 40)),
        ("torch.bmm(A, B.transpose(1, 2))", (3, 20, 19), (3, 37, 19)),
        ("torch.einsum('bij,jk->bik', A, B)", (2, 19, 17), (17, 18)),
        ("A[1:] @ B[:, 2:]", (20, 16), (16, 19)),
        ("A @ A.T", (21, 30), (1,)),
    ):
        made = _made(forward, a, b)
        halved = {**TILES, "SPLIT_K": 2}
        yield f"tiled {forward}", case_of(TILED_MATMUL, made, halved, **ANY_SUM)
        yield f"packed {forward}", case_of(PACKED_MATMUL, made, PACKED_TILES, **ANY_SUM)
    for forward, a, b in (
        ("A @ B", (13, 300), (300,)),
        ("A @ B", (1, 77), (77, 50)),
        ("torch.bmm(A, B)", (3, 7, 90), (3, 90, 1)),
    ):
        changes = {"BLOCK_M": 4, "BLOCK_K": 64, "SPLIT_K": 2}
        yield f"vector {forward} {a}", case_of(MATRIX_VECTOR, _made(forward, a, b), changes)


def _triangle_cases() -> Iterator[tuple[str, Case]]:
    options = {**ANY_SUM, "variations": ((-2.0, 0.0),)}
    for kind in ("upper_triangular", "lower_triangular"):
        for forward in ("A @ B", "torch.triu(A @ B)", "torch.tril(A @ B)", "A.T @ B"):
            made = _triangles(kind, forward)
            yield f"tiled {made.name}", case_of(TILED_MATMUL, made, TILES, **options)
            yield f"packed {made.name}", case_of(PACKED_MATMUL, made, PACKED_TILES, **options)
    made = _triangles("lower_triangular", "A @ B")
    for sketch, tiles in ((TILED_MATMUL, TILES), (PACKED_MATMUL, PACKED_TILES)):
        yield from cases_of(sketch, made, tiles, **options).items()


CASES = {
    **dict(_catalogue_cases()),
    **dict(_precision_cases()),
    **dict(_layout_cases()),
    **dict(_triangle_cases()),
}


@pytest.fixture(scope="module")
def verdicts() -> dict[str, str]:
    return interpreted(CASES)


@pytest.mark.parametrize("name", CASES)
def test_programs(name: str, verdicts: dict[str, str]) -> None:
    assert verdicts[name] == ""


@pytest.mark.parametrize("number", [1, 3, 7, 11, 14])
def test_the_default_is_a_point_of_a_small_space(number: int) -> None:
    (problem,) = load_level(1, Scale.OFFICIAL, [number])
    graph = trace(problem.source)
    for sketch in (TILED_MATMUL, PACKED_MATMUL):
        source = sketch.write(problem, graph)
        assert source is not None
        space, default = read_space(source), read_configuration(source)
        assert all(default[name] in values for name, values in space.items())
        size = 1
        for values in space.values():
            size *= len(values)
        assert size <= 10_000


def test_short_sums_ask_for_finer_splits() -> None:
    assert exact_from("bf16x3", 4096)
    assert not exact_from("bf16x3", 64)
    assert exact_from("fp16x3", 64)


@pytest.mark.parametrize("forward", ["(A + 1) @ B", "A @ B + 1", "torch.triu(A @ B, 1)"])
@pytest.mark.parametrize("write", [TILED_MATMUL.write, PACKED_MATMUL.write, MATRIX_VECTOR.write])
def test_other_graphs_are_left_alone(forward: str, write: Callable[..., str | None]) -> None:
    problem = _made(forward, (16, 16), (16, 16))
    assert write(problem, trace(problem.source)) is None
