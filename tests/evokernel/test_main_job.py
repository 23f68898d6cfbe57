"""What the main job promises is judged from a run's rows."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from archives.attempt import Attempt, AttemptState, Slot
from archives.candidate import Candidate
from archives.grid import Addition, AddStatus, Elite, objective_of
from archives.records import (
    MIGRATE,
    GenerationOutcome,
    Insertion,
    OperatorTally,
    RunRecord,
    RunState,
)
from archives.store import Store
from benchmarks.main_job import Clause, Goals, judge
from problems.problem import Problem
from tests.evokernel.conftest import DEVICE, KERNEL, evaluation, problem

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "main_job.py"
GOALS = Goals(problems=2, generations=1, sure=2)
CELLS = ((0, 0, 1), (1, 1, 2), (2, 2, 3))
OPERATORS = ("sketch", "tune")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What the run is like; the defaults keep every promise."""

    cells: tuple[tuple[int, int, int], ...] = CELLS
    speedup: float = 2.0
    own: float = 1.0
    accepted: int = 1
    migrant_breeds: bool = True
    generations: int = 1
    state: RunState = RunState.FINISHED
    is_verified: bool = True


def _search(store: Store, one: Problem, shape: Shape) -> None:
    def slot(generation: int, island: int, index: int) -> Slot:
        return Slot(problem=one.key, generation=generation, island=island, index=index)

    def child(place: Slot, mark: int, operator: str, parents: tuple[Slot, ...] = ()) -> Candidate:
        made = Candidate.of(one.key, KERNEL + f"\nMARK = {mark}\n")
        store.propose(
            Attempt(slot=place, operator=operator, parents=parents, candidate=made.id), made
        )
        store.record(place, evaluation(shape.speedup, own=shape.own))
        return made

    def insertion(place: Slot, made: Candidate, cell: tuple[int, int, int]) -> Insertion:
        value = objective_of(shape.speedup)
        elite = Elite(cell=cell, objective=value, slot=place, candidate=made.id)
        return Insertion(elite=elite, addition=Addition(status=AddStatus.NEW, value=value))

    insertions = []
    for index, cell in enumerate(shape.cells):
        made = child(slot(0, 0, index), index, "sketch")
        insertions.append(insertion(slot(0, 0, index), made, cell))
    first = insertions[0].elite
    migrant = Attempt(
        slot=slot(0, 1, 0), operator=MIGRATE, parents=(first.slot,), state=AttemptState.ARCHIVED,
        candidate=first.candidate, result=first.candidate,
    )  # fmt: skip
    tallies = tuple(
        OperatorTally(
            problem=one.key, generation=0, operator=name, attempts=1, evaluated=1,
            accepted=shape.accepted if name == "tune" else 1,
        )
        for name in OPERATORS
    )  # fmt: skip
    outcome = GenerationOutcome(insertions=tuple(insertions), migrants=(migrant,), tallies=tallies)
    store.finish_generation(one.key, 0, outcome)
    if shape.generations:
        parent = migrant.slot if shape.migrant_breeds else first.slot
        child(slot(1, 1, 0), 99, "tune", (parent,))
        store.finish_generation(one.key, 1, GenerationOutcome())
    if shape.is_verified:
        verdict = evaluation(shape.speedup, own=shape.own, verified=True)
        store.record_verification(one.key, first.candidate, verdict)


def _write(folder: Path, shape: Shape) -> None:
    record = RunRecord(
        name="demo",
        created="2025-01-01T00:00:00Z",
        config_json=json.dumps({"operators": {"use": ["seed:OUTSIDE", *OPERATORS]}}),
        rng_seed=0,
        scale="small",
    )
    with Store.create(folder, record) as store:
        store.set_device(DEVICE, noise_floor=0.015, referee_version="1")
        problems = [problem(11, "First"), problem(12, "Second")]
        store.add_problems(problems)
        for one in problems:
            _search(store, one, shape)
        store.set_state(shape.state)


@pytest.fixture
def good_run(tmp_path: Path) -> Iterator[Store]:
    _write(tmp_path / "run", Shape())
    with Store.open(tmp_path / "run") as store:
        yield store


def broken(clauses: list[Clause]) -> list[str]:
    return [clause.text for clause in clauses if not clause.is_kept]


def test_a_good_run_keeps_every_promise(good_run: Store) -> None:
    clauses = judge(good_run, GOALS)
    assert broken(clauses) == []
    assert len(clauses) == 9
    assert all(clause.found for clause in clauses)


@pytest.mark.parametrize(
    ("shape", "words"),
    [
        (Shape(state=RunState.STOPPED), ["1 generations"]),
        (Shape(generations=0), ["1 generations", "migrant"]),
        (Shape(is_verified=False), ["fast_p sure"]),
        (Shape(own=0.5), ["fast_p sure"]),
        (Shape(speedup=1.1), ["geometric mean"]),
        (Shape(accepted=0), ["every operator"]),
        (Shape(migrant_breeds=False), ["migrant"]),
        (Shape(cells=((0, 0, 1), (1, 0, 2), (2, 1, 3))), ["axis 'reuse'"]),
        (Shape(cells=CELLS[:2]), ["'launches'", "'reuse'", "'work'", "median archive"]),
    ],
    ids=lambda value: str(value) if isinstance(value, list) else "",
)
def test_each_broken_promise_is_found_and_no_other(
    shape: Shape, words: list[str], tmp_path: Path
) -> None:
    _write(tmp_path / "run", shape)
    with Store.open(tmp_path / "run") as store:
        found = broken(judge(store, GOALS))
    assert len(found) == len(words), found
    assert all(word in text for word, text in zip(words, found, strict=True))


def test_fewer_problems_than_promised_are_found(good_run: Store) -> None:
    assert broken(judge(good_run, dataclasses.replace(GOALS, problems=3))) == [
        "3 problems at small scale, 1 generations"
    ]


def test_the_script_prints_a_line_for_each_promise(small_run: Path, tmp_path: Path) -> None:
    command = [sys.executable, str(SCRIPT)]
    reply = subprocess.run([*command, str(small_run)], capture_output=True, text=True, check=False)
    assert reply.returncode == 1, reply.stderr
    assert len(reply.stdout.splitlines()) == 9
    assert "NOT KEPT  100 problems" in reply.stdout
    missing = subprocess.run(
        [*command, str(tmp_path / "none")], capture_output=True, text=True, check=False
    )
    assert missing.returncode == 2
    assert missing.stderr.count("\n") == 1
