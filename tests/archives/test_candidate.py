import pytest
from hypothesis import given
from hypothesis import strategies as st

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


KERNEL = "__global__ void f(float* x) {}"
EXTENSION = "from torch.utils.cpp_extension import load_inline\n"


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
        (f"{EXTENSION}load_inline('m', [], [SRC], functions=['f'])", Language.CUDA),
        (f"{EXTENSION}load_inline('m', [SRC], functions=['f'])", Language.CPP),
        (f"{EXTENSION}load_inline('m', [SRC], [], ['f'])", Language.CPP),
        (f"{EXTENSION}load_inline(name='m', cpp_sources=SRC, cuda_sources=[])", Language.CPP),
        (f"{EXTENSION}load_inline('m', {KERNEL!r}, functions=['f'])", Language.CUDA),
        ("from torch.utils.cpp_extension import load\nload('m', sources=['a.cu'])", Language.CUDA),
        ("from torch.utils.cpp_extension import load\nload('m', sources=['a.cpp'])", Language.CPP),
        ("from torch.utils import cpp_extension as e\ne.load('m', ['a.cu'])", Language.CUDA),
        ("import torch\ntorch.utils.cpp_extension.load('m', ['a.cc'])", Language.CPP),
        (f"import ctypes, subprocess\nSRC = {KERNEL!r}\nrun(['nvcc', 'a.cu'])", Language.CUDA),
        ("def load():\n    import subprocess\n    subprocess.run('nvcc a.cu')", Language.CUDA),
        ("import os\nos.system(f'/usr/local/cuda/bin/nvcc {name}')", Language.CUDA),
        ("import ctypes, subprocess\nsubprocess.run(['g++', 'a.cpp'])", Language.CPP),
        (f"import triton\nimport ctypes\nSRC = {KERNEL!r}", Language.CUDA),
        ("import triton\nimport torch.utils.cpp_extension", Language.TRITON),
        (f'"""{KERNEL} by nvcc, see cpp_extension."""\nimport ctypes', Language.TORCH),
        (f"import ctypes\n# {KERNEL} by nvcc and g++, load_inline(cuda_sources=x)", Language.TORCH),
        (f"{EXTENSION}def f():\n    'nvcc a.cu {KERNEL}'  # a.cu", Language.CPP),
        (f"SRC = {KERNEL!r}  # which nothing could build", Language.TORCH),
        ("import subprocess\nprint('torch.cuda')", Language.TORCH),
    ],
)
def test_the_language_is_read_from_the_syntax_tree(source: str, language: Language) -> None:
    assert detect_language(source) is language


TUNED = '''\
"""A kernel."""
import torch

TUNE_PARAMS = {"BLOCK": [1, 2]}
CONFIG: dict = {"BLOCK": 2}


class ModelNew(torch.nn.Module):
    """Doubles."""

    def __init__(self, scale=1.5, *, name="\\u00e9"):
        super().__init__()
        self.scale, self.name = scale, f"{name!r:>{8}}"

    async def later(self):
        "Docstring."

    def forward(self, x):
        match x.dim():
            case 1 | 2 if self.scale:
                return x[..., ::2] + CONFIG["BLOCK"]
            case _:
                return (lambda y: -y)(x)
'''
TWICE = 'CONFIG = {"A": 1}\nCONFIG = OTHER = {"B": 2}\nCONFIG = ({"A": CPP_SOURCE}); x = 0x10\n'
LONG = "0x" + "f" * 5000


@pytest.mark.parametrize(
    ("source", "identity", "program"),
    [
        (TUNED, "7303b5e11f802eb4", "978676bb0eeaba42"),
        (TWICE, "45faaa92d66b4b17", "faf532d3613b5b25"),
        ("def  broken(:\r\n  CONFIG = {}", "99d46d50243254eb", "99d46d50243254eb"),
        (f"CONFIG = {{'A': {LONG}}}\nx = 1\n", "dccb990c932453fd", "efa9d37f2b17a1ad"),
        (f"x = {LONG}\nCONFIG = {{'A': 2}}\n", "5fb8d18192975e7a", "0fda151c52828927"),
        ("", "039ce23cc48ca8a7", "039ce23cc48ca8a7"),
    ],
)
def test_identities_are_those_of_stored_runs(source: str, identity: str, program: str) -> None:
    found = Candidate.of("p", source)
    assert (found.id[:16], found.program_id[:16]) == (identity, program)
    assert found.language is Language.TORCH


@given(text=st.text(max_size=40), value=st.integers(0, 9))
def test_a_program_is_its_text_without_the_configuration(text: str, value: int) -> None:
    source = f"{TUNED}\nNAME = {text!r}\nCONFIG = {{'A': {value}}}\n"
    program = Candidate.of("p", source.replace(f"{{'A': {value}}}", "{}"))
    found = Candidate.of("p", source)
    assert found.program_id == program.program_id == program.id != found.id
