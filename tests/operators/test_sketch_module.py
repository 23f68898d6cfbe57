from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest
import torch

from archives.candidate import Language, detect_language
from archives.configuration import read_configuration, read_space
from operators.sketches.cpp.program import CppProgram, write_program
from operators.sketches.cpp.sweeps import SWEEP
from operators.sketches.module import local_names
from problems.problem import Problem, Scale
from problems.trace import trace

Load = Callable[[str], ModuleType]
GOLDEN = Path(__file__).parent / "golden"

SOURCE = '''
"""A reference with a constructor of its own."""
import math
from collections import OrderedDict
import torch
from torch import nn

FEATURES = 6
ROWS = 5
UNUSED = 7

def width(count):
    return int(math.sqrt(count * count))

class Model(nn.Module):
    """Scaled softmax."""

    def __init__(self, scale):
        super(Model, self).__init__()
        self.inner = nn.Module()
        self.inner.scale = nn.Parameter(torch.full((width(FEATURES),), float(scale)))

    def forward(self, out, os):
        # Names that the program itself uses.
        return torch.softmax(out * self.inner.scale, dim=1) + os

def get_inputs():
    return [torch.rand(ROWS, FEATURES), torch.rand(FEATURES)]

def get_init_inputs():
    return [2.0]
'''


@pytest.fixture
def case() -> Problem:
    return Problem(level=0, id=3, name="Scaled", family="custom", scale=Scale.CUSTOM, source=SOURCE)


@pytest.fixture
def written(case: Problem) -> str:
    source = SWEEP.write(case, trace(case.source))
    assert source is not None
    return source


def test_the_reference_s_constructor_is_kept_and_nothing_else(
    case: Problem, written: str, load_program: Load
) -> None:
    reference = load_program(case.source)
    program = load_program(written)
    model, new = reference.Model(3.0), program.ModelNew(3.0)
    assert list(new.state_dict()) == list(model.state_dict()) == ["inner.scale"]
    assert torch.equal(new.inner.scale, model.inner.scale)
    new.load_state_dict(model.state_dict())
    for name in ("get_inputs", "get_init_inputs", "UNUSED", "ROWS", "OrderedDict", "Model"):
        assert not hasattr(program, name)
    inputs = reference.get_inputs()
    with torch.no_grad():
        torch.testing.assert_close(new(*inputs), model(*inputs))


def test_a_program_declares_its_language_space_and_point(written: str) -> None:
    ast.parse(written)
    assert detect_language(written) is Language.CPP
    space, point = read_space(written), read_configuration(written)
    assert set(space) == set(point)
    assert all(point[name] in values for name, values in space.items())
    assert {"LANES", "BLOCK", "FUSED", "LIBRARY_MATHS"} <= set(space)


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (torch.rand(5, 7), "(5, 7)"),
        (torch.rand(5, 6, dtype=torch.float64), "float64"),
        (torch.rand(5, 6, device="meta"), "meta"),
        (3.0, "float"),
    ],
)
def test_forward_insists_on_what_it_was_written_for(
    written: str, load_program: Load, bad: object, words: str
) -> None:
    new = load_program(written).ModelNew(2.0)
    with pytest.raises(ValueError, match=r"out_") as caught:
        new(bad, torch.rand(6))
    assert words in str(caught.value)
    assert "(5, 6)" in str(caught.value)


def test_a_kernel_that_does_not_compile_says_why(case: Problem, load_program: Load) -> None:
    program = CppProgram(
        summary="Broken.",
        space={"N": [1]},
        configuration={"N": 1},
        cpp='extern "C" void f() { undeclared(); }',
        functions={"f": ""},
        values=(),
        body=("KERNELS.f()",),
    )
    source = write_program(case, trace(case.source), program)
    assert source is not None
    with pytest.raises(RuntimeError, match="undeclared"):
        load_program(source)


def test_a_program_runs_without_the_project(written: str, tmp_path: Path) -> None:
    path = tmp_path / "alone.py"
    path.write_text(
        written
        + "\nimport sys\nModelNew(1.0)(torch.rand(5, 6), torch.rand(6))\n"
        + "assert not {'operators', 'problems', 'archives'} & set(sys.modules)\n"
    )
    environment = {"EVOKERNEL_BUILD_DIR": str(tmp_path), "PATH": "/usr/bin:/bin"}
    subprocess.run([sys.executable, "-P", str(path)], check=True, env=environment, cwd=tmp_path)


def test_names_are_free_of_collisions(case: Problem) -> None:
    assert local_names(case, trace(case.source)) == {
        "input0": "out_",
        "input1": "os_",
        "param:inner.scale": "inner_scale",
    }


def test_a_reference_that_cannot_be_called_by_position_is_left_alone(case: Problem) -> None:
    graph = trace(case.source)
    for arguments in ("self, *args", "self, out, *, os", "self, out"):
        text = case.source.replace("def forward(self, out, os)", f"def forward({arguments})")
        assert SWEEP.write(replace(case, source=text), graph) is None


def test_the_text_is_the_golden_one(written: str, update_golden: bool) -> None:
    path = GOLDEN / "sketch_scaled_softmax.txt"
    if update_golden:
        path.parent.mkdir(exist_ok=True)
        path.write_text(written)
    assert written == path.read_text()
