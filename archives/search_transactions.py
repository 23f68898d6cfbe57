"""What is written about attempts, verdicts and elites; `archives.store` is the API."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sqlalchemy import Connection, bindparam, insert, select, update

from archives.attempt import Attempt, AttemptState, Slot
from archives.candidate import Candidate
from archives.configuration import Configuration
from archives.encoding import AFTER, encode_evaluation, storable, to_text
from archives.evaluation import Evaluation, Status
from archives.records import SEARCH, VERIFY, GenerationOutcome, Insertion, OperatorTally
from archives.run_queries import generation_reached, problem_number
from archives.statements import Statement
from archives.tables import (
    ATTEMPT,
    CANDIDATE,
    ELITE,
    EVALUATION,
    MIGRATION,
    PARENT,
    PROBLEM,
    TALLY,
)
from problems.errors import StoreError

__all__ = [
    "fail",
    "finish_generation",
    "propose",
    "record",
    "record_verification",
    "withdraw",
]

_ADD_ATTEMPT = Statement(insert(ATTEMPT))
_ADD_CANDIDATE = Statement(insert(CANDIDATE))
_ADD_ELITE = Statement(insert(ELITE))
_ADD_EVALUATION = Statement(insert(EVALUATION))
_ADD_MIGRATION = Statement(insert(MIGRATION))
_ADD_PARENT = Statement(insert(PARENT))
_ADD_TALLY = Statement(insert(TALLY))
_FIND_GENERATION = Statement(select(PROBLEM.c.generation).where(PROBLEM.c.id == bindparam("at")))
_FIND_CANDIDATE = Statement(select(CANDIDATE.c.id).where(CANDIDATE.c.digest == bindparam("digest")))
_FIND_ATTEMPT = Statement(
    select(ATTEMPT.c.id, ATTEMPT.c.state, ATTEMPT.c.problem_id, ATTEMPT.c.candidate_id)
    .join(PROBLEM, PROBLEM.c.id == ATTEMPT.c.problem_id)
    .where(
        PROBLEM.c.key == bindparam("key"),
        ATTEMPT.c.generation == bindparam("generation"),
        ATTEMPT.c.island == bindparam("island"),
        ATTEMPT.c.slot_index == bindparam("slot_index"),
    )
)
_SET_FIRST_ATTEMPT = Statement(
    update(CANDIDATE)
    .where(CANDIDATE.c.id == bindparam("at"))
    .values(attempt_id=bindparam("attempt_id"))
)
_SET_ADDITION = Statement(
    update(ATTEMPT)
    .where(ATTEMPT.c.id == bindparam("at"))
    .values({name: bindparam(name) for name in ("add_status", "add_value", "cell", "objective")})
)
_SET_ARCHIVED = Statement(
    update(ATTEMPT)
    .where(
        ATTEMPT.c.problem_id == bindparam("at_problem"),
        ATTEMPT.c.generation == bindparam("at_generation"),
        ATTEMPT.c.state == bindparam("before"),
    )
    .values(state=bindparam("state"))
)
_SET_ELITE = Statement(
    update(ELITE)
    .where(
        ELITE.c.problem_id == bindparam("at_problem"),
        ELITE.c.island == bindparam("at_island"),
        ELITE.c.cell == bindparam("at_cell"),
    )
    .values({name: bindparam(name) for name in ("attempt_id", "objective")})
)
_FIND_CELL = Statement(
    select(ELITE.c.objective).where(
        ELITE.c.problem_id == bindparam("at_problem"),
        ELITE.c.island == bindparam("at_island"),
        ELITE.c.cell == bindparam("at_cell"),
    )
)
_SET_GENERATION = Statement(
    update(PROBLEM).where(PROBLEM.c.id == bindparam("at")).values(generation=bindparam("reached"))
)
_SET_VERDICT = Statement(
    update(ATTEMPT)
    .where(ATTEMPT.c.id == bindparam("at"))
    .values(state=bindparam("state"), reason=bindparam("reason"), result_id=bindparam("result_id"))
)


class _Found(NamedTuple):
    """The numbers and the state of an attempt."""

    id: int
    state: str
    problem_id: int
    candidate_id: int | None


def propose(
    connection: Connection,
    attempt: Attempt,
    candidate: Candidate | None,
    configurations: Sequence[Configuration] = (),
) -> int:
    """Add one attempt, its parents, and its candidate where that is new; return its number."""
    problem_id = problem_number(connection, attempt.slot.problem)
    candidate_id = result_id = None
    is_new = False
    if attempt.candidate is not None:
        candidate_id, is_new = _candidate(connection, problem_id, attempt.candidate, candidate)
    if attempt.result is not None:
        result_id, _ = _candidate(connection, problem_id, attempt.result, candidate)
    original = attempt.duplicate_of
    row = {
        "problem_id": problem_id,
        "generation": attempt.slot.generation,
        "island": attempt.slot.island,
        "slot_index": attempt.slot.index,
        "operator": attempt.operator,
        "state": attempt.state.value,
        "reason": storable(attempt.reason),
        "candidate_id": candidate_id,
        "result_id": result_id,
        "duplicate_of_id": None if original is None else _found(connection, original).id,
        "configurations_json": (
            to_text([dict(point) for point in configurations]) if configurations else ""
        ),
        "note": storable(attempt.note),
        "cost_s": attempt.cost_s,
        "cost_usd": attempt.cost_usd,
        "model": storable(attempt.model),
    }
    number = _ADD_ATTEMPT.add(connection, row)
    if is_new:
        _set_first_attempt(connection, candidate_id, number)
    for position, parent in enumerate(attempt.parents):
        parent_id = _found(connection, parent).id
        row = {"attempt_id": number, "position": position, "parent_id": parent_id}
        _ADD_PARENT.change(connection, row)
    return number


def record(
    connection: Connection, slot: Slot, evaluation: Evaluation, result: Candidate | None
) -> None:
    """See `Store.record`."""
    number, _, problem_id, measured_id = _outstanding(connection, slot)
    if result is not None:
        measured_id, is_new = _candidate(connection, problem_id, result.id, result)
        if is_new:
            _set_first_attempt(connection, measured_id, number)
    if measured_id is None:
        raise StoreError(
            f"{_named(slot)} proposed no candidate, so it can have no verdict: "
            "record it with the candidate that was measured"
        )
    _add_evaluation(connection, (problem_id, measured_id, number), SEARCH, evaluation)
    correct = evaluation.status is Status.OK
    state = AttemptState.EVALUATED if correct else AttemptState.FAILED
    change = {
        "at": number,
        "state": state.value,
        "reason": evaluation.reason,
        "result_id": measured_id if correct else None,
    }
    _SET_VERDICT.change(connection, change)


def fail(connection: Connection, slot: Slot, reason: str) -> None:
    """See `Store.fail`."""
    failed = {"state": AttemptState.FAILED.value, "reason": storable(reason)}
    its_own = ATTEMPT.c.id == _outstanding(connection, slot).id
    connection.execute(update(ATTEMPT).where(its_own).values(failed))


def record_verification(
    connection: Connection, problem_key: str, candidate_id: str, evaluation: Evaluation
) -> None:
    """See `Store.record_verification`."""
    problem_id = problem_number(connection, problem_key)
    number, _ = _candidate(connection, problem_id, candidate_id, None)
    finished = {AFTER: generation_reached(connection, problem_key)}
    _add_evaluation(connection, (problem_id, number, None), VERIFY, evaluation, **finished)


def withdraw(connection: Connection, problem_key: str, candidate_id: str, reason: str) -> None:
    """See `Store.withdraw`."""
    problem_id = problem_number(connection, problem_key)
    number, _ = _candidate(connection, problem_id, candidate_id, None)
    connection.execute(
        update(CANDIDATE).where(CANDIDATE.c.id == number).values(withdrawn=storable(reason))
    )
    held = (
        select(ELITE.c.island, ELITE.c.cell)
        .join(ATTEMPT, ATTEMPT.c.id == ELITE.c.attempt_id)
        .where(ELITE.c.problem_id == problem_id, ATTEMPT.c.result_id == number)
    )
    for island, cell in connection.execute(held).all():
        next_best = (
            select(ATTEMPT.c.id, ATTEMPT.c.objective)
            .join(CANDIDATE, CANDIDATE.c.id == ATTEMPT.c.result_id)
            .where(
                ATTEMPT.c.problem_id == problem_id,
                ATTEMPT.c.island == island,
                ATTEMPT.c.cell == cell,
                CANDIDATE.c.withdrawn == "",
            )
            .order_by(ATTEMPT.c.objective.desc(), ATTEMPT.c.generation, ATTEMPT.c.slot_index)
            .limit(1)
        )
        successor = connection.execute(next_best).first()
        _set_elite(connection, (problem_id, island, cell), successor or (None, None))


def finish_generation(
    connection: Connection, problem_key: str, generation: int, outcome: GenerationOutcome
) -> None:
    """See `Store.finish_generation`."""
    problem_id = problem_number(connection, problem_key)
    found = _FIND_GENERATION.first(connection, {"at": problem_id})
    assert found is not None, "the problem has just been found"
    if found[0] is not None and found[0] >= generation:
        return
    change = {
        "at_problem": problem_id,
        "at_generation": generation,
        "before": AttemptState.EVALUATED.value,
        "state": AttemptState.ARCHIVED.value,
    }
    _SET_ARCHIVED.change(connection, change)
    for migrant in outcome.migrants:
        _add_migrant(connection, problem_id, migrant)
    for insertion in outcome.insertions:
        _add_insertion(connection, problem_id, insertion)
    for tally in outcome.tallies:
        _add_tally(connection, problem_id, tally)
    _SET_GENERATION.change(connection, {"at": problem_id, "reached": generation})


def _candidate(
    connection: Connection, problem_id: int, digest: str, candidate: Candidate | None
) -> tuple[int, bool]:
    """The number of a candidate, and whether it was added just now."""
    found = _FIND_CANDIDATE.first(connection, {"digest": digest})
    if found is not None:
        return found[0], False
    if candidate is None or candidate.id != digest:
        raise StoreError(
            f"the run has no candidate {digest[:12]!r}: propose it with its source first"
        )
    row = {
        "problem_id": problem_id,
        "digest": digest,
        "program": candidate.program_id,
        "language": candidate.language.value,
        "source": storable(candidate.source),
        "withdrawn": "",
    }
    return _ADD_CANDIDATE.add(connection, row), True


def _set_first_attempt(connection: Connection, candidate_number: int | None, number: int) -> None:
    change = {"at": candidate_number, "attempt_id": number}
    _SET_FIRST_ATTEMPT.change(connection, change)


def _found(connection: Connection, slot: Slot) -> _Found:
    """What is at a slot; `StoreError` where nothing is."""
    place = {
        "key": slot.problem,
        "generation": slot.generation,
        "island": slot.island,
        "slot_index": slot.index,
    }
    row = _FIND_ATTEMPT.first(connection, place)
    if row is None:
        raise StoreError(f"the run has no {_named(slot)}: propose it first")
    return _Found(*row)


def _outstanding(connection: Connection, slot: Slot) -> _Found:
    """What is at a slot that waits for its verdict."""
    found = _found(connection, slot)
    if found.state != AttemptState.PROPOSED.value:
        raise StoreError(
            f"{_named(slot)} is {found.state} already, expected it to be proposed: "
            "record one verdict for each attempt"
        )
    return found


def _named(slot: Slot) -> str:
    return (
        f"attempt {slot.index} of island {slot.island} in generation {slot.generation} "
        f"of the problem {slot.problem[:12]}"
    )


def _add_evaluation(
    connection: Connection,
    about: tuple[int, int, int | None],
    purpose: str,
    evaluation: Evaluation,
    **beside: int | None,
) -> None:
    """Add a verdict about (problem's number, candidate's number, attempt's number or None)."""
    problem_id, candidate_number, attempt_number = about
    row = {
        "problem_id": problem_id,
        "candidate_id": candidate_number,
        "attempt_id": attempt_number,
        "purpose": purpose,
        "status": evaluation.status.value,
        "reason": evaluation.reason,
        "speedup": evaluation.speedup,
        "data_json": to_text({**encode_evaluation(evaluation), **beside}),
    }
    _ADD_EVALUATION.add(connection, row)


def _add_migrant(connection: Connection, problem_id: int, migrant: Attempt) -> None:
    number = propose(connection, migrant, None)
    row = {
        "problem_id": problem_id,
        "source_id": _found(connection, migrant.parents[0]).id,
        "target_id": number,
    }
    _ADD_MIGRATION.add(connection, row)


def _add_insertion(connection: Connection, problem_id: int, insertion: Insertion) -> None:
    elite, addition = insertion.elite, insertion.addition
    number = _found(connection, elite.slot).id
    cell = ",".join(map(str, elite.cell))
    change = {
        "at": number,
        "add_status": int(addition.status),
        "add_value": addition.value,
        "cell": cell,
        "objective": elite.objective,
    }
    _SET_ADDITION.change(connection, change)
    if addition.status:
        place = (problem_id, elite.slot.island, cell)
        _offer_elite(connection, place, (number, elite.objective))


def _offer_elite(
    connection: Connection, place: tuple[int, int, str], offered: tuple[int, float]
) -> None:
    """Give a cell to an insertion, unless its holder is as good: a best kernel is never lost."""
    problem_id, island, cell = place
    at = {"at_problem": problem_id, "at_island": island, "at_cell": cell}
    held = _FIND_CELL.first(connection, at)
    if held is None or held[0] is None or held[0] < offered[1]:
        _set_elite(connection, place, offered)


def _set_elite(
    connection: Connection,
    place: tuple[int, int, str],
    holder: tuple[int | None, float | None],
) -> None:
    """Give a cell (problem's number, island, cell) to (attempt's number, objective)."""
    problem_id, island, cell = place
    attempt_number, objective = holder
    values = {"attempt_id": attempt_number, "objective": objective}
    at = {"at_problem": problem_id, "at_island": island, "at_cell": cell}
    if _SET_ELITE.change(connection, at | values) == 0:
        row = {"problem_id": problem_id, "island": island, "cell": cell}
        _ADD_ELITE.change(connection, row | values)


def _add_tally(connection: Connection, problem_id: int, tally: OperatorTally) -> None:
    row = {
        "problem_id": problem_id,
        "generation": tally.generation,
        "operator": tally.operator,
        "attempts": tally.attempts,
        "evaluated": tally.evaluated,
        "accepted": tally.accepted,
        "gain": tally.gain,
        "cost_s": tally.cost_s,
    }
    _ADD_TALLY.change(connection, row)
