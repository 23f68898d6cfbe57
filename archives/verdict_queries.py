"""What is read about verdicts; `archives.store` is the API."""

from __future__ import annotations

import json

from sqlalchemy import Connection, or_, select

from archives.configuration import read_configuration
from archives.encoding import AFTER, decode_evaluation, to_text
from archives.evaluation import ConfigurationResult, Evaluation, Status
from archives.records import VERIFY, EvaluationRecord
from archives.run_queries import problem_number
from archives.search_queries import PLACE, slot_of
from archives.tables import ATTEMPT, CANDIDATE, ELITE, EVALUATION, PROBLEM

__all__ = ["elite_evaluations", "evaluation", "evaluations", "speedups", "tried"]

_PROPOSED = CANDIDATE.alias("proposed")
_TELLS = or_(EVALUATION.c.purpose != VERIFY, EVALUATION.c.status != Status.UNSTABLE.value)
"""A verification on a host that was too busy says nothing: what was known before stands."""


def tried(
    connection: Connection, problem_key: str, program_id: str, before: int | None
) -> tuple[ConfigurationResult, ...]:
    """See `Store.tried`."""
    statement = (
        select(EVALUATION.c.data_json, CANDIDATE.c.source)
        .join(CANDIDATE, CANDIDATE.c.id == EVALUATION.c.candidate_id)
        .join(ATTEMPT, ATTEMPT.c.id == EVALUATION.c.attempt_id)
        .where(
            CANDIDATE.c.problem_id == problem_number(connection, problem_key),
            CANDIDATE.c.program == program_id,
        )
        .order_by(*PLACE)
    )
    if before is not None:
        statement = statement.where(ATTEMPT.c.generation < before)
    results: dict[str, ConfigurationResult] = {}
    for row in connection.execute(statement):
        verdict = decode_evaluation(json.loads(row.data_json))
        for result in verdict.configurations or (_only_result(verdict, row.source),):
            results[to_text(sorted(result.configuration.items()))] = result
    return tuple(results.values())


def evaluation(connection: Connection, problem_key: str, candidate_id: str) -> Evaluation | None:
    """See `Store.evaluation`."""
    statement = select(CANDIDATE.c.id, CANDIDATE.c.attempt_id).where(
        CANDIDATE.c.digest == candidate_id,
        CANDIDATE.c.problem_id == problem_number(connection, problem_key),
    )
    found = connection.execute(statement).first()
    if found is None:
        return None
    wanted = select(EVALUATION.c.data_json).order_by(
        (EVALUATION.c.purpose == VERIFY).desc(), EVALUATION.c.id.desc()
    )
    telling = wanted.where(_TELLS)
    for statement in (
        telling.where(EVALUATION.c.candidate_id == found.id),
        telling.where(EVALUATION.c.attempt_id == found.attempt_id),
        wanted.where(EVALUATION.c.candidate_id == found.id),
    ):
        text = connection.execute(statement).scalar()
        if text is not None:
            return decode_evaluation(json.loads(text))
    return None


def evaluations(
    connection: Connection, problem_key: str | None, candidate_id: str | None
) -> list[EvaluationRecord]:
    """See `Store.evaluations`."""
    statement = (
        select(
            EVALUATION.c.purpose,
            EVALUATION.c.data_json,
            PROBLEM.c.key,
            CANDIDATE.c.digest,
            _PROPOSED.c.digest.label("proposed"),
            *PLACE,
        )
        .join(PROBLEM, PROBLEM.c.id == EVALUATION.c.problem_id)
        .join(CANDIDATE, CANDIDATE.c.id == EVALUATION.c.candidate_id)
        .outerjoin(ATTEMPT, ATTEMPT.c.id == EVALUATION.c.attempt_id)
        .outerjoin(_PROPOSED, _PROPOSED.c.id == ATTEMPT.c.candidate_id)
        .order_by(EVALUATION.c.id)
    )
    if problem_key is not None:
        statement = statement.where(
            EVALUATION.c.problem_id == problem_number(connection, problem_key)
        )
    if candidate_id is not None:
        statement = statement.where(CANDIDATE.c.digest == candidate_id)
    return [
        EvaluationRecord(
            problem=row.key,
            candidate=row.digest,
            proposed=row.proposed,
            slot=None if row.generation is None else slot_of(row.key, row._mapping),
            purpose=row.purpose,
            after=data.get(AFTER),
            evaluation=decode_evaluation(data),
        )
        for row in connection.execute(statement)
        for data in [json.loads(row.data_json)]
    ]


def speedups(connection: Connection, problem_key: str) -> dict[str, float]:
    """See `Store.speedups`."""
    statement = (
        select(CANDIDATE.c.digest, EVALUATION.c.speedup)
        .join(CANDIDATE, CANDIDATE.c.id == EVALUATION.c.candidate_id)
        .where(EVALUATION.c.problem_id == problem_number(connection, problem_key), _TELLS)
        .order_by((EVALUATION.c.purpose == VERIFY), EVALUATION.c.id)
    )
    latest = {row.digest: row.speedup for row in connection.execute(statement)}
    return {digest: speedup for digest, speedup in latest.items() if speedup is not None}


def elite_evaluations(connection: Connection, problem_key: str) -> dict[str, Evaluation]:
    """See `Store.elite_evaluations`."""
    number = problem_number(connection, problem_key)
    held = (
        select(ATTEMPT.c.result_id)
        .join(ELITE, ELITE.c.attempt_id == ATTEMPT.c.id)
        .where(ELITE.c.problem_id == number)
    )
    statement = (
        select(CANDIDATE.c.digest, EVALUATION.c.data_json)
        .join(CANDIDATE, CANDIDATE.c.id == EVALUATION.c.candidate_id)
        .where(EVALUATION.c.problem_id == number, EVALUATION.c.candidate_id.in_(held), _TELLS)
        .order_by((EVALUATION.c.purpose == VERIFY), EVALUATION.c.id)
    )
    latest = {row.digest: row.data_json for row in connection.execute(statement)}
    verdicts = {digest: decode_evaluation(json.loads(text)) for digest, text in latest.items()}
    return {digest: verdict for digest, verdict in verdicts.items() if verdict.speedup is not None}


def _only_result(verdict: Evaluation, source: str) -> ConfigurationResult:
    """The result of an evaluation that tried the configuration in the source alone."""
    return ConfigurationResult(
        configuration=verdict.configuration or read_configuration(source),
        status=verdict.status,
        latency_ms=verdict.latency_ms,
    )
