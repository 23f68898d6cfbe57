"""The tables of the store. Rows stay inside the store; see `archives.records` for what leaves.

Numbers stand in for keys and digests inside the database, so that a row is small: a candidate
costs its source and a few hundred bytes. Booleans, dates and database-specific types are avoided,
which keeps the statements the same on SQLite and PostgreSQL.
"""

from __future__ import annotations

from typing import cast

from sqlalchemy import Index, MetaData, Table, UniqueConstraint
from sqlmodel import Field, SQLModel

__all__ = [
    "ATTEMPT",
    "CANDIDATE",
    "ELITE",
    "EVALUATION",
    "LLM_CALL",
    "METADATA",
    "MIGRATION",
    "PARENT",
    "PROBLEM",
    "RUN",
    "SEED_REQUEST",
    "TALLY",
    "AttemptRow",
    "CandidateRow",
    "EliteRow",
    "EvaluationRow",
    "LlmCallRow",
    "MigrationRow",
    "ParentRow",
    "ProblemRow",
    "RunRow",
    "SeedRequestRow",
    "TallyRow",
]

METADATA = MetaData()
"""The tables below and no others: `SQLModel.metadata` is shared by a whole process."""


class _Row(SQLModel):
    metadata = METADATA


class RunRow(_Row, table=True):
    """The run; one row. `format_version` keeps its name and place in every format."""

    __tablename__ = "run"
    id: int | None = Field(default=None, primary_key=True)
    format_version: int
    name: str
    created: str
    config_json: str
    rng_seed: str
    """Decimal text: numpy's entropy may have 128 bits and more."""
    scale: str
    device_json: str | None = None
    noise_floor: float | None = None
    noisy: int = 0
    """1 where the host was too noisy to measure the floor, which is then an assumed one."""
    referee_version: str = ""
    state: str
    rates_json: str | None = None
    """Last, as a migration adds it."""


class ProblemRow(_Row, table=True):
    """A problem of the run."""

    __tablename__ = "problem"
    id: int | None = Field(default=None, primary_key=True)
    key: str = Field(unique=True)
    data_json: str
    graph_json: str | None = None
    status: str = "open"
    reason: str = ""
    generation: int | None = None
    """The last finished generation."""
    seeded: int | None = None
    """The last generation that took up waiting seeds."""


class CandidateRow(_Row, table=True):
    """A candidate; `digest` is its id elsewhere."""

    __tablename__ = "candidate"
    __table_args__ = (Index("ix_candidate_program", "problem_id", "program"),)
    id: int | None = Field(default=None, primary_key=True)
    problem_id: int = Field(foreign_key="problem.id")
    digest: str = Field(unique=True)
    program: str
    language: str
    source: str
    attempt_id: int | None = None
    """The first attempt that brought it; None only within the transaction that inserts it."""
    withdrawn: str = ""


class AttemptRow(_Row, table=True):
    """A proposal, and what became of it in its island's grid."""

    __tablename__ = "attempt"
    __table_args__ = (
        UniqueConstraint("problem_id", "generation", "island", "slot_index"),
        Index("ix_attempt_cell", "problem_id", "island", "cell", "objective"),
    )
    id: int | None = Field(default=None, primary_key=True)
    problem_id: int = Field(foreign_key="problem.id")
    generation: int
    island: int
    slot_index: int
    operator: str
    state: str
    reason: str = ""
    candidate_id: int | None = Field(default=None, foreign_key="candidate.id")
    result_id: int | None = Field(default=None, foreign_key="candidate.id", index=True)
    duplicate_of_id: int | None = Field(default=None, foreign_key="attempt.id")
    configurations_json: str = ""
    note: str = ""
    cost_s: float = 0.0
    cost_usd: float = 0.0
    add_status: int | None = None
    add_value: float | None = None
    cell: str | None = None
    """Bin indices joined by commas."""
    objective: float | None = None
    model: str = Field(default="", sa_column_kwargs={"server_default": ""})
    """Last, and with the database's default, as a migration adds it."""


class ParentRow(_Row, table=True):
    """One parent of an attempt."""

    __tablename__ = "parent"
    attempt_id: int = Field(foreign_key="attempt.id", primary_key=True)
    position: int = Field(primary_key=True)
    parent_id: int = Field(foreign_key="attempt.id")


class EvaluationRow(_Row, table=True):
    """A verdict: the whole of it as JSON, and what is searched for as columns."""

    __tablename__ = "evaluation"
    id: int | None = Field(default=None, primary_key=True)
    problem_id: int = Field(foreign_key="problem.id", index=True)
    candidate_id: int = Field(foreign_key="candidate.id", index=True)
    attempt_id: int | None = Field(default=None, foreign_key="attempt.id", unique=True)
    purpose: str
    status: str
    reason: str
    speedup: float | None = None
    data_json: str


class LlmCallRow(_Row, table=True):
    """A call to a language model. It may be older than its attempt, so it points at none."""

    __tablename__ = "llm_call"
    __table_args__ = (
        UniqueConstraint("problem_id", "generation", "island", "slot_index", "number"),
    )
    id: int | None = Field(default=None, primary_key=True)
    problem_id: int = Field(foreign_key="problem.id")
    generation: int
    island: int
    slot_index: int
    number: int
    operator: str
    model: str
    prompt_hash: str
    parameters_json: str
    outcome: str
    finish: str
    log: str
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cost_usd: float | None = None
    latency_s: float
    tries: int
    texts: bytes
    """What was sent and answered, packed: see `archives.llm_texts`."""


class EliteRow(_Row, table=True):
    """The holder of a cell of an island's grid; no attempt: vacated by a withdrawal."""

    __tablename__ = "elite"
    problem_id: int = Field(foreign_key="problem.id", primary_key=True)
    island: int = Field(primary_key=True)
    cell: str = Field(primary_key=True)
    attempt_id: int | None = Field(default=None, foreign_key="attempt.id")
    objective: float | None = None


class MigrationRow(_Row, table=True):
    """An elite's way from one island to another."""

    __tablename__ = "migration"
    id: int | None = Field(default=None, primary_key=True)
    problem_id: int = Field(foreign_key="problem.id", index=True)
    source_id: int = Field(foreign_key="attempt.id")
    target_id: int = Field(foreign_key="attempt.id")


class TallyRow(_Row, table=True):
    """What an operator did for a problem in a generation."""

    __tablename__ = "operator_tally"
    problem_id: int = Field(foreign_key="problem.id", primary_key=True)
    generation: int = Field(primary_key=True)
    operator: str = Field(primary_key=True)
    attempts: int
    evaluated: int
    accepted: int
    gain: float
    cost_s: float


class SeedRequestRow(_Row, table=True):
    """A human kernel left for the engine."""

    __tablename__ = "seed_request"
    id: int | None = Field(default=None, primary_key=True)
    problem_id: int = Field(foreign_key="problem.id", index=True)
    name: str
    source: str
    generation: int | None = None
    """The generation that took it up."""


def _table(row: type[SQLModel]) -> Table:
    """The table of a row class, for statements without an ORM session."""
    return cast("Table", row.__dict__["__table__"])


ATTEMPT = _table(AttemptRow)
CANDIDATE = _table(CandidateRow)
ELITE = _table(EliteRow)
EVALUATION = _table(EvaluationRow)
LLM_CALL = _table(LlmCallRow)
MIGRATION = _table(MigrationRow)
PARENT = _table(ParentRow)
PROBLEM = _table(ProblemRow)
RUN = _table(RunRow)
SEED_REQUEST = _table(SeedRequestRow)
TALLY = _table(TallyRow)
