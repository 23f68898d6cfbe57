"""What is written about a run, its problems and seeds; `archives.store` is the API."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

from sqlalchemy import Connection, insert, select, update

from archives.attempt import AttemptState
from archives.encoding import decode_problem, encode_device, encode_problem, storable, to_text
from archives.evaluation import DeviceFingerprint
from archives.rates import Rates
from archives.records import ProblemStatus, RunRecord, RunState, SeedRequest
from archives.run_queries import problem_number
from archives.tables import ATTEMPT, METADATA, PROBLEM, RUN, SEED_REQUEST
from problems.graph import OperatorGraph
from problems.problem import Problem

__all__ = [
    "add_problems",
    "create_tables",
    "mark_problem",
    "put_graph",
    "request_seed",
    "set_config",
    "set_device",
    "set_state",
    "skip_problem",
    "solve_problem",
    "take_seeds",
]

PROBLEM_SKIPPED = "problem_skipped"


def create_tables(connection: Connection, run: RunRecord) -> None:
    """Make the tables and the run's row."""
    METADATA.create_all(connection)
    connection.execute(
        insert(RUN).values(
            format_version=run.format_version,
            name=run.name,
            created=run.created,
            config_json=run.config_json,
            rng_seed=str(run.rng_seed),
            scale=run.scale,
            device_json=None if run.device is None else to_text(encode_device(run.device)),
            noise_floor=run.noise_floor,
            noisy=int(run.noisy),
            referee_version=run.referee_version,
            state=run.state.value,
            rates_json=None if run.rates is None else to_text(run.rates.to_json()),
        )
    )


def set_state(connection: Connection, state: RunState) -> None:
    """See `Store.set_state`."""
    connection.execute(update(RUN).values(state=state.value))


def set_config(connection: Connection, config_json: str) -> None:
    """See `Store.set_config`."""
    connection.execute(update(RUN).values(config_json=config_json))


def set_device(
    connection: Connection,
    device: DeviceFingerprint,
    noise_floor: float,
    noisy: bool,
    referee_version: str,
    rates: Rates | None,
) -> None:
    """See `Store.set_device`."""
    connection.execute(
        update(RUN).values(
            device_json=to_text(encode_device(device)),
            noise_floor=noise_floor,
            noisy=int(noisy),
            referee_version=referee_version,
            rates_json=None if rates is None else to_text(rates.to_json()),
        )
    )


def add_problems(connection: Connection, problems: Sequence[Problem]) -> None:
    """See `Store.add_problems`."""
    present = set(connection.execute(select(PROBLEM.c.key)).scalars())
    for problem in problems:
        if problem.key in present:
            continue
        present.add(problem.key)
        connection.execute(
            insert(PROBLEM).values(
                key=problem.key,
                data_json=to_text(encode_problem(problem)),
                status=ProblemStatus.OPEN.value,
                reason="",
            )
        )


def skip_problem(connection: Connection, problem_key: str, reason: str) -> None:
    """See `Store.skip_problem`."""
    _set_status(connection, problem_key, ProblemStatus.SKIPPED, reason)
    connection.execute(
        update(ATTEMPT)
        .where(ATTEMPT.c.problem_id == problem_number(connection, problem_key))
        .where(ATTEMPT.c.state == AttemptState.PROPOSED.value)
        .values(state=AttemptState.FAILED.value, reason=PROBLEM_SKIPPED)
    )


def solve_problem(connection: Connection, problem_key: str, reason: str) -> None:
    """See `Store.solve_problem`."""
    _set_status(connection, problem_key, ProblemStatus.SOLVED, reason)


def mark_problem(
    connection: Connection, problem_key: str, degenerate: str | None, loose: str | None
) -> None:
    """See `Store.mark_problem`."""
    number = problem_number(connection, problem_key)
    text = connection.execute(
        select(PROBLEM.c.data_json).where(PROBLEM.c.id == number)
    ).scalar_one()
    problem = decode_problem(json.loads(text))
    marked = replace(problem, degenerate=degenerate, loose=loose)
    values = {"data_json": to_text(encode_problem(marked))}
    connection.execute(update(PROBLEM).where(PROBLEM.c.id == number).values(values))


def put_graph(connection: Connection, problem_key: str, graph: OperatorGraph) -> None:
    """See `Store.put_graph`."""
    number = problem_number(connection, problem_key)
    text = to_text(graph.to_json())
    connection.execute(update(PROBLEM).where(PROBLEM.c.id == number).values(graph_json=text))


def request_seed(
    connection: Connection,
    problem_key: str,
    name: str,
    source: str,
    generation: int | None = None,
) -> None:
    """See `Store.request_seed`."""
    problem_id = problem_number(connection, problem_key)
    connection.execute(
        insert(SEED_REQUEST).values(
            problem_id=problem_id, name=name, source=storable(source), generation=generation
        )
    )


def take_seeds(connection: Connection, problem_key: str, generation: int) -> list[SeedRequest]:
    """See `Store.take_seeds`."""
    problem_id = problem_number(connection, problem_key)
    row = select(PROBLEM.c.seeded).where(PROBLEM.c.id == problem_id)
    seeded = connection.execute(row).scalar_one()
    if seeded is None or seeded < generation:
        waiting = (SEED_REQUEST.c.problem_id == problem_id, SEED_REQUEST.c.generation.is_(None))
        connection.execute(update(SEED_REQUEST).where(*waiting).values(generation=generation))
        connection.execute(
            update(PROBLEM).where(PROBLEM.c.id == problem_id).values(seeded=generation)
        )
    taken = (
        select(SEED_REQUEST)
        .where(SEED_REQUEST.c.problem_id == problem_id, SEED_REQUEST.c.generation == generation)
        .order_by(SEED_REQUEST.c.id)
    )
    return [
        SeedRequest(
            id=row.id, problem=problem_key, name=row.name, source=row.source, generation=generation
        )
        for row in connection.execute(taken)
    ]


def _set_status(
    connection: Connection, problem_key: str, status: ProblemStatus, reason: str
) -> None:
    number = problem_number(connection, problem_key)
    connection.execute(
        update(PROBLEM)
        .where(PROBLEM.c.id == number)
        .values(status=status.value, reason=storable(reason))
    )
