"""What is read about attempts, candidates, verdicts and elites; `archives.store` is the API."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import Any

from sqlalchemy import ColumnElement, Connection, RowMapping, bindparam, func, literal, select

from archives.attempt import Attempt, AttemptState, Slot
from archives.candidate import Candidate, Language
from archives.configuration import Configuration
from archives.grid import Addition, AddStatus, Elite
from archives.records import (
    Insertion,
    KnownCandidate,
    Migration,
)
from archives.run_queries import format_version, problem_number
from archives.statements import Statement
from archives.tables import ATTEMPT, CANDIDATE, ELITE, MIGRATION, PARENT, PROBLEM
from problems.errors import StoreError

__all__ = [
    "PLACE",
    "attempt",
    "attempts",
    "candidate",
    "configurations",
    "elites",
    "insertions",
    "known",
    "migrations",
    "problem_of",
    "slot_of",
]

_PROPOSED = CANDIDATE.alias("proposed")
_RESULT = CANDIDATE.alias("result")
_OTHER = ATTEMPT.alias("other")
PLACE = (ATTEMPT.c.generation, ATTEMPT.c.island, ATTEMPT.c.slot_index)
"""The columns of an attempt's slot, in the order of slots."""

_OTHER_PLACE = (_OTHER.c.generation, _OTHER.c.island, _OTHER.c.slot_index)
_HELD = func.coalesce(ATTEMPT.c.result_id, ATTEMPT.c.candidate_id)
"""The candidate that an attempt stands for: the measured one, else the proposed one."""
_ID_DIGITS = 64
_FIND_CANDIDATE = Statement(
    select(PROBLEM.c.key, CANDIDATE.c.program, CANDIDATE.c.source, CANDIDATE.c.language)
    .join(PROBLEM, PROBLEM.c.id == CANDIDATE.c.problem_id)
    .where(CANDIDATE.c.digest == bindparam("digest"))
)
_FIRST_FORMAT_WITH_MODEL = 2
_NUM_SHOWN = 4
"""How many of several matching ids an error lists."""


def attempt(connection: Connection, slot: Slot) -> Attempt | None:
    """See `Store.attempt`."""
    found = _attempts(connection, PROBLEM.c.key == slot.problem, *_at(slot))
    return found[0] if found else None


def attempts(
    connection: Connection, problem_key: str | None, generation: int | None
) -> list[Attempt]:
    """See `Store.attempts`."""
    conditions: list[ColumnElement[bool]] = []
    if problem_key is not None:
        conditions.append(PROBLEM.c.key == problem_key)
    if generation is not None:
        conditions.append(ATTEMPT.c.generation == generation)
    return _attempts(connection, *conditions)


def configurations(connection: Connection, slot: Slot) -> tuple[Configuration, ...]:
    """See `Store.configurations`."""
    statement = (
        select(ATTEMPT.c.configurations_json)
        .join(PROBLEM, PROBLEM.c.id == ATTEMPT.c.problem_id)
        .where(PROBLEM.c.key == slot.problem, *_at(slot))
    )
    text = connection.execute(statement).scalar()
    return tuple(json.loads(text)) if text else ()


def insertions(connection: Connection, problem_key: str) -> list[Insertion]:
    """See `Store.insertions`."""
    statement = (
        select(
            CANDIDATE.c.digest,
            ATTEMPT.c.cell,
            ATTEMPT.c.objective,
            ATTEMPT.c.add_status,
            ATTEMPT.c.add_value,
            *PLACE,
        )
        .join(CANDIDATE, CANDIDATE.c.id == _HELD)
        .where(
            ATTEMPT.c.problem_id == problem_number(connection, problem_key),
            ATTEMPT.c.add_status.is_not(None),
        )
        .order_by(*PLACE)
    )
    return [
        Insertion(
            elite=_elite(problem_key, row._mapping),
            addition=Addition(status=AddStatus(row.add_status), value=row.add_value),
        )
        for row in connection.execute(statement)
    ]


def migrations(connection: Connection, problem_key: str) -> list[Migration]:
    """See `Store.migrations`."""
    statement = (
        select(
            CANDIDATE.c.digest,
            *(column.label(f"source_{column.name}") for column in _OTHER_PLACE),
            *(column.label(f"target_{column.name}") for column in PLACE),
        )
        .select_from(MIGRATION)
        .join(ATTEMPT, ATTEMPT.c.id == MIGRATION.c.target_id)
        .join(_OTHER, _OTHER.c.id == MIGRATION.c.source_id)
        .join(CANDIDATE, CANDIDATE.c.id == _HELD)
        .where(MIGRATION.c.problem_id == problem_number(connection, problem_key))
        .order_by(MIGRATION.c.id)
    )
    return [
        Migration(
            source=slot_of(problem_key, row._mapping, "source_"),
            target=slot_of(problem_key, row._mapping, "target_"),
            candidate=row.digest,
        )
        for row in connection.execute(statement)
    ]


def candidate(connection: Connection, id_or_prefix: str, problem_key: str | None) -> Candidate:
    """See `Store.candidate`."""
    prefix = id_or_prefix.strip().lower()
    if not prefix or not set(prefix) <= set("0123456789abcdef"):
        raise StoreError(
            f"{id_or_prefix!r} is no candidate id: expected at least one hexadecimal digit and "
            "nothing else, as shown by the archive command"
        )
    if len(prefix) == _ID_DIGITS and (whole := _whole(connection, prefix, problem_key)):
        return whole
    # "g" follows every hexadecimal digit, so the index finds the prefix as a range.
    conditions = [CANDIDATE.c.digest >= prefix, CANDIDATE.c.digest < prefix + "g"]
    if problem_key is not None:
        conditions.append(CANDIDATE.c.problem_id == problem_number(connection, problem_key))
    statement = select(CANDIDATE).where(*conditions).order_by(CANDIDATE.c.digest)
    rows = connection.execute(statement.limit(_NUM_SHOWN + 1)).all()
    where = "the run" if problem_key is None else f"the problem {problem_key[:12]}"
    if not rows:
        raise StoreError(
            f"{where} has no candidate whose id starts with {prefix!r}: "
            "list the candidates with the archive command"
        )
    if len(rows) > 1:
        shown = ", ".join(row.digest[: len(prefix) + 8] for row in rows[:_NUM_SHOWN])
        more = ", ..." if len(rows) > _NUM_SHOWN else ""
        raise StoreError(
            f"{where} has several candidates whose id starts with {prefix!r} ({shown}{more}): "
            "give more digits"
        )
    row = rows[0]
    return Candidate(
        id=row.digest,
        program_id=row.program,
        source=row.source,
        language=Language(row.language),
    )


def _whole(connection: Connection, id: str, problem_key: str | None) -> Candidate | None:
    """The candidate of a whole id, as the search asks for parents; None where it is not there."""
    found = _FIND_CANDIDATE.first(connection, {"digest": id})
    if found is None or (problem_key is not None and found[0] != problem_key):
        return None
    _, program, source, language = found
    return Candidate(id=id, program_id=program, source=source, language=Language(language))


def problem_of(connection: Connection, candidate_id: str) -> str:
    """See `Store.problem_of`."""
    statement = (
        select(PROBLEM.c.key)
        .join(CANDIDATE, CANDIDATE.c.problem_id == PROBLEM.c.id)
        .where(CANDIDATE.c.digest == candidate_id)
    )
    key: str | None = connection.execute(statement).scalar()
    if key is None:
        raise StoreError(f"the run has no candidate with the id {candidate_id!r}")
    return key


def known(connection: Connection, problem_key: str) -> dict[str, KnownCandidate]:
    """See `Store.known`."""
    statement = (
        select(CANDIDATE.c.digest, CANDIDATE.c.program, CANDIDATE.c.withdrawn, *PLACE)
        .join(ATTEMPT, ATTEMPT.c.id == CANDIDATE.c.attempt_id)
        .where(CANDIDATE.c.problem_id == problem_number(connection, problem_key))
        .order_by(*PLACE, CANDIDATE.c.id)
    )
    return {
        row.digest: KnownCandidate(
            id=row.digest,
            program_id=row.program,
            slot=slot_of(problem_key, row._mapping),
            withdrawn=row.withdrawn,
        )
        for row in connection.execute(statement)
    }


def elites(connection: Connection, problem_key: str, island: int | None) -> list[Elite]:
    """See `Store.elites`."""
    statement = (
        select(CANDIDATE.c.digest, ELITE.c.cell, ELITE.c.objective, *PLACE)
        .select_from(ELITE)
        .join(ATTEMPT, ATTEMPT.c.id == ELITE.c.attempt_id)
        .join(CANDIDATE, CANDIDATE.c.id == _HELD)
        .where(ELITE.c.problem_id == problem_number(connection, problem_key))
    )
    if island is not None:
        statement = statement.where(ELITE.c.island == island)
    found = [_elite(problem_key, row._mapping) for row in connection.execute(statement)]
    return sorted(found, key=lambda elite: (elite.slot.island, elite.cell))


def _at(slot: Slot) -> tuple[ColumnElement[bool], ...]:
    return (
        ATTEMPT.c.generation == slot.generation,
        ATTEMPT.c.island == slot.island,
        ATTEMPT.c.slot_index == slot.index,
    )


def slot_of(problem_key: str, row: RowMapping, prefix: str = "") -> Slot:
    """Return the slot in a row of `PLACE` columns, whose names may have a prefix."""
    return Slot(
        problem=problem_key,
        generation=row[f"{prefix}generation"],
        island=row[f"{prefix}island"],
        index=row[f"{prefix}slot_index"],
    )


def _elite(problem_key: str, row: RowMapping) -> Elite:
    return Elite(
        cell=tuple(int(index) for index in row["cell"].split(",")),
        objective=row["objective"],
        slot=slot_of(problem_key, row),
        candidate=row["digest"],
    )


def _attempts(connection: Connection, *conditions: ColumnElement[bool]) -> list[Attempt]:
    statement = (
        select(
            *_attempt_columns(connection),
            PROBLEM.c.key,
            _PROPOSED.c.digest.label("candidate"),
            _RESULT.c.digest.label("result"),
            *(column.label(f"other_{column.name}") for column in _OTHER_PLACE),
        )
        .join(PROBLEM, PROBLEM.c.id == ATTEMPT.c.problem_id)
        .outerjoin(_PROPOSED, _PROPOSED.c.id == ATTEMPT.c.candidate_id)
        .outerjoin(_RESULT, _RESULT.c.id == ATTEMPT.c.result_id)
        .outerjoin(_OTHER, _OTHER.c.id == ATTEMPT.c.duplicate_of_id)
        .where(*conditions)
        .order_by(ATTEMPT.c.problem_id, *PLACE)
    )
    parents = _parents(connection, *conditions)
    return [
        Attempt(
            slot=slot_of(row.key, row._mapping),
            operator=row.operator,
            parents=tuple(parents.get(row.id, ())),
            state=AttemptState(row.state),
            reason=row.reason,
            candidate=row.candidate,
            result=row.result,
            duplicate_of=(
                None if row.other_generation is None else slot_of(row.key, row._mapping, "other_")
            ),
            note=row.note,
            cost_s=row.cost_s,
            cost_usd=row.cost_usd,
            model=row.model,
        )
        for row in connection.execute(statement)
    ]


def _attempt_columns(connection: Connection) -> list[ColumnElement[Any]]:
    """The columns of an attempt, with those that an older format lacks at their defaults."""
    if format_version(connection) >= _FIRST_FORMAT_WITH_MODEL:
        return list(ATTEMPT.c)
    older = [column for column in ATTEMPT.c if column.name != "model"]
    return [*older, literal("").label("model")]


def _parents(connection: Connection, *conditions: ColumnElement[bool]) -> dict[int, list[Slot]]:
    """Parents by the number of the attempt, for the attempts that meet the conditions."""
    statement = (
        select(PARENT.c.attempt_id, PROBLEM.c.key, *_OTHER_PLACE)
        .select_from(PARENT)
        .join(ATTEMPT, ATTEMPT.c.id == PARENT.c.attempt_id)
        .join(PROBLEM, PROBLEM.c.id == ATTEMPT.c.problem_id)
        .join(_OTHER, _OTHER.c.id == PARENT.c.parent_id)
        .where(*conditions)
        .order_by(PARENT.c.attempt_id, PARENT.c.position)
    )
    parents: dict[int, list[Slot]] = defaultdict(list)
    for row in connection.execute(statement):
        parents[row.attempt_id].append(slot_of(row.key, row._mapping))
    return parents
