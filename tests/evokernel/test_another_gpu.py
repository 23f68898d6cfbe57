"""Where a run is checked again: on another GPU of the run's name, and it says on which."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

import tests.evokernel.landscape as world
from archives.evaluation import DeviceFingerprint, Evaluation
from archives.records import RunRecord
from archives.store import Store
from evaluator.evaluator import Capacity, EvaluationRequest
from evaluator.local import IN_FLIGHT
from evaluator.referee.cuda import device
from evaluator.referee.deadlines import Deadlines
from evokernel.another_gpu import number_of_another
from evokernel.cli import verify as command
from evokernel.cli.main import build_app
from tests.evokernel.gpu_landscape import GPU, RATES, GpuLandscape

OTHER = replace(GPU, uuid="gpu-1")
COUNT = device.gpu_count
"""Other tests are told of none, whatever machine they run on."""
ROWS = {
    "h100": "NVIDIA H100, gpu-9",
    "own": "NVIDIA H200, gpu-0",
    "other": "NVIDIA H200, gpu-1",
    "third": "NVIDIA H200, gpu-2",
}


def forget() -> None:
    device._gpus.cache_clear()
    device._all_gpus.cache_clear()


@pytest.fixture(autouse=True)
def _ask_anew() -> Iterator[None]:
    forget()
    yield
    forget()


def smi(folder: Path, monkeypatch: pytest.MonkeyPatch, *gpus: str) -> None:
    """Put an nvidia-smi on the path that lists these GPUs of `ROWS`."""
    lines = [f"{i}, {ROWS[gpu]}, 580.1, 143771, 1980, 9.0" for i, gpu in enumerate(gpus)]
    program = folder / "nvidia-smi"
    program.write_text("\n".join(["#!/bin/sh", *(f'echo "{line}"' for line in lines)]) + "\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(device, "gpu_count", COUNT)


@pytest.mark.parametrize(
    ("gpus", "visible", "number"),
    [
        (("own", "other"), None, 1),
        (("other", "own"), None, 0),
        (("own", "h100", "other", "third"), None, 2),
        (("h100", "own"), None, 1),
        (("own",), None, 0),
        (("h100",), None, 0),
        (("own", "other"), "0", 0),
        (("own", "other", "third"), "0,2", 1),
    ],
)
def test_another_gpu_of_the_name_is_preferred(
    gpus: tuple[str, ...],
    visible: str | None,
    number: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    smi(tmp_path, monkeypatch, *gpus)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert number_of_another(GPU) == number


def test_without_a_driver_whoever_opens_the_gpu_tells(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(device, "gpu_count", COUNT)
    assert number_of_another(GPU) == 0


class Told:
    """Stands in for a referee."""

    in_flight = IN_FLIGHT


def test_verify_opens_that_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, int]] = []

    def new_referee(kind: str, index: int, deadlines: Deadlines) -> Told:
        asked.append((kind, index))
        assert deadlines == Deadlines.of(kind)
        return Told()

    monkeypatch.setattr("evaluator.referee.referee.new_referee", new_referee)
    smi(tmp_path, monkeypatch, "own", "other")
    record = RunRecord(
        name="run", created="", config_json="{}", rng_seed=0, scale="tiny", rates=RATES
    )
    command.evaluator_of(replace(record, device=GPU))
    command.evaluator_of(replace(record, device=OTHER))
    command.evaluator_of(replace(record, device=world.DEVICE))
    command.evaluator_of(record)
    assert asked == [("cuda", 1), ("cuda", 0), ("cpu", 0), ("cpu", 0)]


class Elsewhere(GpuLandscape):
    """A GPU of the same name as that of the run, or the same."""

    def __init__(self, where: DeviceFingerprint) -> None:
        super().__init__()
        self.where = where

    async def start(self) -> Capacity:
        return replace(await super().start(), device=self.where)

    def judge(self, request: EvaluationRequest) -> Evaluation:
        return replace(super().judge(request), device=self.where)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A finished run of a GPU of which nothing was verified."""
    config = world.config("search.generations=3", "evaluation.verify=false")
    with world.new_store(tmp_path / "run", config, count=1) as store:
        world.sit(store, config, GpuLandscape())
    return tmp_path / "run"


def verified(run: Path, where: DeviceFingerprint, monkeypatch: pytest.MonkeyPatch) -> str:
    """What `evokernel verify` prints of a run."""
    monkeypatch.setattr(command, "evaluator_of", lambda run: Elsewhere(where))
    result = CliRunner().invoke(build_app("verify"), ["verify", str(run)])
    assert result.exit_code == 0, result.output
    return result.stdout


def test_the_command_says_on_which_gpu_it_checked(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = verified(run, GPU, monkeypatch)
    assert "checked on NVIDIA H200 gpu-0, the GPU on which the run began\n" in own
    other = verified(run, OTHER, monkeypatch)
    assert "checked on NVIDIA H200 gpu-1, another GPU than the run began on, gpu-0\n" in other
    with Store.open(run) as store:
        count = len({elite.candidate for elite in store.elites(world.problem(1).key)})
    again = verified(run, OTHER, monkeypatch)
    assert f"gpu-0; {count} of {count} were measured there before\n" in again


def test_so_does_its_json(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "evaluator_of", lambda run: Elsewhere(OTHER))
    result = CliRunner().invoke(build_app("verify"), ["verify", str(run), "--json"])
    assert json.loads(result.stdout)["checked_on"] == {
        "name": "NVIDIA H200",
        "uuid": "gpu-1",
        "run_uuid": "gpu-0",
        "another": True,
        "measured_there_before": 0,
    }


def test_of_a_cpu_there_is_nothing_to_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = world.config("search.generations=1", "evaluation.verify=false")
    with world.new_store(tmp_path / "run", config, count=1) as store:
        world.sit(store, config)
    monkeypatch.setattr(command, "evaluator_of", lambda run: world.Landscape())
    result = CliRunner().invoke(build_app("verify"), ["verify", str(tmp_path / "run"), "--json"])
    assert json.loads(result.stdout)["checked_on"] is None
    shown = CliRunner().invoke(build_app("verify"), ["verify", str(tmp_path / "run")])
    assert "checked on" not in shown.stdout
