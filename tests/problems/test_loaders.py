"""Problems from a user's own files."""

from __future__ import annotations

from pathlib import Path

import pytest

from problems.errors import ProblemError
from problems.loaders import load_file, load_folder
from problems.problem import Scale

GOOD = """
import torch
from torch import nn

class Model(nn.Module):
    def forward(self, x):
        return x + 1

def get_inputs():
    return [torch.rand(4)]

def get_init_inputs():
    return []
"""

NO_MODEL = GOOD.replace("class Model", "class Modle")
NO_FORWARD = GOOD.replace("def forward", "def foward")
NO_INPUTS = GOOD.replace("def get_inputs", "def inputs")
NO_INIT = GOOD.replace("def get_init_inputs", "def init_inputs")


def folder_with(path: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        target = path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
    return path


def test_one_file(tmp_path: Path) -> None:
    file = folder_with(tmp_path, {"my_softmax.py": GOOD}) / "my_softmax.py"
    problem = load_file(file)
    assert (problem.level, problem.id, problem.name) == (0, 1, "my_softmax")
    assert problem.scale is Scale.CUSTOM
    assert problem.source == GOOD
    assert problem.domains == ()


def test_nothing_of_a_file_runs(tmp_path: Path) -> None:
    trap = tmp_path / "trap"
    text = f"open({str(trap)!r}, 'w')\n" + GOOD
    load_file(folder_with(tmp_path, {"a.py": text}) / "a.py")
    assert not trap.exists()


@pytest.mark.parametrize("below", ["level2/", ""])
def test_a_folder_or_its_level_folder(tmp_path: Path, below: str) -> None:
    names = ("23_Softmax", "3_Conv2d_ReLU", "100_Own_thing")
    files = {f"{below}{name}.py": GOOD for name in names}
    files[f"{below}notes.txt"] = "not a problem"
    files[f"{below}__init__.py"] = ""
    problems, errors = load_folder(folder_with(tmp_path, files), 2)
    assert errors == []
    assert [(p.level, p.id, p.name, p.family) for p in problems] == [
        (2, 3, "Conv2d_ReLU", "conv"),
        (2, 23, "Softmax", "reduction"),
        (2, 100, "Own_thing", "custom"),
    ]


def test_chosen_ids_and_ids_that_are_not_there(tmp_path: Path) -> None:
    folder = folder_with(tmp_path, {f"level1/{n}_A.py": GOOD for n in (1, 2, 3, 7)})
    problems, errors = load_folder(folder, 1, [7, 9, 1])
    assert [problem.id for problem in problems] == [7, 1]
    assert [str(error) for error in errors] == [
        f"{folder / 'level1'} has no problem 9: its ids are 1-3, 7"
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (NO_MODEL, "defines no class Model"),
        (NO_FORWARD, "defines a class Model without forward"),
        (NO_INPUTS, "defines no function get_inputs"),
        (NO_INIT, "defines no function get_init_inputs"),
        ("def broken(:\n", "does not parse: invalid syntax in line 1"),
        ("x = '\0'\n", "does not parse"),
    ],
)
def test_a_broken_file_is_one_sentence_and_the_others_go_on(
    tmp_path: Path, text: str, message: str
) -> None:
    folder = folder_with(tmp_path, {"level1/1_Bad.py": text, "level1/2_Good.py": GOOD})
    problems, errors = load_folder(folder, 1)
    assert [problem.name for problem in problems] == ["Good"]
    (error,) = errors
    assert "1_Bad.py" in str(error)
    assert message in str(error)
    assert "\n" not in str(error)


def test_a_file_that_is_not_text(tmp_path: Path) -> None:
    file = tmp_path / "a.py"
    file.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ProblemError, match="is not UTF-8 text"):
        load_file(file)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ProblemError, match="cannot be read: No such file"):
        load_file(tmp_path / "a.py")


def test_two_files_with_one_id(tmp_path: Path) -> None:
    folder = folder_with(tmp_path, {"level1/1_A.py": GOOD, "level1/1_B.py": GOOD})
    problems, errors = load_folder(folder, 1)
    assert [problem.name for problem in problems] == ["A"]
    assert "1_B.py has the id of 1_A.py" in str(errors[0])


@pytest.mark.parametrize("name", ["nowhere", "empty", "a.py"])
def test_no_such_folder(tmp_path: Path, name: str) -> None:
    folder_with(tmp_path, {"a.py": GOOD})
    (tmp_path / "empty").mkdir()
    with pytest.raises(ProblemError, match="expected"):
        load_folder(tmp_path / name, 1)


@pytest.mark.parametrize(
    "text",
    [
        GOOD.replace("def get_init_inputs():\n    return []", "get_init_inputs = list"),
        GOOD.replace("class Model(nn.Module):", "class Base(nn.Module):")
        + "class Model(Base):\n    pass\n",
        "from elsewhere import Model, get_inputs, get_init_inputs\n",
        "from elsewhere import Base\n"
        + GOOD.replace("class Model(nn.Module):", "class Model(Base):").replace("forward", "run"),
        GOOD + "PATTERN = '\\d'\n",
    ],
)
def test_unusual_but_sound_files_load(tmp_path: Path, text: str) -> None:
    load_file(folder_with(tmp_path, {"a.py": text}) / "a.py")
