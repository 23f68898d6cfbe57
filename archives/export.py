"""The canonical export of a run: what two runs of one seed and equal verdicts must share.

Left out is what tells the hour, the machine's pace or the run's name: creation time, name, state,
seconds and money spent. Everything is sorted by its place in the search, never by arrival.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from archives.attempt import Attempt, Slot
from archives.encoding import encode_evaluation
from archives.grid import Elite
from archives.records import FORMAT_VERSION, EvaluationRecord
from archives.store import Store
from problems.problem import Problem

__all__ = ["canonical_export"]

_CLOCKS = ("cost_s",)


def canonical_export(store: Store) -> str:
    """Return a run's search as JSON text, the same for the same search.

    Args:
        store: An open run.

    Returns:
        Indented JSON with sorted keys: the seed and scale, and for each problem its attempts,
        candidates, evaluations, elites, migrations and tallies.
    """
    run = store.run()
    states = {state.key: state for state in store.problem_states()}
    data = {
        "rng_seed": run.rng_seed,
        "scale": run.scale,
        "referee_version": run.referee_version,
        "format_version": FORMAT_VERSION,
        "problems": [
            {
                "label": problem.label,
                "key": problem.key,
                "status": states[problem.key].status.value,
                "reason": states[problem.key].reason,
                "generation": states[problem.key].generation,
                **_search(store, problem),
            }
            for problem in store.problems()
        ],
    }
    return json.dumps(data, indent=1, sort_keys=True)


def _search(store: Store, problem: Problem) -> dict[str, Any]:
    key = problem.key
    records = store.evaluations(key)
    return {
        "attempts": [_attempt(attempt) for attempt in store.attempts(key)],
        "candidates": {
            known.id: {"program": known.program_id, "withdrawn": known.withdrawn}
            for known in store.known(key).values()
        },
        "evaluations": [_evaluation(record) for record in sorted(records, key=_place)],
        "insertions": [
            {
                **_elite(insertion.elite),
                "status": insertion.addition.status.name,
                "value": insertion.addition.value,
            }
            for insertion in store.insertions(key)
        ],
        "elites": [_elite(elite) for elite in store.elites(key)],
        "migrations": [
            {
                "source": _slot(migration.source),
                "target": _slot(migration.target),
                "candidate": migration.candidate,
            }
            for migration in sorted(store.migrations(key), key=lambda m: (m.target, m.source))
        ],
        "tallies": [_without_clocks(asdict(tally)) for tally in store.tallies(key)],
    }


def _place(record: EvaluationRecord) -> tuple[object, ...]:
    """Searches by slot, then verifications by candidate; the sort keeps each one's order."""
    if record.slot is not None:
        return (0, *_slot(record.slot))
    return (1, record.candidate)


def _evaluation(record: EvaluationRecord) -> dict[str, Any]:
    verdict = _without_clocks(encode_evaluation(record.evaluation))
    return {
        "candidate": record.candidate,
        "proposed": record.proposed,
        "slot": None if record.slot is None else _slot(record.slot),
        "purpose": record.purpose,
        "verdict": verdict,
    }


def _attempt(attempt: Attempt) -> dict[str, Any]:
    return {
        "slot": _slot(attempt.slot),
        "operator": attempt.operator,
        "model": attempt.model,
        "parents": [_slot(parent) for parent in attempt.parents],
        "state": attempt.state.value,
        "reason": attempt.reason,
        "candidate": attempt.candidate,
        "result": attempt.result,
        "duplicate_of": None if attempt.duplicate_of is None else _slot(attempt.duplicate_of),
        "note": attempt.note,
    }


def _elite(elite: Elite) -> dict[str, Any]:
    return {
        "cell": list(elite.cell),
        "objective": elite.objective,
        "slot": _slot(elite.slot),
        "candidate": elite.candidate,
    }


def _slot(slot: Slot) -> list[int]:
    return [slot.generation, slot.island, slot.index]


def _without_clocks(data: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in data.items() if name not in _CLOCKS}
