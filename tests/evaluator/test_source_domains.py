"""Domains as a problem's source shows them: nothing is claimed that its values may not keep."""

from __future__ import annotations

import sys

import pytest

from evaluator.referee.source_domains import domains_from_source, known_domains
from problems.catalogue import load_level
from problems.graph import TensorSpec
from problems.problem import Scale
from problems.trace import trace

SQUARE = TensorSpec(shape=(8, 8), stride=(8, 1), dtype="float32", storage=0)
LONG = TensorSpec(shape=(8, 4), stride=(4, 1), dtype="float32", storage=0)
FLAT = TensorSpec(shape=(8,), stride=(1,), dtype="float32", storage=0)


def kinds(*lines: str, spec: object = SQUARE) -> list[str]:
    """Kinds of one input `A`, made by lines of `get_inputs`."""
    body = "\n".join(f"    {line}" for line in (*lines, "return [A]"))
    source = f"import torch\nN = 8\n\ndef get_inputs():\n{body}\n"
    return [domain.kind.value for domain in domains_from_source(source, [spec])]


@pytest.mark.parametrize(
    ("lines", "kind"),
    [
        (["A = torch.triu(torch.rand(N, N))"], "upper_triangular"),
        (["A = torch.rand(N, N)", "A = A.tril()"], "lower_triangular"),
        (["A = torch.rand(N, N).tril(diagonal=-1)"], "lower_triangular"),
        (["A = 2 * torch.rand(N, N).triu(1).to(torch.float16) / 3"], "upper_triangular"),
        (["L = torch.rand(N, N).tril()", "A = L.t()"], "upper_triangular"),
        (["L = torch.rand(N, N).tril()", "A = torch.transpose(L, -1, -2)"], "upper_triangular"),
        (["L = torch.rand(N, N).tril()", "A = -L - L"], "lower_triangular"),
        (["A = torch.rand(N, N) * torch.rand(N, N).tril()"], "lower_triangular"),
        (["A = torch.diag(torch.rand(N))"], "upper_triangular"),
        (["A = torch.rand(N, N)", "A = (A + A.T) / 2"], "symmetric"),
        (["A = torch.rand(N, N)", "A = A @ A.transpose(-2, -1)"], "symmetric"),
        (["A = (torch.rand(N, N) > 0.5).float()"], "mask"),
        (["A = torch.randint(0, 2, (N, N)).float()"], "mask"),
        (['"""Words."""', "torch.manual_seed(0)", "A = torch.rand(N, N).triu()"],
         "upper_triangular"),
    ],
)  # fmt: skip
def test_what_torch_makes_is_recognised(lines: list[str], kind: str) -> None:
    assert kinds(*lines) == [kind]


@pytest.mark.parametrize(
    "lines",
    [
        ["A = torch.rand(N, N)"],
        ["A = torch.triu(torch.rand(N, N), -1)"],
        ["A = torch.rand(N, N).tril(N)"],
        ["A = torch.triu(torch.rand(N, N)) + torch.tril(torch.rand(N, N))"],
        ["A = torch.triu(torch.rand(N, N)) + 1"],
        ["A = torch.triu(torch.rand(N, N)).exp()"],
        ["A = torch.triu(torch.rand(N, N))", "A[3, 0] = 1"],
        ["A = torch.triu(torch.rand(N, N))", "B = A", "B[3, 0] = 1"],
        ["A = torch.triu(torch.rand(N, N))", "A += 1"],
        ["A = torch.triu(torch.rand(N, N))", "A.add_(1)"],
        ["A = torch.triu(torch.rand(N, N))", "B = A.add_(1)"],
        ["A = torch.triu(torch.rand(N, N))", "torch.add(A, 1, out=A)"],
        ["A = torch.triu(torch.rand(N, N))", "fill(A)"],
        ["A = torch.triu(torch.rand(N, N))", "for i in range(N):", "    A[i] = 1"],
        ["if N:", "    A = torch.triu(torch.rand(N, N))"],
        ["A, B = torch.triu(torch.rand(N, N)), 1"],
        ["A = torch.rand(N, N)", "B = torch.rand(N, N)", "A = A + B.T"],
        ["A = helper(torch.triu(torch.rand(N, N)))"],
        ["A = torch.rand(N, N)", "A = A + A.transpose(0, 1)"],
        ["A = torch.randint(0, 3, (N, N)).float()"],
    ],
)  # fmt: skip
def test_what_may_be_anything_is_real(lines: list[str]) -> None:
    assert kinds(*lines) == ["real"]


def test_only_square_matrices_are_triangular_and_numbers_are_scalars() -> None:
    line = "A = torch.triu(torch.rand(8, 4))"
    assert kinds(line, spec=LONG) == ["real"]
    assert kinds("A = torch.diag(torch.rand(8, 8))", spec=FLAT) == ["real"]
    assert kinds("A = 3", spec=3) == ["scalar"]


@pytest.mark.parametrize(
    "source",
    [
        "def get_inputs(:",
        "def get_inputs():\n    return make()\n",
        "def get_inputs():\n    if True:\n        return [1]\n    return [2]\n",
        "def get_inputs():\n    return [1, 2]\n",
        "get_inputs = lambda: [1]\n",
        "def get_inputs():\n    return [1]\n\ndef get_inputs():\n    return [2]\n",
        "def get_inputs():\n    return [" + "-" * 100_000 + "1]\n",
        "\0",
    ],
)
def test_what_cannot_be_read_says_nothing(source: str) -> None:
    assert domains_from_source(source, [SQUARE]) == ()


def test_no_code_of_a_problem_runs() -> None:
    domains_from_source("import sys; sys.evil = True\ndef get_inputs():\n    return [1]\n", [1])
    assert not hasattr(sys, "evil")


def test_stated_domains_go_before_what_the_source_shows() -> None:
    [triangles] = load_level(1, Scale.TINY, [14])
    assert known_domains(triangles, trace(triangles.source)) == triangles.domains


@pytest.mark.parametrize("number", [13, 14, 15])
def test_the_catalogues_own_sources_show_what_it_states(number: int) -> None:
    [problem] = load_level(1, Scale.TINY, [number])
    found = domains_from_source(problem.source, trace(problem.source).inputs)
    assert [each.kind for each in found] == [each.kind for each in problem.domains]
    assert all(each.inferred for each in found)
