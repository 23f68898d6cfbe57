"""Matrix products: every layout, triangle and structure against torch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from operators.sketches.cpp.matmul import BLOCKED_MATMUL, MATRIX_VECTOR
from operators.sketches.patterns.product import find_product
from problems.catalogue import load_level
from problems.problem import Domain, DomainKind, Problem, Scale
from problems.trace import trace

Check = Callable[..., int]
Make = Callable[..., Problem]

FAMILY = [*range(1, 5), *range(6, 12), *range(13, 19)]


@pytest.mark.parametrize("problem", load_level(1, Scale.TINY, FAMILY), ids=lambda p: p.name)
def test_catalogue(problem: Problem, check_sketch: Check) -> None:
    check_sketch(BLOCKED_MATMUL, problem)
    if problem.id == 4:  # the one with a vector
        check_sketch(MATRIX_VECTOR, problem)


@pytest.mark.parametrize(
    ("forward", "a", "b"),
    [
        ("A @ B", (5, 700), (700, 101)),
        ("A.T @ B", (33, 50), (33, 61)),
        ("torch.bmm(A, B.transpose(1, 2))", (3, 20, 19), (3, 70, 19)),
        ("torch.matmul(A, B)", (2, 3, 4, 17), (17, 9)),
        ("torch.einsum('bij,jk->bik', A, B)", (2, 9, 5), (5, 8)),
        ("A[1:] @ B[:, 2:]", (4, 6), (6, 9)),
        ("torch.tril(A @ B)", (50, 9), (9, 70)),
        ("A @ A.T", (21, 30), (1,)),
    ],
)
def test_layouts(
    forward: str, a: tuple[int, ...], b: tuple[int, ...], check_sketch: Check, make_problem: Make
) -> None:
    problem = make_problem(forward, {"A": a, "B": b})
    check_sketch(BLOCKED_MATMUL, problem, {"PACK_A": False, "PACK_B": False, "BLOCK_K": 128})


@pytest.mark.parametrize(
    ("forward", "a", "b"),
    [
        ("A @ B", (13, 300), (300,)),
        ("A @ B", (1, 77), (77, 50)),
        ("A.T @ B", (90, 50), (90, 1)),
        ("torch.bmm(A, B)", (3, 7, 90), (3, 90, 1)),
    ],
)
def test_vectors(
    forward: str, a: tuple[int, ...], b: tuple[int, ...], check_sketch: Check, make_problem: Make
) -> None:
    problem = make_problem(forward, {"A": a, "B": b})
    check_sketch(MATRIX_VECTOR, problem, {}, {"CHUNK": 256, "ACCUMULATORS": 1, "ROWS": 8})


def test_pointwise_convolution(check_sketch: Check) -> None:
    (problem,) = load_level(1, Scale.TINY, [87])
    check_sketch(BLOCKED_MATMUL, problem)


def test_every_structure(check_sketch: Check, make_problem: Make) -> None:
    problem = make_problem("A @ B", {"A": (59, 301), "B": (301, 131)})
    small = {"ROWS": 6, "VECTORS": 2}  # what tiles take longest to compile
    assert check_sketch(BLOCKED_MATMUL, problem, small, each=True) > 12


@pytest.mark.parametrize("forward", ["torch.triu(A @ B)", "A @ B", "A.T @ B.T"])
@pytest.mark.parametrize("kind", [DomainKind.UPPER_TRIANGULAR, DomainKind.LOWER_TRIANGULAR])
def test_triangles(forward: str, kind: DomainKind, check_sketch: Check, make_problem: Make) -> None:
    triangle = "triu" if kind is DomainKind.UPPER_TRIANGULAR else "tril"
    problem = make_problem(forward, {"A": (150, 150), "B": (150, 150)})
    source = problem.source.replace("torch.rand((150, 150))", f"torch.rand(150, 150).{triangle}()")
    problem = replace(problem, source=source, domains=(Domain(kind=kind), Domain(kind=kind)))
    found = find_product(problem, trace(problem.source))
    assert found is not None
    assert found.triangle[0] in (1, 2)
    small = {"BLOCK_M": 48, "BLOCK_N": 96, "BLOCK_K": 128, "ROWS": 14, "VECTORS": 1}
    check_sketch(BLOCKED_MATMUL, problem, {}, small)


@pytest.mark.parametrize("forward", ["(A + 1) @ B", "A @ B + 1", "torch.triu(A @ B, 1)"])
def test_other_graphs_are_left_alone(forward: str, make_problem: Make) -> None:
    problem = make_problem(forward, {"A": (4, 4), "B": (4, 4)})
    assert find_product(problem, trace(problem.source)) is None
