"""The hardware table: every rate has a source, every name finds its row."""

from __future__ import annotations

import pytest

from evaluator.referee.hardware import all_devices, find_device
from problems.errors import ConfigError


@pytest.mark.parametrize(
    ("reported", "name"),
    [
        ("NVIDIA H200", "H200"),
        ("NVIDIA H100 80GB HBM3", "H100"),
        ("NVIDIA H100 PCIe", "H100 PCIe"),
        ("NVIDIA A100-SXM4-40GB", "A100 40GB"),
        ("NVIDIA A100-SXM4-80GB", "A100 80GB"),
        ("NVIDIA A100 80GB PCIe", "A100 80GB PCIe"),
        ("NVIDIA L40S", "L40S"),
        ("NVIDIA L4", "L4"),
        ("NVIDIA GeForce RTX 4090", "RTX 4090"),
        ("AMD Instinct MI300X", "MI300X"),
        ("b200", "B200"),
        ("NVIDIA GH200 480GB", "GH200"),
        ("NVIDIA H100 NVL", "H100 NVL"),
        ("NVIDIA A10", "A10"),
        ("NVIDIA A10G", "A10G"),
        ("Tesla T4", "T4"),
        ("Tesla V100-SXM2-16GB", "V100"),
        ("NVIDIA GeForce RTX 3090", "RTX 3090"),
        ("NVIDIA GeForce RTX 5090", "RTX 5090"),
        ("AMD Instinct MI250X", "MI250X"),
        ("AMD Instinct MI355X", "MI355X"),
    ],
)
def test_a_name_as_the_driver_reports_it_finds_its_row(reported: str, name: str) -> None:
    assert find_device(reported).name == name


def test_each_device_is_found_by_its_own_name() -> None:
    for device in all_devices():
        assert find_device(device.name) is device


def test_a_name_is_matched_by_whole_words() -> None:
    for name in ("NVIDIA A1000", "NVIDIA T400", "NVIDIA L400"):
        with pytest.raises(ConfigError):
            find_device(name)


def test_cards_whose_memory_owners_overclock_never_reject() -> None:
    assert all(device.estimated for device in all_devices() if device.name.startswith("RTX"))
    assert not find_device("H200").estimated


def test_an_unknown_device_is_refused_with_the_known_names() -> None:
    with pytest.raises(ConfigError, match=r"matches 'TPU v5'.*H200.*MI355X"):
        find_device("TPU v5")


def test_rates_rise_as_operands_shrink_and_each_row_has_a_source() -> None:
    for device in all_devices():
        assert device.source
        rates = [device.fp32, device.tf32, device.fp16, device.fp8]
        present = [rate for rate in rates if rate is not None]
        assert present == sorted(present), device.name
        assert device.matrix_tflops("bf16") >= device.matrix_tflops("fp32")
