"""Identity of problems, and what importing them costs."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pytest

from problems.catalogue import load_level
from problems.problem import Problem, Scale


@pytest.fixture
def softmax() -> Problem:
    return load_level(1, Scale.SMALL, [23])[0]


def test_the_key_follows_source_scale_and_precision(softmax: Problem) -> None:
    others = [
        replace(softmax, scale=Scale.TINY),
        replace(softmax, precision="bf16"),
        replace(softmax, source=softmax.source.replace("dim=1", "dim=0")),
    ]
    keys = {problem.key for problem in (softmax, *others)}
    assert len(keys) == 4
    assert all(len(key) == 64 for key in keys)


def test_the_key_ignores_names_notes_and_layout(softmax: Problem) -> None:
    same = replace(softmax, id=5, name="Other", notes=("x",), source=softmax.source + "\n# end\n")
    assert same.key == softmax.key


def test_the_key_is_stable() -> None:
    """A changed key orphans every stored result: change it knowingly."""
    problem = Problem(level=0, id=1, name="a", family="custom", scale=Scale.CUSTOM, source="x = 1")
    assert problem.key == "eb5caacd44d69469b61bf7419cf1e8136b13dd327d9b98f026bfc722f80f5edc"


def test_the_label_is_short(softmax: Problem) -> None:
    assert softmax.label == "1/23 Softmax"


def test_importing_problems_and_archives_loads_nothing_heavy() -> None:
    code = (
        "import sys, problems, problems.trace, archives, archives.candidate\n"
        "from problems.catalogue import load_level\n"
        "from problems.problem import Scale\n"
        "load_level(1, Scale.TINY)\n"
        "print([m for m in ('torch', 'triton', 'ray', 'litellm') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
