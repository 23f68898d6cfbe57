"""A writer killed at any moment loses nothing that it had recorded, and doubles nothing."""

import sqlite3
from pathlib import Path

import numpy as np

from archives.attempt import AttemptState
from archives.records import RunRecord
from archives.store import Store
from problems.problem import Problem, Scale
from tests.archives.killed import Writers

PROBLEM = Problem(
    level=1, id=1, name="P", family="f", scale=Scale.TINY, source="class Model: ...\n"
)
PER_GENERATION = 4

WRITER = f"""
from archives.attempt import Attempt, Slot
from archives.candidate import Candidate
from archives.evaluation import Evaluation, Interval, Rung, Status
from archives.grid import AddStatus, Addition, Elite
from archives.records import GenerationOutcome, Insertion, OperatorTally
from archives.store import Store

PER_GENERATION = {PER_GENERATION}


def verdict(number):
    speedup = 1.0 + number
    return Evaluation(status=Status.OK, rung=Rung.TIME, latency_ms=1.0, speedup=speedup,
                      interval=Interval(low=speedup, high=speedup))


def write(run):
    with Store.open(run, write=True) as store:
        key = store.problems()[0].key
        slot = lambda n: Slot(problem=key, generation=n // PER_GENERATION, island=0,
                              index=n % PER_GENERATION)
        reached = store.generation_reached(key)
        number = 0 if reached is None else (reached + 1) * PER_GENERATION
        while True:
            attempt = store.attempt(slot(number))
            if attempt is None:
                candidate = Candidate.of(key, f"NUMBER = {{number}}")
                parents = (slot(number - 1),) if number else ()
                attempt = Attempt(slot=slot(number), operator="tune", parents=parents,
                                  candidate=candidate.id)
                store.propose(attempt, candidate)
                print("proposed", number, flush=True)
            if attempt.state == "proposed":
                result = Candidate.of(key, f"NUMBER = {{number}}; BEST = True")
                store.record(attempt.slot, verdict(number), result)
                print("recorded", number, flush=True)
            number += 1
            if number % PER_GENERATION == 0:
                generation = number // PER_GENERATION - 1
                children = store.attempts(key, generation)
                insertions = tuple(
                    Insertion(
                        elite=Elite(cell=(child.slot.index,), objective=float(generation),
                                    slot=child.slot, candidate=child.result),
                        addition=Addition(status=AddStatus.NEW, value=1.0),
                    )
                    for child in children
                )
                tally = OperatorTally(problem=key, generation=generation, operator="tune",
                                      attempts=len(children))
                outcome = GenerationOutcome(insertions=insertions, tallies=(tally,))
                store.finish_generation(key, generation, outcome)
                print("finished", generation, flush=True)
"""


def acknowledged(lines: list[str]) -> dict[str, int]:
    """Return the last number of each kind that a writer acknowledged."""
    return {kind: int(number) for kind, number in map(str.split, lines)}


def check(run: Path, told: dict[str, int]) -> int:
    """Check a store after a kill, and return how many attempts it holds."""
    database = sqlite3.connect(run / "run.db")
    assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    assert database.execute("PRAGMA foreign_key_check").fetchall() == []
    database.close()
    with Store.open(run, write=True) as store:
        attempts = store.attempts(PROBLEM.key)
        numbers = [a.slot.generation * PER_GENERATION + a.slot.index for a in attempts]
        assert numbers == list(range(len(attempts)))
        assert len(attempts) > told.get("proposed", -1)
        verdicts = [record.slot for record in store.evaluations(PROBLEM.key)]
        assert verdicts == [a.slot for a in attempts if a.state is not AttemptState.PROPOSED]
        assert len(verdicts) > told.get("recorded", -1)
        reached = store.generation_reached(PROBLEM.key)
        num_finished = 0 if reached is None else reached + 1
        assert num_finished > told.get("finished", -1)
        archived = [a for a in attempts if a.state is AttemptState.ARCHIVED]
        assert len(archived) == len(store.insertions(PROBLEM.key)) == num_finished * PER_GENERATION
        assert [t.generation for t in store.tallies()] == list(range(num_finished))
        assert all(e.slot.generation == reached for e in store.elites(PROBLEM.key))
        assert len(store.known(PROBLEM.key)) == len(attempts) + len(verdicts)
        return len(attempts)


def test_a_kill_at_any_moment_loses_and_doubles_nothing(tmp_path: Path) -> None:
    run = tmp_path / "run"
    record = RunRecord(name="demo", created="now", config_json="{}", rng_seed=1, scale="tiny")
    with Store.create(run, record) as store:
        store.add_problems([PROBLEM])
    rng = np.random.default_rng(7)
    held = 0
    with Writers(WRITER) as writers:
        for _ in range(20):
            lines = writers.kill(run, int(rng.integers(1, 24)), float(rng.uniform(0, 0.02)))
            holds = check(run, acknowledged(lines))
            assert holds >= held
            held = holds
