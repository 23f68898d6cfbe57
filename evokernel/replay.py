"""Replay: the verdicts of an earlier run in place of measurements, its record in place of models.

Two runs with one seed and replayed verdicts and answers make the same choices and reach the same
archive; so a search can be studied, or its code changed and compared, without measuring anything or
asking anybody again.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from archives.evaluation import Evaluation, Status
from archives.records import SEARCH
from archives.store import Store
from evaluator.evaluator import Capacity, EvaluationRequest, Lint, Purpose
from evokernel.devices import device_kind
from evokernel.heirlooms import read_heirlooms
from evokernel.launch import Plan, create_run, load_operators, stored_config
from evokernel.lifts import read_lifted
from evokernel.matching import BASELINE_FILE
from problems.errors import EvaluatorError, ProblemError
from problems.graph import OperatorGraph
from problems.lifted import OPTION_SETS, Lifted
from problems.problem import Problem

__all__ = ["ReplayEvaluator", "create_replay"]

_Key = tuple[str, str, str]


class ReplayEvaluator:
    """Answers from a store, by problem, proposed candidate and purpose.

    Where a candidate was verified several times, the answers come in the order recorded.
    """

    def __init__(self, store: Store) -> None:
        """Read the verdicts.

        Args:
            store: A run that has measured something; it is not needed afterwards.

        Raises:
            EvaluatorError: The run has measured nothing yet.
        """
        run = store.run()
        if run.device is None:
            raise EvaluatorError(
                f"the run {store.folder} has measured nothing that could be replayed"
            )
        self._capacity = Capacity(
            device=run.device,
            in_flight=4,
            noise_floor=run.noise_floor or 0.0,
            noisy=run.noisy,
            memory_bytes=0,
            referee_version=run.referee_version,
            rates=run.rates,
        )
        self._graphs = {problem.key: store.graph(problem.key) for problem in store.problems()}
        self._lifted = {
            problem.key: read_lifted(store.folder, problem.key) or ()
            for problem in store.problems()
        }
        self._answers: dict[_Key, list[Evaluation]] = {}
        for record in store.evaluations():
            asked = record.proposed or record.candidate
            key = (record.problem, asked, record.purpose)
            # A search asks twice before it takes "unstable" for an answer.
            is_unstable = record.evaluation.status is Status.UNSTABLE
            times = 2 if is_unstable and record.purpose == SEARCH else 1
            self._answers.setdefault(key, []).extend([record.evaluation] * times)

    async def start(self) -> Capacity:
        """Return the capacity of the device that the verdicts come from."""
        return self._capacity

    async def graph(self, problem: Problem) -> OperatorGraph:
        """Return the recorded graph.

        Raises:
            ProblemError: None was recorded.
        """
        graph = self._graphs.get(problem.key)
        if graph is None:
            raise ProblemError(f"no operator graph of problem {problem.label} was recorded")
        return graph

    async def lint(self, problem: Problem) -> Lint:
        """Return what was found out about the problem when it was searched."""
        return Lint(reason=problem.degenerate, remark=problem.loose or "")

    async def lift(
        self, problem: Problem, option_sets: Sequence[str] = tuple(OPTION_SETS)
    ) -> tuple[Lifted, ...]:
        """Return Inductor's code as the run has kept it; empty where it has none."""
        return self._lifted.get(problem.key, ())

    async def evaluate(self, request: EvaluationRequest) -> Evaluation:
        """Return the recorded verdict.

        Raises:
            EvaluatorError: The earlier run did not ask for it.
        """
        purpose = "verify" if request.purpose is Purpose.VERIFY else "search"
        answers = self._answers.get((request.problem.key, request.candidate.id, purpose))
        if not answers:
            raise EvaluatorError(
                f"no verdict on candidate {request.candidate.id[:12]} of problem "
                f"{request.problem.label} was recorded: the earlier run did not ask for it"
            )
        return answers.pop(0) if len(answers) > 1 else answers[0]

    async def close(self) -> None:
        """Do nothing: nothing was started."""


def create_replay(recorded: Store, folder: Path) -> tuple[Store, Plan]:
    """Make the store of a run that repeats another one, with its problems and kernels in it.

    Its limit of minutes is left out: a replay has another pace.

    Args:
        recorded: The run to be repeated, open.
        folder: Where the new run is kept.

    Raises:
        ConfigError: Its configuration is one of another version of EvoKernel.
        StoreError: The folder holds a run already, or cannot be written.
    """
    stored = stored_config(recorded)
    unlimited = stored.budget.model_copy(update={"max_minutes": None})
    config = stored.model_copy(update={"budget": unlimited})
    device = recorded.run().device
    plan = Plan(
        config=config,
        problems=tuple(recorded.problems()),
        operators=load_operators(config),
        heirlooms=read_heirlooms(recorded.folder),
        # It need not be here: nothing is measured.
        device=device.kind if device else device_kind(config.problems.device),
    )
    store = create_run(plan, folder)
    if (recorded.folder / BASELINE_FILE).exists():
        shutil.copy(recorded.folder / BASELINE_FILE, folder / BASELINE_FILE)
    for seed in recorded.seeds():
        if seed.generation is not None:
            store.request_seed(seed.problem, seed.name, seed.source, seed.generation)
    return store, plan
