"""One problem on one GPU, for one candidate; see `evaluator.referee.arena.Arena`."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from threading import Semaphore
from typing import Any

from archives.evaluation import Status
from evaluator.gate import Gate, Share
from evaluator.referee.arena import Watch, published_weights
from evaluator.referee.checking import Accuracy, Wanted, check_sets, mismatch_of_form
from evaluator.referee.correctness import judge
from evaluator.referee.cuda.ahead import compile_ahead
from evaluator.referee.cuda.candidate import CudaCandidate, CudaOutputs, unreadable
from evaluator.referee.cuda.draws import CudaCheckSet
from evaluator.referee.cuda.hoarding import alone_in_memory, telling_hoarders
from evaluator.referee.cuda.monitor import Conditions, Monitor, joined
from evaluator.referee.cuda.session import CudaSession
from evaluator.referee.cuda.starting import furnish, started
from evaluator.referee.cuda.stopwatch import CudaStopwatch
from evaluator.referee.cuda.turns import Turn
from evaluator.referee.cuda.twins import TwinnedWatch, has_twins, twin_of
from evaluator.referee.deadlines import Deadlines
from evaluator.referee.device import CoreSets
from evaluator.referee.effort import LONG_VERIFY_EFFORT, VERIFY_EFFORT
from evaluator.referee.failure import CandidateFailed
from evaluator.referee.spawner import Spawner, WorkerPlan

__all__ = ["CudaArena", "CudaBench"]

HELPER_BYTES = 512 << 20
"""A set of inputs and outputs of a problem that is compiled ahead, at most: each helper has one."""
SHARE_S = 0.1
"""Sets of a small problem take 5 ms each; whoever times is not kept waiting for longer than this,
and then the rest of a set."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CudaBench:
    """What every evaluation on a GPU shares.

    Attributes:
        cores: Who runs where.
        gate: The GPU's timing gate.
        deadlines: How long each step may take.
        candidate_bytes: Host memory of one candidate.
        spawner: Forks workers.
        helpers: Bounds the processes that compile ahead, of all candidates.
        monitor: Tells whether the GPU is disturbed; None: nothing does.
    """

    cores: CoreSets
    gate: Gate
    deadlines: Deadlines
    candidate_bytes: int
    spawner: Spawner
    helpers: Semaphore = field(default_factory=Semaphore)
    monitor: Monitor | None = None

    @property
    def trial_plan(self) -> WorkerPlan:
        """A process like a candidate's that is timed, without a build folder."""
        return WorkerPlan(
            role="cuda_candidate",
            cpus=self.cores.timed,
            threads=1,
            memory_bytes=self.candidate_bytes,
        )


class CudaArena:
    """One problem on one GPU, for one candidate."""

    one_process = True

    def __init__(
        self,
        bench: CudaBench,
        session: CudaSession,
        sets: Sequence[CudaCheckSet],
        turn: Turn[CudaCheckSet] | None = None,
        *,
        verifies: bool = False,
    ) -> None:
        """Prepare it.

        Args:
            bench: Cores, gate and processes.
            session: The problem.
            sets: Check sets, drawn after the source was frozen or unknown to its author.
            turn: Lets them lie in memory, where there is room for one at a time.
            verifies: Whether a process that is timed has a twin, where calls are short.
        """
        self.gate: Gate = bench.gate
        self.builds_s = bench.deadlines.builds_s
        self.verify_effort = VERIFY_EFFORT if turn is None else LONG_VERIFY_EFFORT
        self._bench = bench
        self._session = session
        self._sets = sets
        self._turn = turn
        self._has_twins = verifies and has_twins(session)
        self._twin: CudaCandidate | None = None
        self._hidden_weights = True
        self._watches: list[CudaStopwatch | TwinnedWatch] = []
        self._timed: list[CudaCandidate] = []
        self._processes: list[CudaCandidate] = []

    def build_folder(self) -> Path:
        """Make a private folder for build artefacts."""
        return self._bench.spawner.build_folder()

    def prepare(self, build: Path, sources: Sequence[str]) -> None:
        """Compile a Triton program's configurations on several cores at a time."""
        bench = self._bench
        memory = self._session.memory
        if memory.set_bytes + memory.own_bytes > HELPER_BYTES:
            return

        def helper(folder: Path) -> CudaCandidate:
            return self._started(self._plan(folder, timed=False))

        compile_ahead(
            sources, build, bench.helpers, self.build_folder, helper, len(bench.cores.other)
        )

    def process(self, build: Path, *, timed: bool) -> CudaCandidate:
        """Start a process; one that is to be timed only reads what was built.

        Its twin comes first, where it has one: no candidate decides where that lies.
        """
        with self._telling_hoarders():
            if timed and self._has_twins:
                start = partial(self._started, self._bench.trial_plan)
                self._twin = twin_of(self._session, start, hidden=self._hidden_weights)
            process = self._started(self._plan(build, timed=timed))
        self._processes.append(process)
        return process

    def _plan(self, build: Path, *, timed: bool) -> WorkerPlan:
        plan = replace(self._bench.trial_plan, build=build, build_writable=True)
        return plan if timed else replace(plan, cpus=self._bench.cores.other)

    def _started(self, plan: WorkerPlan) -> CudaCandidate:
        return started(self._session, self._bench.spawner, plan, self._bench.deadlines)

    def look(self, process: CudaCandidate, index: int) -> Accuracy:
        """Check one configuration on the first set, the same for all of them."""
        return self._check(process, index, self._sets[:1])

    def check(self, process: CudaCandidate, index: int) -> Accuracy:
        """Check one configuration on every set."""
        accuracy = self._check(process, index, self._sets)
        self._hidden_weights = accuracy.hidden_weights
        return accuracy

    def _check(self, process: CudaCandidate, index: int, sets: Sequence[CudaCheckSet]) -> Accuracy:
        # Sets in turn are drawn between two pieces of work, which needs a share, too.
        share = Share(self.gate, SHARE_S if self._turn is None else 0)

        def judge_set(one: CudaCheckSet, accuracy: Accuracy) -> CandidateFailed | None:
            with share.piece(), alone_in_memory(self._turn):
                return self._judge(process, index, one, accuracy)

        def load_weights() -> bool:
            share.give_back()
            with self._session.weights_lock:
                return process.load_weights(index)

        with self._telling_hoarders(), closing(self._lying(process, sets)) as lying, share:
            return check_sets(
                lying,
                judge_set,
                load_weights if self._session.has_state else None,
                process.require_inputs_unchanged,
                self._session.constant_weights,
            )

    def _telling_hoarders(self) -> AbstractContextManager[None]:
        return telling_hoarders(self._session, self._processes, self.gate.exclusive)

    def _lying(
        self, process: CudaCandidate, sets: Sequence[CudaCheckSet]
    ) -> Generator[CudaCheckSet]:
        """Yield sets, each while it lies in memory; those of a process are the first of the plan.

        What the process has returned on a set makes room before it is another candidate's turn.
        """
        if self._turn is None:
            yield from sets
            return
        for number in range(len(sets)):
            with self._turn.lying(number) as drawn:
                try:
                    yield drawn
                finally:
                    self._forget(process)

    def _forget(self, process: CudaCandidate) -> None:
        """Let a process give back what its outputs take; who cannot fails when it is asked next."""
        if process.alive:
            with self.gate.shared(), suppress(CandidateFailed):
                process.forget()

    def load_hidden(self, process: CudaCandidate, index: int) -> None:
        """Let a configuration load the hidden weights, where the problem has any."""
        if self._session.has_state:
            with self._session.weights_lock:
                process.load_weights(index)

    def weights(self, *, hidden: bool) -> AbstractContextManager[None]:
        """Let the reference compute with the weights that the candidate has."""
        return published_weights(self._session, hidden=hidden)

    @contextmanager
    def timing(self) -> Iterator[None]:
        """Hold the place of the sets where there is one; see `Arena.timing`."""
        with self._telling_hoarders(), self._placed():
            yield

    @contextmanager
    def _placed(self) -> Iterator[None]:
        if self._turn is None:
            try:
                yield
            finally:
                self._end_twin()
            return
        with self._turn.timed():
            try:
                yield
            finally:
                if not self._session.ended:
                    # Outputs are mapped there from leg to leg.
                    with self.gate.shared():
                        self._session.reference.trim()
                for process in self._timed:
                    self._forget(process)

    def furnish(self, process: CudaCandidate) -> None:
        """Give a process its timed room: who waits for memory must not keep others from ending."""
        furnish(self._session, process)

    def watch(self, process: CudaCandidate) -> Watch:
        """Make a clock; the process moves to the cores of what is timed."""
        process.worker.pin(self._bench.cores.timed)
        if process not in self._timed:
            self._timed.append(process)
        watch = self._clock(process)
        twin = self._twin
        if twin is None:
            return watch
        clock = partial(self._clock, twin, is_trusted=True)
        twinned = TwinnedWatch(watch, clock, self._session.alone_ms, twin.stop)
        self._watches.append(twinned)
        return twinned

    def _clock(self, process: CudaCandidate, *, is_trusted: bool = False) -> CudaStopwatch:
        watch = CudaStopwatch(self._session, process, self._bench.monitor, is_trusted=is_trusted)
        self._watches.append(watch)
        return watch

    def _end_twin(self) -> None:
        twin, self._twin = self._twin, None
        if twin is not None:
            twin.end()

    @property
    def conditions(self) -> Conditions:
        """What all timings ran under."""
        return joined([watch.conditions for watch in self._watches])

    def census(self, process: CudaCandidate, index: int, calls: int) -> dict[str, Any]:
        """Ask for facts about a configuration's kernels, on what its room holds."""
        # It may be that which was timed: whoever is timed now has those cores.
        process.worker.pin(self._bench.cores.other)
        process.census("prepare_census")
        numbers = list(self._session.reference.numbers)
        with ExitStack() as held:
            if self._turn is not None:
                held.enter_context(self._turn.beside())
                held.callback(self._forget, process)
            with self.gate.shared():
                process.census("watch", calls, index=index, numbers=numbers)
        return process.census("census")

    def _judge(
        self, process: CudaCandidate, index: int, one: CudaCheckSet, accuracy: Accuracy
    ) -> CandidateFailed | None:
        """Call a candidate on a set, and compare what it returned where that lies."""
        where = f"inputs {one.plan.variant!r}: "
        reference = self._session.reference
        numbers = reference.show(process.check_room, one.number)
        outputs = process.call(index, numbers)
        process.stop()
        if not reference.shown_unchanged(process.check_room, one.number):
            log = "forward wrote to its inputs: write to a tensor of its own instead."
            return CandidateFailed(Status.MUTATED_INPUT, "mutated_input", log)
        failure = self._compare(one, outputs, accuracy)
        if failure is not None:
            return CandidateFailed(failure.status, failure.reason, where + failure.log)
        return None

    def _compare(
        self, one: CudaCheckSet, outputs: CudaOutputs, accuracy: Accuracy
    ) -> CandidateFailed | None:
        opened = self._session.opened
        wanted = Wanted(outputs=opened.outputs, is_tuple=opened.returns_tuple)
        failure = mismatch_of_form(
            outputs.specs, outputs.overlapping, is_tuple=outputs.is_tuple, wanted=wanted
        )
        if failure is not None:
            return failure
        if not outputs.readable:
            return unreadable()
        deviations = self._session.reference.compare(one.number, outputs.exported)
        for deviation, bound in zip(deviations, one.bounds, strict=True):
            found = judge(deviation, bound)
            if found is not None:
                return CandidateFailed(found.status, found.reason, found.log)
            accuracy.note(deviation.rms, bound.rms)
        return None
