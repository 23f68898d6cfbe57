"""Reading a run's store; `archives.store.Store` is this and the writing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

from archives import llm_queries, run_queries, search_queries, verdict_queries
from archives.attempt import Attempt, Slot
from archives.candidate import Candidate
from archives.configuration import Configuration
from archives.database import Database
from archives.evaluation import ConfigurationResult, Evaluation
from archives.grid import Elite
from archives.llm_call import LlmCall
from archives.records import (
    CallSummary,
    EvaluationRecord,
    Insertion,
    KnownCandidate,
    Migration,
    OperatorTally,
    ProblemState,
    RunCounts,
    RunRecord,
    SeedRequest,
)
from problems.graph import OperatorGraph
from problems.problem import Problem

__all__ = ["StoreReader"]

_CALLS_AT_ONCE = 64
"""Whole calls in memory while the recorded ones are gone through; each has its texts."""


class StoreReader:
    """What may be read of one run; every method may raise `StoreError`."""

    def __init__(self, database: Database) -> None:
        """Wrap an open database; use `Store.create` or `Store.open` instead."""
        self._database = database

    @property
    def folder(self) -> Path:
        """The run's folder."""
        return self._database.folder

    def close(self) -> None:
        """Release the database and the lock; harmless when repeated."""
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def run(self) -> RunRecord:
        """Return what is known of the run."""
        with self._database.reading() as connection:
            return run_queries.run(connection)

    def problems(self) -> list[Problem]:
        """Return the problems in the order they were added."""
        with self._database.reading() as connection:
            return run_queries.problems(connection)

    def problem_states(self) -> list[ProblemState]:
        """Return where each problem stands, in the order they were added."""
        with self._database.reading() as connection:
            return run_queries.problem_states(connection)

    def graph(self, problem_key: str) -> OperatorGraph | None:
        """Return the operator graph of a problem, or None where none was kept."""
        with self._database.reading() as connection:
            return run_queries.graph(connection, problem_key)

    def attempt(self, slot: Slot) -> Attempt | None:
        """Return the attempt at a slot, or None."""
        with self._database.reading() as connection:
            return search_queries.attempt(connection, slot)

    def attempts(
        self, problem_key: str | None = None, generation: int | None = None
    ) -> list[Attempt]:
        """Return attempts in the order of their slots (problems as they were added)."""
        with self._database.reading() as connection:
            return search_queries.attempts(connection, problem_key, generation)

    def insertions(self, problem_key: str) -> list[Insertion]:
        """Return everything that was offered to the grids of a problem, in slot order."""
        with self._database.reading() as connection:
            return search_queries.insertions(connection, problem_key)

    def migrations(self, problem_key: str) -> list[Migration]:
        """Return the migrations of a problem in the order they were recorded."""
        with self._database.reading() as connection:
            return search_queries.migrations(connection, problem_key)

    def candidate(self, id_or_prefix: str, problem_key: str | None = None) -> Candidate:
        """Return the one candidate whose id starts with the given digits.

        Raises:
            StoreError: No candidate or several have such an id.
        """
        with self._database.reading() as connection:
            return search_queries.candidate(connection, id_or_prefix, problem_key)

    def problem_of(self, candidate_id: str) -> str:
        """Return the key of the problem that a candidate (full id) is for."""
        with self._database.reading() as connection:
            return search_queries.problem_of(connection, candidate_id)

    def known(self, problem_key: str) -> dict[str, KnownCandidate]:
        """Return every candidate seen for a problem, by id."""
        with self._database.reading() as connection:
            return search_queries.known(connection, problem_key)

    def tried(
        self, problem_key: str, program_id: str, before: int | None = None
    ) -> tuple[ConfigurationResult, ...]:
        """Return every configuration of a program that was tried in the search.

        Args:
            problem_key: Key of the problem.
            program_id: Id of the program.
            before: Only attempts of earlier generations than this count, so that what is seen
                does not depend on the order in which verdicts arrive; None: all.

        Returns:
            Distinct configurations in slot order, each with its latest result.
        """
        with self._database.reading() as connection:
            return verdict_queries.tried(connection, problem_key, program_id, before)

    def configurations(self, slot: Slot) -> tuple[Configuration, ...]:
        """Return the points that were proposed with an attempt, beside the one in its source."""
        with self._database.reading() as connection:
            return search_queries.configurations(connection, slot)

    def evaluation(self, problem_key: str, candidate_id: str) -> Evaluation | None:
        """Return the evaluation that counts: the latest verification, else the latest of all.

        For a proposed candidate that was not measured itself, because another configuration of
        it won: the evaluation of the winner.
        """
        with self._database.reading() as connection:
            return verdict_queries.evaluation(connection, problem_key, candidate_id)

    def evaluations(
        self, problem_key: str | None = None, candidate_id: str | None = None
    ) -> list[EvaluationRecord]:
        """Return evaluations in the order they were recorded."""
        with self._database.reading() as connection:
            return verdict_queries.evaluations(connection, problem_key, candidate_id)

    def speedups(self, problem_key: str) -> dict[str, float]:
        """Return the speedup that counts of every correct candidate of a problem, by id."""
        with self._database.reading() as connection:
            return verdict_queries.speedups(connection, problem_key)

    def elite_evaluations(self, problem_key: str) -> dict[str, Evaluation]:
        """Return the evaluation that counts of every elite of a problem, by candidate id.

        Elites that failed their latest verification are left out.
        """
        with self._database.reading() as connection:
            return verdict_queries.elite_evaluations(connection, problem_key)

    def elites(self, problem_key: str, island: int | None = None) -> list[Elite]:
        """Return the holders of the cells, ordered by island and cell."""
        with self._database.reading() as connection:
            return search_queries.elites(connection, problem_key, island)

    def generation_reached(self, problem_key: str) -> int | None:
        """Return the last finished generation of a problem; None: none yet."""
        with self._database.reading() as connection:
            return run_queries.generation_reached(connection, problem_key)

    def tallies(self, problem_key: str | None = None) -> list[OperatorTally]:
        """Return the operators' tallies by problem, generation and operator."""
        with self._database.reading() as connection:
            return run_queries.tallies(connection, problem_key)

    def counts(self) -> RunCounts:
        """Return how much was done so far."""
        with self._database.reading() as connection:
            return run_queries.counts(connection)

    def seeds(self) -> list[SeedRequest]:
        """Return every seed that was left for the run, in the order of arrival."""
        with self._database.reading() as connection:
            return run_queries.seeds(connection)

    def waiting_seeds(self) -> list[SeedRequest]:
        """Return the seeds that no generation has taken up yet."""
        with self._database.reading() as connection:
            return run_queries.waiting_seeds(connection)

    def calls(self, problem_key: str | None = None) -> list[CallSummary]:
        """Return the calls to language models in the order recorded, without their texts."""
        with self._database.reading() as connection:
            return llm_queries.call_summaries(connection, problem_key)

    def call(self, id: int) -> LlmCall:
        """Return one call with its texts, by the id that its summary has.

        Raises:
            StoreError: There is no such call; the message says which ids there are.
        """
        with self._database.reading() as connection:
            return llm_queries.call(connection, id)

    def recorded_calls(
        self, problem_key: str | None = None, generation: int | None = None
    ) -> Iterator[LlmCall]:
        """Go through whole calls in the order of their slots, then of their numbers.

        Few are in memory at a time. What is recorded meanwhile is left out.

        Args:
            problem_key: Calls for this problem alone; None: all, in the order of the problems.
            generation: Calls of this generation alone; None: all.
        """
        with self._database.reading() as connection:
            ids = llm_queries.call_ids(connection, problem_key, generation)
        for start in range(0, len(ids), _CALLS_AT_ONCE):
            with self._database.reading() as connection:
                chunk = llm_queries.calls_numbered(connection, ids[start : start + _CALLS_AT_ONCE])
            yield from chunk
