"""From an older format of the store to the present one, in numbered steps.

A step is frozen: it makes the tables as they were in its format, whatever they became later, so it
shares nothing with `archives.tables`. Runs that are only read are left as they are; the few
queries that an older format cannot answer know so.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlalchemy import (
    Column,
    Connection,
    Float,
    ForeignKey,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    UniqueConstraint,
    text,
)

__all__ = ["OLDEST_FORMAT", "upgrade"]

OLDEST_FORMAT = 1
"""The oldest format that can be read and upgraded."""


def upgrade(connection: Connection, version: int, wanted: int) -> None:
    """Bring a store from one format to a later one.

    Args:
        connection: In a transaction that writes: all steps are made, or none.
        version: The format that the store has.
        wanted: The format that it is to have.
    """
    for step in range(version, wanted):
        _STEPS[step](connection)
    change = text("UPDATE run SET format_version = :wanted")
    connection.execute(change, {"wanted": wanted})


def _add_llm_calls(connection: Connection) -> None:
    """Format 1 to 2: calls to language models, and the model that an attempt asked."""
    connection.execute(text("ALTER TABLE attempt ADD COLUMN model VARCHAR DEFAULT '' NOT NULL"))
    tables = MetaData()
    Table("problem", tables, Column("id", Integer, primary_key=True))
    Table(
        "llm_call",
        tables,
        Column("id", Integer, primary_key=True),
        Column("problem_id", Integer, ForeignKey("problem.id"), nullable=False),
        Column("generation", Integer, nullable=False),
        Column("island", Integer, nullable=False),
        Column("slot_index", Integer, nullable=False),
        Column("number", Integer, nullable=False),
        Column("operator", String, nullable=False),
        Column("model", String, nullable=False),
        Column("prompt_hash", String, nullable=False),
        Column("parameters_json", String, nullable=False),
        Column("outcome", String, nullable=False),
        Column("finish", String, nullable=False),
        Column("log", String, nullable=False),
        Column("prompt_tokens", Integer),
        Column("completion_tokens", Integer),
        Column("cost_usd", Float),
        Column("latency_s", Float, nullable=False),
        Column("tries", Integer, nullable=False),
        Column("texts", LargeBinary, nullable=False),
        UniqueConstraint("problem_id", "generation", "island", "slot_index", "number"),
    ).create(connection)


def _add_rates(connection: Connection) -> None:
    """Format 2 to 3: what the device was measured to reach."""
    connection.execute(text("ALTER TABLE run ADD COLUMN rates_json VARCHAR"))


_STEPS: dict[int, Callable[[Connection], None]] = {1: _add_llm_calls, 2: _add_rates}
"""By the format that a step starts from."""
