import pytest

from archives.candidate import Candidate, Language, detect_language

SOURCE = '''\
"""A kernel."""
import torch


class ModelNew(torch.nn.Module):
    """Doubles."""

    def forward(self, x):
        return x + x  # twice
'''


def test_layout_comments_and_docstrings_do_not_make_another_candidate() -> None:
    plain = SOURCE.replace('"""A kernel."""\n', "").replace("  # twice", "")
    squeezed = plain.replace("\n\n\n", "\n").replace("x + x", "(x   +   x)")
    assert Candidate.of("p", squeezed).id == Candidate.of("p", SOURCE).id


def test_another_problem_or_operation_makes_another_candidate() -> None:
    first = Candidate.of("p", SOURCE)
    assert Candidate.of("q", SOURCE).id != first.id
    assert Candidate.of("p", SOURCE.replace("x + x", "x * x")).id != first.id
    assert len(first.id) == len(first.program_id) == 64


def test_text_that_is_no_python_still_has_an_identity() -> None:
    broken = Candidate.of("p", "def broken(:")
    assert broken.id != Candidate.of("p", "def other(:").id
    assert broken.language is Language.TORCH


@pytest.mark.parametrize(
    ("source", "language"),
    [
        (SOURCE, Language.TORCH),
        ("CPP_SOURCE = ''", Language.CPP),
        ("CUDA_SOURCE = ''", Language.CUDA),
        ("import triton.language as tl", Language.TRITON),
        ("from triton import jit", Language.TRITON),
        ("load_inline(cpp_sources=[s])", Language.CPP),
        ("load_inline(cpp_sources=[s], cuda_sources=[t])", Language.CUDA),
        ("text = 'import triton'", Language.TORCH),
    ],
)
def test_the_language_is_read_from_the_syntax_tree(source: str, language: Language) -> None:
    assert detect_language(source) is language
