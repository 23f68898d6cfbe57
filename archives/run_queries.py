"""What is read about a run and its problems; `archives.store` is the API."""

from __future__ import annotations

import json
from pathlib import Path

from sqlalchemy import Connection, bindparam, func, inspect, select

from archives.encoding import decode_device, decode_problem
from archives.evaluation import LIBRARY_WORK, Status
from archives.rates import Rates
from archives.records import (
    FORMAT_VERSION,
    MIGRATE,
    SEARCH,
    VERIFY,
    OperatorTally,
    ProblemState,
    ProblemStatus,
    RunCounts,
    RunRecord,
    RunState,
    SeedRequest,
)
from archives.statements import Statement
from archives.tables import ATTEMPT, EVALUATION, PROBLEM, RUN, SEED_REQUEST, TALLY
from archives.upgrade import OLDEST_FORMAT
from problems.errors import StoreError
from problems.graph import OperatorGraph
from problems.problem import Problem

__all__ = [
    "check_format",
    "counts",
    "format_version",
    "generation_reached",
    "graph",
    "problem_number",
    "problem_states",
    "problems",
    "run",
    "seeds",
    "tallies",
    "waiting_seeds",
]


_FIRST_FORMAT_WITH_RATES = 3
"""The first format that has the device's rates."""
_FORMAT_VERSION = select(RUN.c.format_version)
_FIND_PROBLEM = Statement(select(PROBLEM.c.id).where(PROBLEM.c.key == bindparam("key")))


def check_format(connection: Connection, folder: Path) -> int:
    """Return the format of the store, where this version can work with it.

    Raises:
        StoreError: There is no complete run, or it has a format that is not known.
    """
    if not inspect(connection).has_table(RUN.name):
        raise StoreError(
            f"the run folder {folder} holds no complete run, its creation was interrupted: "
            "remove the folder and start the run again"
        )
    version = format_version(connection)
    if not OLDEST_FORMAT <= version <= FORMAT_VERSION:
        age = "newer" if version > FORMAT_VERSION else "older"
        raise StoreError(
            f"the run {folder} was written in store format {version} by a {age} EvoKernel, "
            f"this one expects format {FORMAT_VERSION}: open it with the version that wrote it"
        )
    return version


def format_version(connection: Connection) -> int:
    """Return the format that the store has now."""
    version: int = connection.execute(_FORMAT_VERSION).scalar_one()
    return version


def run(connection: Connection) -> RunRecord:
    """See `Store.run`."""
    has_rates = format_version(connection) >= _FIRST_FORMAT_WITH_RATES
    columns = [column for column in RUN.c if has_rates or column is not RUN.c.rates_json]
    row = connection.execute(select(*columns)).one()
    rates_json: str | None = row.rates_json if has_rates else None
    return RunRecord(
        name=row.name,
        created=row.created,
        config_json=row.config_json,
        rng_seed=int(row.rng_seed),
        scale=row.scale,
        device=None if row.device_json is None else decode_device(json.loads(row.device_json)),
        noise_floor=row.noise_floor,
        noisy=bool(row.noisy),
        referee_version=row.referee_version,
        rates=None if rates_json is None else Rates.from_json(json.loads(rates_json)),
        state=RunState(row.state),
        format_version=row.format_version,
    )


def problems(connection: Connection) -> list[Problem]:
    """See `Store.problems`."""
    rows = connection.execute(select(PROBLEM.c.data_json).order_by(PROBLEM.c.id))
    return [decode_problem(json.loads(row.data_json)) for row in rows]


def problem_states(connection: Connection) -> list[ProblemState]:
    """See `Store.problem_states`."""
    columns = (PROBLEM.c.key, PROBLEM.c.status, PROBLEM.c.reason, PROBLEM.c.generation)
    return [
        ProblemState(
            key=row.key,
            status=ProblemStatus(row.status),
            reason=row.reason,
            generation=row.generation,
        )
        for row in connection.execute(select(*columns).order_by(PROBLEM.c.id))
    ]


def problem_number(connection: Connection, problem_key: str) -> int:
    """Return the number that stands for a problem inside the database.

    Raises:
        StoreError: The run has no such problem.
    """
    found = _FIND_PROBLEM.first(connection, {"key": problem_key})
    if found is None:
        raise StoreError(
            f"the run has no problem with the key {problem_key[:12]!r}: "
            "list its problems with the report"
        )
    number: int = found[0]
    return number


def graph(connection: Connection, problem_key: str) -> OperatorGraph | None:
    """See `Store.graph`."""
    statement = select(PROBLEM.c.graph_json).where(PROBLEM.c.key == problem_key)
    text: str | None = connection.execute(statement).scalar()
    return None if text is None else OperatorGraph.from_json(json.loads(text))


def generation_reached(connection: Connection, problem_key: str) -> int | None:
    """See `Store.generation_reached`."""
    statement = select(PROBLEM.c.generation).where(PROBLEM.c.key == problem_key)
    generation: int | None = connection.execute(statement).scalar()
    return generation


def tallies(connection: Connection, problem_key: str | None) -> list[OperatorTally]:
    """See `Store.tallies`."""
    statement = (
        select(PROBLEM.c.key, TALLY)
        .join(PROBLEM, PROBLEM.c.id == TALLY.c.problem_id)
        .order_by(TALLY.c.problem_id, TALLY.c.generation, TALLY.c.operator)
    )
    if problem_key is not None:
        statement = statement.where(PROBLEM.c.key == problem_key)
    return [
        OperatorTally(
            problem=row.key,
            generation=row.generation,
            operator=row.operator,
            attempts=row.attempts,
            evaluated=row.evaluated,
            accepted=row.accepted,
            gain=row.gain,
            cost_s=row.cost_s,
        )
        for row in connection.execute(statement)
    ]


def counts(connection: Connection) -> RunCounts:
    """See `Store.counts`."""
    attempts = select(func.count()).select_from(ATTEMPT).where(ATTEMPT.c.operator != MIGRATE)
    purposes = select(EVALUATION.c.purpose, func.count().label("number")).group_by(
        EVALUATION.c.purpose
    )
    by_purpose = {row.purpose: row.number for row in connection.execute(purposes)}
    statuses = select(EVALUATION.c.status, func.count().label("number")).group_by(
        EVALUATION.c.status
    )
    by_status = {row.status: row.number for row in connection.execute(statuses)}
    rejected = (
        select(func.count()).select_from(EVALUATION).where(EVALUATION.c.reason == LIBRARY_WORK)
    )
    return RunCounts(
        attempts=connection.execute(attempts).scalar_one(),
        evaluations=by_purpose.get(SEARCH, 0),
        verifications=by_purpose.get(VERIFY, 0),
        unstable=by_status.get(Status.UNSTABLE.value, 0),
        impossible=by_status.get(Status.IMPOSSIBLE.value, 0),
        library_work=connection.execute(rejected).scalar_one(),
    )


def waiting_seeds(connection: Connection) -> list[SeedRequest]:
    """See `Store.waiting_seeds`."""
    return [seed for seed in seeds(connection) if seed.generation is None]


def seeds(connection: Connection) -> list[SeedRequest]:
    """See `Store.seeds`."""
    statement = (
        select(PROBLEM.c.key, SEED_REQUEST)
        .join(PROBLEM, PROBLEM.c.id == SEED_REQUEST.c.problem_id)
        .order_by(SEED_REQUEST.c.id)
    )
    return [
        SeedRequest(
            id=row.id,
            problem=row.key,
            name=row.name,
            source=row.source,
            generation=row.generation,
        )
        for row in connection.execute(statement)
    ]
