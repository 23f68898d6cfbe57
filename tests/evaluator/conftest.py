"""One zygote for all tests that need workers: starting it imports torch; a referee for a module."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

from evaluator.referee.referee import Referee
from tests.evaluator.referee_cases import new_referee
from tests.evaluator.worker_harness import OpenProblem, ProblemHarness, ZygoteHarness


@pytest.fixture(scope="session")
def zygote(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZygoteHarness]:
    """A zygote, started by a process that has a secret in its environment."""
    os.environ["RAY_SECRET"] = "not for workers"
    harness = ZygoteHarness(tmp_path_factory.mktemp("zygote"))
    del os.environ["RAY_SECRET"]
    yield harness
    harness.close()


@pytest.fixture(scope="module")
def referee() -> Iterator[Referee]:
    """One of the CPU, for the tests of a module."""
    one = new_referee()
    one.start()
    yield one
    one.close()


@pytest.fixture
def problem(zygote: ZygoteHarness) -> Iterator[OpenProblem]:
    """Opens problems; all are closed at the end."""
    opened = []

    def open_problem(source: str, **options: Any) -> ProblemHarness:  # noqa: ANN401
        harness = ProblemHarness(zygote, source, **options)
        opened.append(harness)
        return harness

    yield open_problem
    for harness in opened:
        harness.close()
