"""`evokernel roofline`: bounds of all problems, without running any code of theirs in here."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from evokernel.cli.main import build_app

KEYS = [
    *("level", "id", "name", "bytes", "flops", "convolution_flops"),
    *("bound", "sol_ms", "hard_ms"),
]
SOURCE = """\
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return {body}


def get_inputs():
    return [torch.rand(4096, 4096)]


def get_init_inputs():
    return []
"""


def call(*words: object) -> Result:
    return CliRunner().invoke(build_app("roofline"), ["roofline", *map(str, words)])


@pytest.mark.alone
def test_all_problems_in_under_twenty_seconds() -> None:
    start = time.perf_counter()
    done = call("--level", 1, "--gpu", "H200", "--json")
    assert time.perf_counter() - start < 20
    assert done.exit_code == 0, done.stderr
    rows = json.loads(done.stdout)
    assert [row["id"] for row in rows] == list(range(1, 101))
    assert all(list(row) == KEYS for row in rows)
    product, relu = rows[0], rows[18]
    assert (product["bound"], product["flops"]) == ("compute", 2 * 4096**3)
    assert product["sol_ms"] == pytest.approx(2 * 4096**3 / 494.7e9)
    assert (relu["bound"], relu["bytes"]) == ("memory", 2 * 4096 * 393216 * 4)
    assert all(0 < row["hard_ms"] <= row["sol_ms"] for row in rows)


def test_a_folder_of_problems_and_one_of_them_broken(tmp_path: Path) -> None:
    folder = tmp_path / "level1"
    folder.mkdir()
    (folder / "1_Relu.py").write_text(SOURCE.format(body="torch.relu(x)"))
    (folder / "2_Broken.py").write_text(SOURCE.format(body="x.no_such_method()"))
    (folder / "3_Evil.py").write_text("import sys; sys.evil = True\n" + SOURCE.format(body="x + 1"))
    done = call("--gpu", "NVIDIA H200", "--source", tmp_path)
    assert done.exit_code == 0
    assert "1/1 Relu" in done.stdout
    assert "4,800 GB/s" in done.stdout
    assert "memory" in done.stdout
    assert done.stderr.startswith("evokernel: left out: problem 1/2 Broken cannot be traced")
    assert done.stderr.count("\n") == 1
    assert not hasattr(sys, "evil"), "a problem ran in this process"


TRIANGLES = """\
import torch
from torch import nn

N = 4096


class Model(nn.Module):
    def forward(self, A, B):
        return torch.triu(A @ B)


def get_inputs():
    A = torch.triu(torch.rand(N, N))
    B = torch.triu(torch.rand(N, N))
    return [A, B]


def get_init_inputs():
    return []
"""


def test_triangles_of_a_folder_count_as_those_of_the_catalogue(tmp_path: Path) -> None:
    folder = tmp_path / "level1"
    folder.mkdir()
    (folder / "14_Triangles.py").write_text(TRIANGLES)
    done = call("--gpu", "H200", "--source", tmp_path, "--json")
    stated = call("--gpu", "H200", "--problems", "14", "--json")
    (own,), (catalogued,) = json.loads(done.stdout), json.loads(stated.stdout)
    assert own["flops"] == catalogued["flops"] == pytest.approx(2 * 4096**3 / 6, rel=1e-3)
    assert own["sol_ms"] == catalogued["sol_ms"] < 0.05
    # What is not stated may be a diagonal: only the triangle that is returned is certain.
    assert own["hard_ms"] <= catalogued["hard_ms"]


def test_bytes_and_products_follow_the_precision(tmp_path: Path) -> None:
    folder = tmp_path / "level1"
    folder.mkdir()
    (folder / "1_Product.py").write_text(SOURCE.format(body="x @ x"))
    (folder / "2_Relu.py").write_text(SOURCE.format(body="torch.relu(x)"))
    words = ("--gpu", "H200", "--source", tmp_path, "--precision", "bf16")
    done = call(*words, "--json")
    assert done.exit_code == 0, done.stderr
    rows = json.loads(done.stdout)
    assert all(list(row) == KEYS for row in rows)
    product, relu = rows
    assert (product["bound"], product["flops"]) == ("compute", 2 * 4096**3)
    assert product["sol_ms"] == pytest.approx(2 * 4096**3 / 989.4e9, rel=1e-3)
    assert (relu["bound"], relu["bytes"]) == ("memory", 2 * 4096**2 * 2)
    assert "989 TFLOP/s for bfloat16 products" in call(*words).stdout
    assert "TFLOP/s for float32 products" in call(*words[:4]).stdout


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--gpu", "TPU"], "no device in the hardware table matches 'TPU'"),
        (["--gpu", "H200", "--problems", "101"], "level 1 has no problem 101"),
        (["--gpu", "H200", "--problems", "x"], "cannot read 'x'"),
        (["--gpu", "H200", "--source", "/nowhere"], "/nowhere is not a folder"),
    ],
)
def test_the_users_mistakes_are_one_sentence(words: list[str], sentence: str) -> None:
    done = call(*words)
    assert done.exit_code == 2
    assert sentence in done.stderr
    assert done.stderr.count("\n") == 1
