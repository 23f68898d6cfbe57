"""Which kind of device a run measures on: of this machine, or of a cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

import evaluator.cluster
import evaluator.referee.cuda.device
from evokernel.config import resolve
from evokernel.devices import device_kind
from evokernel.launch import create_run, make_plan, reopen
from problems.errors import ConfigError
from problems.problem import Scale

ADDRESS = "10.0.0.1:6379"


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Addresses of clusters that were asked for their GPUs; "10.0.0.2" and so on have none."""
    addresses: list[str] = []

    def num_gpus_at(address: str) -> int:
        addresses.append(address)
        return 4 if address == ADDRESS else 0

    monkeypatch.setattr(evaluator.cluster, "num_gpus_at", num_gpus_at)
    return addresses


@pytest.mark.parametrize("option", ["auto", "cuda"])
def test_a_cluster_with_gpus_needs_none_here(option: str, asked: list[str]) -> None:
    assert device_kind(option, ADDRESS) == "cuda"
    assert asked == [ADDRESS]


def test_a_cluster_without_gpus_is_measured_on_its_cpus_unless_a_gpu_is_asked_for(
    asked: list[str],
) -> None:
    assert device_kind("auto", "10.0.0.2:6379") == "cpu"
    with pytest.raises(ConfigError, match=r"no node of the Ray cluster at 10\.0\.0\.2:6379 has"):
        device_kind("cuda", "10.0.0.2:6379")
    assert len(asked) == 2


def test_a_gpu_of_this_machine_is_none_of_a_cluster(
    asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evaluator.referee.cuda.device, "gpu_count", lambda: 1)
    assert device_kind("auto", "10.0.0.2:6379") == "cpu"
    assert device_kind("auto", "local") == device_kind("auto") == "cuda"
    assert asked == ["10.0.0.2:6379"]


def test_nobody_is_asked_where_the_cpu_is_asked_for_or_the_address_is_this_machine(
    asked: list[str],
) -> None:
    assert device_kind("cpu", ADDRESS) == "cpu"
    assert device_kind("auto", "local") == "cpu"
    with pytest.raises(ConfigError, match="no NVIDIA GPU was found here"):
        device_kind("cuda", "local")
    assert asked == []


def test_a_plan_is_made_for_the_devices_of_the_cluster(asked: list[str]) -> None:
    flags = {"problems.level": 1, "problems.ids": "19", "evaluation.ray_address": ADDRESS}
    plan = make_plan(resolve(flags=flags))
    assert (plan.device, plan.problems[0].scale) == ("cuda", Scale.OFFICIAL)
    assert asked == [ADDRESS]


def test_a_run_moves_to_another_cluster_and_keeps_it(tmp_path: Path, asked: list[str]) -> None:
    flags = {"problems.level": 1, "problems.ids": "19", "evaluation.ray_address": "10.0.0.2:6379"}
    create_run(make_plan(resolve(flags=flags)), tmp_path / "run").close()
    store, plan = reopen(tmp_path / "run", {"evaluation.ray_address": ADDRESS})
    store.close()
    assert plan.device == "cuda"
    store, plan = reopen(tmp_path / "run", {"evaluation.ray_address": None})
    store.close()
    assert plan.config.evaluation.ray_address == ADDRESS
    assert asked == ["10.0.0.2:6379", ADDRESS, ADDRESS]
