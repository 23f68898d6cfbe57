"""What is read about calls to language models; `archives.store` is the API."""

from __future__ import annotations

import json
from collections.abc import Sequence

from sqlalchemy import ColumnElement, Connection, func, select

from archives.llm_call import CallOutcome, LlmCall
from archives.llm_texts import unpack_texts
from archives.records import CallSummary
from archives.run_queries import format_version, problem_number
from archives.search_queries import slot_of
from archives.tables import LLM_CALL, PROBLEM
from problems.errors import StoreError

__all__ = ["call", "call_ids", "call_summaries", "calls_numbered"]

_FIRST_FORMAT = 2
"""The first format of the store that has calls."""

_PLACE = (LLM_CALL.c.generation, LLM_CALL.c.island, LLM_CALL.c.slot_index, LLM_CALL.c.number)
_SUMMARY = [column for column in LLM_CALL.c if column.name not in ("texts", "parameters_json")]


def call_summaries(connection: Connection, problem_key: str | None) -> list[CallSummary]:
    """See `Store.calls`."""
    if format_version(connection) < _FIRST_FORMAT:
        return []
    statement = (
        select(PROBLEM.c.key, *_SUMMARY)
        .join(PROBLEM, PROBLEM.c.id == LLM_CALL.c.problem_id)
        .where(*_about(connection, problem_key))
        .order_by(LLM_CALL.c.id)
    )
    return [
        CallSummary(
            id=row.id,
            slot=slot_of(row.key, row._mapping),
            number=row.number,
            operator=row.operator,
            model=row.model,
            prompt_hash=row.prompt_hash,
            outcome=CallOutcome(row.outcome),
            finish=row.finish,
            log=row.log,
            prompt_tokens=row.prompt_tokens,
            completion_tokens=row.completion_tokens,
            cost_usd=row.cost_usd,
            latency_s=row.latency_s,
            tries=row.tries,
        )
        for row in connection.execute(statement)
    ]


def call(connection: Connection, id: int) -> LlmCall:
    """See `Store.call`."""
    first = last = None
    if format_version(connection) >= _FIRST_FORMAT:
        ends = select(func.min(LLM_CALL.c.id), func.max(LLM_CALL.c.id))
        first, last = connection.execute(ends).one()
    if first is None or last is None:
        raise StoreError(
            f"the run has no call {id} to a language model: it has made none, or its calls were "
            "not recorded yet"
        )
    # What is outside is never asked for: a database refuses a number of more than 64 bits.
    found = calls_numbered(connection, [id]) if first <= id <= last else []
    if not found:
        raise StoreError(
            f"the run has no call {id} to a language model, expected {first} to {last}: list "
            "the calls with the llm command and --calls"
        )
    return found[0]


def call_ids(connection: Connection, problem_key: str | None, generation: int | None) -> list[int]:
    """Return the ids of calls in the order of their slots, then of their numbers."""
    if format_version(connection) < _FIRST_FORMAT:
        return []
    conditions = _about(connection, problem_key)
    if generation is not None:
        conditions.append(LLM_CALL.c.generation == generation)
    statement = select(LLM_CALL.c.id).where(*conditions).order_by(LLM_CALL.c.problem_id, *_PLACE)
    return list(connection.execute(statement).scalars())


def calls_numbered(connection: Connection, ids: Sequence[int]) -> list[LlmCall]:
    """Return whole calls by their ids, in the order given; those that are missing are left out."""
    statement = (
        select(PROBLEM.c.key, LLM_CALL)
        .join(PROBLEM, PROBLEM.c.id == LLM_CALL.c.problem_id)
        .where(LLM_CALL.c.id.in_(ids))
    )
    found: dict[int, LlmCall] = {}
    for row in connection.execute(statement):
        messages, reply = unpack_texts(row.texts)
        found[row.id] = LlmCall(
            slot=slot_of(row.key, row._mapping),
            number=row.number,
            operator=row.operator,
            model=row.model,
            messages=messages,
            parameters=json.loads(row.parameters_json),
            outcome=CallOutcome(row.outcome),
            text=reply,
            finish=row.finish,
            log=row.log,
            prompt_tokens=row.prompt_tokens,
            completion_tokens=row.completion_tokens,
            cost_usd=row.cost_usd,
            latency_s=row.latency_s,
            tries=row.tries,
        )
    return [found[id] for id in ids if id in found]


def _about(connection: Connection, problem_key: str | None) -> list[ColumnElement[bool]]:
    """The condition that a call is about a problem; none where all problems are meant."""
    if problem_key is None:
        return []
    return [LLM_CALL.c.problem_id == problem_number(connection, problem_key)]
