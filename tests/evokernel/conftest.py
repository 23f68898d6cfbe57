"""A small finished run for the commands that read one."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

import evaluator.referee.cuda.device
from archives.attempt import Attempt, Slot
from archives.candidate import Candidate
from archives.evaluation import (
    ConfigurationResult,
    DeviceFingerprint,
    Evaluation,
    Interval,
    KernelFacts,
    Reuse,
    Rung,
    Status,
)
from archives.grid import Addition, AddStatus, Elite, objective_of
from archives.records import GenerationOutcome, Insertion, OperatorTally, RunRecord, RunState
from archives.store import Store
from operators.seeds import reference_as_candidate
from problems.graph import OperatorGraph, TensorSpec
from problems.problem import Problem, Scale


@pytest.fixture(autouse=True)
def _host_without_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let "auto" mean the CPU, whatever machine the tests run on."""
    monkeypatch.setattr(evaluator.referee.cuda.device, "gpu_count", lambda: 0)


DEVICE = DeviceFingerprint(
    kind="cpu", name="Test CPU", uuid="cpu-0", threads=1, versions={"torch": "2.13.0"}
)
REFERENCE = """\
import torch
import torch.nn as nn

ROWS = {rows}


class Model(nn.Module):
    def __init__(self, slope):
        super().__init__()
        self.weight = nn.Parameter(torch.full((8,), float(slope)))

    def forward(self, x):
        return torch.relu(x) * self.weight


def get_inputs():
    return [torch.rand(ROWS, 8)]


def get_init_inputs():
    return [2]
"""
KERNEL = """\
import torch
import torch.nn as nn

TUNE_PARAMS = {"TILE": [1, 2, 4]}
CONFIG = {"TILE": 1}
CPP_SOURCE = "void kernel(float *x);"


class ModelNew(nn.Module):
    def __init__(self, slope):
        super(ModelNew, self).__init__()
        self.weight = nn.Parameter(torch.full((8,), float(slope)))

    def forward(self, x):
        return x.clamp(min=0) * self.weight
"""
GRAPH = OperatorGraph(
    inputs=(TensorSpec(shape=(4, 8), stride=(8, 1), dtype="float32", storage=0),),
    parameters={"weight": TensorSpec(shape=(8,), stride=(1,), dtype="float32", storage=1)},
    buffers={},
    nodes=(),
    outputs=("input0",),
)


def evaluation(
    speedup: float, *, own: float | None = 1.0, verified: bool = False, matched: float | None = None
) -> Evaluation:
    return Evaluation(
        status=Status.OK,
        rung=Rung.VERIFY if verified else Rung.TIME,
        latency_ms=1.0 / speedup,
        reference_ms=1.0,
        speedup=speedup,
        interval=Interval(low=speedup * 0.95, high=speedup * 1.05),
        matched_speedup=speedup if matched is None else matched,
        error=1e-7,
        error_bound=1e-6,
        facts=KernelFacts(
            launches=1,
            own_kernel_share=own,
            reuse=Reuse.REGISTERS if own else Reuse.LIBRARY,
            work=64 if own else None,
        ),
        configuration={"TILE": 2} if own else None,
        configurations=(
            ConfigurationResult(configuration={"TILE": 2}, status=Status.OK, latency_ms=0.5),
        ),
        isolation="pid+net",
        device=DEVICE,
        referee_version="1",
    )


def problem(
    number: int, name: str, degenerate: str | None = None, loose: str | None = None
) -> Problem:
    return Problem(
        level=1,
        id=number,
        name=name,
        family="elementwise",
        scale=Scale.SMALL,
        source=REFERENCE.replace("{rows}", str(number)),
        degenerate=degenerate,
        loose=loose,
    )


PROBLEMS = (
    problem(1, "Verified kernel"),
    problem(2, "Searched only"),
    problem(3, "Nothing beats it", loose="zeros pass"),
    problem(4, "Nothing works"),
    problem(5, "Too big"),
    problem(6, "Says nothing", degenerate="its output is constant"),
    problem(7, "A library call"),
)


def sources(problem: Problem) -> dict[str, str]:
    """Programs that the run tried, by a name: the reference, a kernel and its tuned child."""
    return {
        "reference": reference_as_candidate(problem),
        "kernel": KERNEL,
        "tuned": KERNEL.replace('CONFIG = {"TILE": 1}', 'CONFIG = {"TILE": 2}'),
        "library": "import torch\n" + KERNEL.replace("CPP_SOURCE", "_TEXT"),
    }


def add(
    store: Store,
    problem: Problem,
    name: str,
    *,
    index: int,
    operator: str,
    verdict: Evaluation,
    parents: tuple[Slot, ...] = (),
) -> tuple[Slot, Candidate]:
    generation = 1 if parents else 0
    slot = Slot(problem=problem.key, generation=generation, island=0, index=index)
    candidate = Candidate.of(problem.key, sources(problem)[name])
    store.propose(
        Attempt(
            slot=slot,
            operator=operator,
            parents=parents,
            candidate=candidate.id,
            note=f"made {name}",
        ),
        candidate,
    )
    store.record(slot, verdict)
    return slot, candidate


def insertion(slot: Slot, candidate: Candidate, speedup: float, cell: tuple[int, ...]) -> Insertion:
    elite = Elite(cell=cell, objective=objective_of(speedup), slot=slot, candidate=candidate.id)
    return Insertion(
        elite=elite, addition=Addition(status=AddStatus.NEW, value=objective_of(speedup))
    )


def fill(store: Store, problem: Problem) -> None:
    """Search one problem: reference, kernel, tuned child; each ends differently."""
    add_one = problem.id in (1, 2, 7)
    place, reference = add(
        store, problem, "reference", index=0, operator="seed", verdict=evaluation(0.99, own=0.0)
    )
    insertions = [insertion(place, reference, 0.99, (0, 2, 0))]
    first = None
    if add_one:
        name = "library" if problem.id == 7 else "kernel"
        own = 0.0 if problem.id == 7 else 1.0
        first, kernel = add(
            store, problem, name, index=1, operator="sketch", verdict=evaluation(1.5, own=own)
        )
        insertions.append(insertion(first, kernel, 1.5, (0, 0, 2)))
    tallies = [
        OperatorTally(
            problem=problem.key, generation=0, operator="sketch",
            attempts=1, evaluated=1, accepted=1, gain=0.4, cost_s=2.0,
        )
    ]  # fmt: skip
    store.finish_generation(
        problem.key, 0, GenerationOutcome(insertions=tuple(insertions), tallies=tuple(tallies))
    )
    if problem.id == 1:
        assert first is not None
        slot, tuned = add(
            store, problem, "tuned", index=0, operator="tune", verdict=evaluation(2.5),
            parents=(first,),
        )  # fmt: skip
        outcome = GenerationOutcome(insertions=(insertion(slot, tuned, 2.5, (0, 0, 3)),))
        store.finish_generation(problem.key, 1, outcome)
        store.record_verification(
            problem.key, tuned.id, evaluation(2.0, verified=True, matched=1.8)
        )


@pytest.fixture(scope="session")
def small_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a finished run of seven problems, one of each outcome."""
    folder = tmp_path_factory.mktemp("runs") / "small"
    record = RunRecord(
        name="small",
        created="2025-01-01T00:00:00Z",
        config_json=json.dumps({"archive": {"axes": ["launches", "reuse", "work"]}}),
        rng_seed=0,
        scale="small",
    )
    with Store.create(folder, record) as store:
        store.set_device(DEVICE, noise_floor=0.015, referee_version="1")
        store.add_problems(PROBLEMS)
        for each in PROBLEMS:
            store.put_graph(
                each.key,
                dataclasses.replace(
                    GRAPH,
                    inputs=(dataclasses.replace(GRAPH.inputs[0], shape=(each.id, 8)),),  # type: ignore[type-var] # a tensor
                ),
            )
            if each.id in (1, 2, 3, 7):
                fill(store, each)
        store.skip_problem(PROBLEMS[4].key, "needs 3 GB, there are 2 GB")
        broken = Evaluation(status=Status.CRASHED, reason="segfault", log="signal 11")
        add(store, PROBLEMS[3], "kernel", index=0, operator="sketch", verdict=broken)
        store.set_state(RunState.FINISHED)
    return folder
