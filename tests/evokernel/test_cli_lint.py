"""`evokernel problems lint`: what it says of a problem file, through the command line."""

from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner, Result

from evokernel.cli.main import build_app

SOURCE = """\
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(512, 512)
        self.register_buffer("table", torch.randn(512, 512), persistent=False)

    def forward(self, x):
        assert {x.dtype, self.linear.weight.dtype, self.table.dtype} == {torch.DTYPE}
        return self.linear(x) @ self.table


def get_inputs():
    return [torch.randn(512, 512)]


def get_init_inputs():
    return []
"""


def lint(file: Path, *words: object) -> Result:
    return CliRunner().invoke(
        build_app("problems"), ["problems", "lint", str(file), *map(str, words)]
    )


def test_a_problem_is_looked_at_in_the_precision_asked_for(tmp_path: Path) -> None:
    file = tmp_path / "half.py"
    file.write_text(SOURCE.replace("DTYPE", "bfloat16"))
    done = lint(file, "--precision", "bf16", "--json")
    assert done.exit_code == 0, done.output
    (row,) = json.loads(done.stdout)
    assert list(row) == ["label", "degenerate", "remark"]
    assert row["degenerate"] is None
    done = lint(file)
    assert done.exit_code == 1
    assert "AssertionError" in done.stdout
    assert "0 of 1 problems are sound" in done.stdout


def test_there_are_three_precisions(tmp_path: Path) -> None:
    done = lint(tmp_path / "any.py", "--precision", "fp8")
    assert done.exit_code == 2
    assert "fp16" in done.stderr
