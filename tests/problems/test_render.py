"""The text of rendered problems."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from problems.catalogue import load_level
from problems.entry import Entry
from problems.errors import ProblemError
from problems.problem import Scale
from problems.render import render

TABLE = {
    "id": 7,
    "name": "Double",
    "doc": "Twice the input.",
    "inputs": [{"name": "x", "shape": ["rows", "4"]}],
    "sizes": {"rows": 8, "factor": 2.0, "window": [3, 5]},
    "small": {"rows": 4},
    "tiny": {"rows": 2},
    "init": ["factor", "window"],
    "options": {"eps": 1e-5},
    "build": "self.factor = factor",
    "forward": "return F.relu(x * self.factor)",
}

EXPECTED = '''\
import torch
from torch import nn
from torch.nn import functional as F

rows = 4
factor = 2.0
window = (3, 5)


class Model(nn.Module):
    """Twice the input."""

    def __init__(self, factor: float, window: tuple[int, ...], eps: float = 1e-05):
        super().__init__()
        self.factor = factor

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.relu(x * self.factor)


def get_inputs() -> list:
    x = torch.rand(rows, 4)
    return [x]


def get_init_inputs() -> list:
    return [factor, window]
'''


def test_an_entry_becomes_a_readable_module() -> None:
    assert render(Entry.of(TABLE, "example.toml"), Scale.SMALL) == EXPECTED


def test_every_bundled_source_is_laid_out_as_a_formatter_would(tmp_path: Path) -> None:
    for scale in (Scale.OFFICIAL, Scale.SMALL, Scale.TINY):
        for problem in load_level(1, scale):
            ast.parse(problem.source)
            (tmp_path / f"{scale}_{problem.id}.py").write_text(problem.source, encoding="utf-8")
    command = [sys.executable, "-m", "ruff", "--isolated", "format", "--check", "--line-length"]
    done = subprocess.run([*command, "88", str(tmp_path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    command = [sys.executable, "-m", "ruff", "--isolated", "check", "--select", "E,F,I,W,B"]
    done = subprocess.run(
        [*command, "--line-length", "100", str(tmp_path)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"colour": "red"}, "example.toml, problem 7: unknown field 'colour'"),
        ({"small": {"columns": 3}}, "'columns' is not among its sizes"),
        ({"inputs": [{"name": "x", "draw": "dice"}]}, "unknown draw 'dice'"),
        ({"inputs": [{"name": "x", "size": 3}]}, "problem 7"),
        ({"inputs": [{"name": "s", "draw": "scalar"}]}, "'s' is not among its sizes"),
    ],
)
def test_a_wrong_table_is_named(change: dict[str, object], message: str) -> None:
    with pytest.raises(ProblemError, match=message):
        Entry.of({**TABLE, **change}, "example.toml")


def test_a_missing_field_is_named() -> None:
    table = {key: value for key, value in TABLE.items() if key != "forward"}
    with pytest.raises(ProblemError, match="forward"):
        Entry.of(table, "example.toml")
