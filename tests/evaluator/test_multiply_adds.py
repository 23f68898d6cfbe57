"""The float32 operations that a CPU's cores do at all."""

from __future__ import annotations

import logging
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
    assert rate is not None
    assert product < 1.1 * rate
    assert rate < 2.0, "a core of 32 lanes would do two multiply-adds in each at 15 GHz"


def test_each_thread_does_its_own_work() -> None:
    """Eight threads on fewer cores take turns: they do not count work that nobody did."""
    one, many = multiply_add_tflops(1), multiply_add_tflops(8)
    assert one is not None
    assert many is not None
    assert 0.4 * one < many < 1.5 * torch.get_num_threads() * one + one


def test_without_a_compiler_nothing_is_known_and_a_warning_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with caplog.at_level(logging.WARNING):
        assert multiply_add_tflops(1) is None
    assert "g++ built no multiply-adds" in caplog.text
    broken = tmp_path / "g++"
    broken.write_text("#!/bin/sh\nexit 3\n")
    broken.chmod(0o755)
    assert multiply_add_tflops(1) is None
    assert "exit status 3" in caplog.text
