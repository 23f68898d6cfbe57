"""One zygote for all tests that need workers: starting it imports torch; a referee for a module."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

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


@pytest.fixture
def stand_in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """What a worker's own process would have; the stand-in GPU's clock is the noisy host's."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EVOKERNEL_BUILD_DIR", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("evaluator.referee.cuda.clocks.ABSOLUTE_MS", 50.0)
    monkeypatch.setattr("evaluator.referee.cuda.stopwatch.SLOWED_FACTOR", 50.0)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield tmp_path
    torch.set_num_threads(threads)
