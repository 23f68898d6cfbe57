"""What is written about calls to language models; `archives.store` is the API."""

from __future__ import annotations

from sqlalchemy import Connection, and_, bindparam, insert, select

from archives.encoding import storable, to_text
from archives.llm_call import LlmCall
from archives.run_queries import problem_number
from archives.statements import Statement
from archives.tables import LLM_CALL, PROBLEM

__all__ = ["record_call"]

_ADD_CALL = Statement(insert(LLM_CALL))
_FIND_PROBLEM_AND_CALL = Statement(
    select(PROBLEM.c.id, LLM_CALL.c.id.label("call_id"))
    .outerjoin(
        LLM_CALL,
        and_(
            LLM_CALL.c.problem_id == PROBLEM.c.id,
            LLM_CALL.c.generation == bindparam("generation"),
            LLM_CALL.c.island == bindparam("island"),
            LLM_CALL.c.slot_index == bindparam("slot_index"),
            LLM_CALL.c.number == bindparam("number"),
        ),
    )
    .where(PROBLEM.c.key == bindparam("key"))
)


def record_call(connection: Connection, call: LlmCall, prompt_hash: str, texts: bytes) -> bool:
    """See `Store.record_call`.

    Args:
        connection: In a transaction that writes.
        call: The call.
        prompt_hash: Its hash, made before the transaction began.
        texts: Its messages and reply, packed before the transaction began.
    """
    place = {
        "generation": call.slot.generation,
        "island": call.slot.island,
        "slot_index": call.slot.index,
        "number": call.number,
    }
    key = call.slot.problem
    found = _FIND_PROBLEM_AND_CALL.first(connection, place | {"key": key})
    problem_id, call_id = found or (None, None)
    if call_id is not None:
        return False
    row = {
        **place,
        "problem_id": problem_number(connection, key) if problem_id is None else problem_id,
        "operator": call.operator,
        "model": storable(call.model),
        "prompt_hash": prompt_hash,
        "parameters_json": to_text(dict(call.parameters)),
        "outcome": call.outcome.value,
        "finish": storable(call.finish),
        "log": storable(call.log),
        "prompt_tokens": call.prompt_tokens,
        "completion_tokens": call.completion_tokens,
        "cost_usd": call.cost_usd,
        "latency_s": call.latency_s,
        "tries": call.tries,
        "texts": texts,
    }
    _ADD_CALL.add(connection, row)
    return True
