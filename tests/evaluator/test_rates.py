"""Calibration, on the CPU for real and on a GPU where there is one."""

from __future__ import annotations

import logging
import time
from pathlib import Path

import pytest
import torch

from evaluator.referee.cpu import CpuStation
from evaluator.referee.hardware import find_device
from evaluator.worker import rates as rates_module
from evaluator.worker.rates import measure_rates


def test_a_cpu_moves_bytes_and_multiplies_and_has_no_matrix_units() -> None:
    permitted = torch.backends.cuda.matmul.allow_tf32
    rates = measure_rates(torch.device("cpu"), pytest.fail)
    assert 0.1 < rates.read_gbps < 10_000
    assert 0.1 < rates.write_gbps < 10_000
    assert 0.1 < rates.copy_gbps < 10_000
    assert 1e-4 < rates.fp32 < 100
    assert rates.tf32 is None
    assert rates.fp16 is None
    assert torch.backends.cuda.matmul.allow_tf32 == permitted


@pytest.mark.parametrize("tflops", [1e-9, 77.0])
def test_of_a_cpu_the_faster_of_products_and_multiply_adds_counts(
    tflops: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rates_module, "multiply_add_tflops", lambda threads: tflops)
    fp32 = measure_rates(torch.device("cpu"), pytest.fail).fp32
    if tflops == 77.0:
        assert fp32 == 77.0
    else:
        assert 1e-4 < fp32 < 77.0


def test_whoever_calibrates_without_a_compiler_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    station = CpuStation()
    try:
        with caplog.at_level(logging.WARNING):
            rates = station.calibrate()
    finally:
        station.close()
        station.spawner.close()
    assert rates is not None
    assert 1e-4 < rates.fp32 < 100
    assert "g++ built no multiply-adds" in caplog.text
    assert "torch's products alone" in caplog.text


@pytest.mark.gpu
def test_a_gpu_is_measured_in_three_seconds_and_reaches_most_of_its_datasheet() -> None:
    device = torch.device("cuda")
    torch.zeros(1, device=device)
    start = time.perf_counter()
    rates = measure_rates(device, pytest.fail)
    assert time.perf_counter() - start < 3
    row = find_device(torch.cuda.get_device_name())
    assert 0.7 < rates.read_gbps / row.bandwidth_gbps < 1.0
    assert 0.7 < rates.copy_gbps / row.bandwidth_gbps < 1.0
    assert rates.fp16 is not None
    assert row.fp16 is not None
    assert 0.5 < rates.fp16 / row.fp16 < 1.05
    assert 0.001 < rates.launch_ms < 0.02
