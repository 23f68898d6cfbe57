"""The float32 operations that a CPU's cores do at all."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from evaluator.worker.multiply_adds import multiply_add_tflops

EDGE = 768


@pytest.fixture
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("one_thread")
def test_no_product_is_faster() -> None:
    """Not even torch's best of many, on whatever processor."""
    left, right = (torch.rand(EDGE, EDGE) for _ in range(2))
    times = []
    for _ in range(20):
        start = time.perf_counter()
        torch.mm(left, right)
        times.append(time.perf_counter() - start)
    product = 2 * EDGE**3 / min(times) / 1e12
    rate = multiply_add_tflops(1)
    assert product < 1.1 * rate
    assert rate < 2.0, "a core of 32 lanes would do two multiply-adds in each at 15 GHz"


def test_each_thread_does_its_own_work() -> None:
    """Eight threads on fewer cores take turns: they do not count work that nobody did."""
    one, many = multiply_add_tflops(1), multiply_add_tflops(8)
    assert 0.4 * one < many < 1.5 * torch.get_num_threads() * one + one


def test_without_a_compiler_that_works_it_is_told_which_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RuntimeError, match=r"g\+\+ built no multiply-adds: .*No such file"):
        multiply_add_tflops(1)
    broken = tmp_path / "g++"
    broken.write_text("#!/bin/sh\nexit 3\n")
    broken.chmod(0o755)
    with pytest.raises(RuntimeError, match="exit status 3"):
        multiply_add_tflops(1)
