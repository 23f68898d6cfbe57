"""The store of a run: every fact, in one database, as plain records.

Rows never leave: frozen dataclasses go in and come out. Every writing method is one transaction,
so `kill -9` at any moment loses at most what was in flight. Nothing is deleted; what changes are
the states of runs, problems and attempts, and who holds a cell. One engine at a time writes a run
(`RUN/lock`); any number of readers may read meanwhile, and `request_seed` works for all of them.

The database is SQLite in WAL mode at `RUN/run.db`, or what a URL names; it holds one run.
Reading methods are in `archives.reader`, their statements in the `*_queries` modules; what the
writing methods do is in the `*_transactions` modules; older formats are brought up to date by
`archives.upgrade`; connections, locks and error sentences are in `archives.database`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from archives import llm_transactions, run_queries, run_transactions, search_transactions
from archives.attempt import Attempt, Slot
from archives.candidate import Candidate
from archives.configuration import Configuration
from archives.database import Database
from archives.evaluation import DeviceFingerprint, Evaluation
from archives.llm_call import LlmCall
from archives.llm_texts import pack_texts
from archives.rates import Rates
from archives.reader import StoreReader
from archives.records import FORMAT_VERSION, GenerationOutcome, RunRecord, RunState, SeedRequest
from archives.upgrade import upgrade
from problems.graph import OperatorGraph
from problems.problem import Problem

__all__ = ["Store"]


class Store(StoreReader):
    """One run's store; use it as a context manager. Every method may raise `StoreError`."""

    @classmethod
    def create(
        cls,
        folder: Path,
        run: RunRecord,
        *,
        problems: Sequence[Problem] = (),
        seeds: Mapping[str, Sequence[tuple[str, str]]] | None = None,
        url: str | None = None,
        prepare: Callable[[], None] = lambda: None,
    ) -> Store:
        """Make the folder and its store, and open it for writing.

        Args:
            folder: Must not hold a run yet; made where it does not exist.
            run: What is known of the run.
            problems: Its problems, in order.
            seeds: Kernels to start from, (name, source) by problem key: they wait for generation
                0, so that the run depends on no other folder from now on.
            url: Database URL without a password; None: SQLite at `folder/run.db`.
            prepare: Writes what belongs beside the store, once the folder is there: whoever is
                killed before its end leaves no run.

        Raises:
            StoreError: The folder holds a run, cannot be written, or is locked.
        """
        database = Database.create(folder, url)
        with database.closing_on_error(), database.writing() as connection:
            prepare()
            run_transactions.create_tables(connection, run)
            run_transactions.add_problems(connection, problems)
            for key, kernels in (seeds or {}).items():
                for name, source in kernels:
                    run_transactions.request_seed(connection, key, name, source)
        return cls(database)

    @classmethod
    def open(cls, folder: Path, *, write: bool = False, busy_timeout_s: float = 10.0) -> Store:
        """Open an existing run; for writing, one of an older format is upgraded at once.

        Args:
            folder: The run's folder.
            write: True for the one engine that continues the run.
            busy_timeout_s: How long to wait for another process's transaction.

        Raises:
            StoreError: There is no run, its format is unknown, it is damaged, or (for writing)
                it cannot be written or another engine holds it.
        """
        database = Database.open(folder, write=write, busy_timeout_s=busy_timeout_s)
        with database.closing_on_error():
            with database.reading() as connection:
                version = run_queries.check_format(connection, folder)
            if write and version < FORMAT_VERSION:
                with database.writing() as connection:
                    upgrade(connection, version, FORMAT_VERSION)
        return cls(database)

    def set_state(self, state: RunState) -> None:
        """Write down where the run stands."""
        with self._database.writing() as connection:
            run_transactions.set_state(connection, state)

    def set_config(self, config_json: str) -> None:
        """Replace the run's resolved configuration, as a resumed run with a new budget does."""
        with self._database.writing() as connection:
            run_transactions.set_config(connection, config_json)

    def set_device(
        self,
        device: DeviceFingerprint,
        *,
        noise_floor: float,
        referee_version: str,
        noisy: bool = False,
        rates: Rates | None = None,
    ) -> None:
        """Write down where the run measures, once the evaluator has started."""
        with self._database.writing() as connection:
            run_transactions.set_device(
                connection, device, noise_floor, noisy, referee_version, rates
            )

    def add_problems(self, problems: Sequence[Problem]) -> None:
        """Append problems; those already there are left alone."""
        with self._database.writing() as connection:
            run_transactions.add_problems(connection, problems)

    def skip_problem(self, problem_key: str, reason: str) -> None:
        """Mark a problem as one that cannot be searched here; its open proposals fail."""
        with self._database.writing() as connection:
            run_transactions.skip_problem(connection, problem_key, reason)

    def solve_problem(self, problem_key: str, reason: str) -> None:
        """Mark a problem as one that needs no further search."""
        with self._database.writing() as connection:
            run_transactions.solve_problem(connection, problem_key, reason)

    def mark_problem(
        self, problem_key: str, *, degenerate: str | None = None, loose: str | None = None
    ) -> None:
        """Write down what was seen of a problem before it was searched.

        Args:
            problem_key: Key of the problem.
            degenerate: Why it says little about a kernel: figures leave it out; None: it is sound.
            loose: Why KernelBench's tolerance proves nothing of it; None: it proves something.
        """
        with self._database.writing() as connection:
            run_transactions.mark_problem(connection, problem_key, degenerate, loose)

    def put_graph(self, problem_key: str, graph: OperatorGraph) -> None:
        """Keep the operator graph of a problem."""
        with self._database.writing() as connection:
            run_transactions.put_graph(connection, problem_key, graph)

    def propose(
        self,
        attempt: Attempt,
        candidate: Candidate | None,
        configurations: Sequence[Configuration] = (),
    ) -> None:
        """Record one proposal: its attempt, and its candidate where that is new.

        Args:
            attempt: A duplicate, or a proposal without a program, comes in its final state:
                `state`, `reason`, `result` and `duplicate_of` are stored as they are.
            candidate: The program with the id `attempt.candidate`, or None.
            configurations: Points to try; kept so that a resumed run can go on.
        """
        self.propose_many([(attempt, candidate, configurations)])

    def propose_many(
        self, proposals: Iterable[tuple[Attempt, Candidate | None, Sequence[Configuration]]]
    ) -> None:
        """Record several proposals in one transaction; parents may be among earlier ones."""
        with self._database.writing() as connection:
            for attempt, candidate, configurations in proposals:
                search_transactions.propose(connection, attempt, candidate, configurations)

    def record(self, slot: Slot, evaluation: Evaluation, result: Candidate | None = None) -> None:
        """Record the verdict on an attempt, which becomes `EVALUATED` or `FAILED`.

        Args:
            slot: An attempt in the state `PROPOSED`.
            evaluation: The verdict.
            result: The candidate that was measured, where it is not the proposed one: the
                program with the winning configuration written in.
        """
        with self._database.writing() as connection:
            search_transactions.record(connection, slot, evaluation, result)

    def fail(self, slot: Slot, reason: str) -> None:
        """Mark a proposed attempt as failed without a verdict (the evaluator broke)."""
        with self._database.writing() as connection:
            search_transactions.fail(connection, slot, reason)

    def record_verification(
        self, problem_key: str, candidate_id: str, evaluation: Evaluation
    ) -> None:
        """Record a verification; the latest one is what is reported."""
        with self._database.writing() as connection:
            search_transactions.record_verification(
                connection, problem_key, candidate_id, evaluation
            )

    def withdraw(self, problem_key: str, candidate_id: str, reason: str) -> None:
        """Bar a candidate from every cell; the next best of each cell moves up."""
        with self._database.writing() as connection:
            search_transactions.withdraw(connection, problem_key, candidate_id, reason)

    def record_call(self, call: LlmCall) -> bool:
        """Record a call to a language model as soon as its answer is there.

        Returns:
            False where the slot has a call of this number already: the first one stays, since
            that is the answer the search went on with.
        """
        prompt_hash, texts = call.prompt_hash, pack_texts(call.messages, call.text)
        with self._database.writing() as connection:
            return llm_transactions.record_call(connection, call, prompt_hash, texts)

    def finish_generation(
        self, problem_key: str, generation: int, outcome: GenerationOutcome
    ) -> None:
        """Close a generation of a problem; does nothing where it was closed before.

        Evaluated attempts become `ARCHIVED`, accepted insertions become the stored elites, and
        migrants and tallies are added.
        """
        with self._database.writing() as connection:
            search_transactions.finish_generation(connection, problem_key, generation, outcome)

    def request_seed(
        self, problem_key: str, name: str, source: str, generation: int | None = None
    ) -> None:
        """Leave a human kernel for the engine; allowed beside a running engine.

        Args:
            problem_key: Key of the problem.
            name: Name for people.
            source: Text of one module that defines `ModelNew`.
            generation: The generation that is to take it up, as a replay asks; None: the next.
        """
        with self._database.writing(as_guest=True) as connection:
            run_transactions.request_seed(connection, problem_key, name, source, generation)

    def take_seeds(self, problem_key: str, generation: int) -> list[SeedRequest]:
        """Take up waiting seeds in a generation; repeated, it returns the same ones again.

        Seeds that arrive after the first call for a generation wait for the next one.
        """
        with self._database.writing() as connection:
            return run_transactions.take_seeds(connection, problem_key, generation)
