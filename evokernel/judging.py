"""Judging: recording proposals, dropping duplicates, and getting verdicts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TypedDict

from archives.attempt import AttemptState
from archives.candidate import Candidate
from archives.evaluation import Evaluation, Status
from archives.store import Store
from evaluator.evaluator import EvaluationRequest, Evaluator
from evokernel.budget import Budget
from evokernel.groups import LibraryPolicy
from evokernel.library import held_to
from evokernel.matching import Matching
from evokernel.monitor import Monitor
from evokernel.register import Child
from evokernel.search import Draft, ProblemSearch, at_point
from problems.errors import EvaluatorError

__all__ = ["Judge"]

EVALUATOR_FAILED = "evaluator_failed"


@dataclass(slots=True, kw_only=True)
class Judge:
    """The only place that asks the evaluator for verdicts.

    Attributes:
        store: Where proposals and verdicts are recorded, each at once.
        evaluator: Whoever measures.
        budget: What may still be spent.
        monitor: What people are shown.
        patience: Failures of the evaluator in a row that end the run.
        matching: Completes verdicts with what torch's other settings reach.
        library: What becomes of candidates that leave the work to a library.
        failures: Failures in a row so far.
    """

    store: Store
    evaluator: Evaluator
    budget: Budget
    monitor: Monitor
    patience: int
    matching: Matching = field(default_factory=Matching)
    library: LibraryPolicy = "mark"
    failures: int = 0

    def enter(self, search: ProblemSearch, drafts: Sequence[Draft]) -> list[Draft]:
        """Record proposals in their order; return those that need a verdict.

        A proposal without a new point is a duplicate and gets the earlier verdict. Proposals
        that the budget cannot pay for are not recorded. Recorded ones of an interrupted
        generation pass through as they are.
        """
        waiting = []
        new = []
        for draft in drafts:
            if draft.attempt.slot in search.recorded:
                entered = draft
            else:
                entered = _claimed(draft, search)
                if entered.attempt.state is AttemptState.PROPOSED and not self.budget.pay():
                    # No later proposal can be a duplicate of what is not there.
                    search.register.forget(entered.attempt.slot)
                    continue
                new.append((entered.attempt, entered.candidate, entered.configurations))
            search.attempts.append(entered.attempt)
            if entered.attempt.state is AttemptState.PROPOSED:
                waiting.append(entered)
        self.store.propose_many(new)
        self.monitor.attempts += len(new)
        return waiting

    async def judge(self, search: ProblemSearch, draft: Draft) -> None:
        """Get the verdict on one proposal and record it.

        Raises:
            ProblemError: The problem itself does not run here.
            EvaluatorError: The evaluator failed too often in a row.
        """
        assert draft.candidate is not None
        slot = draft.attempt.slot
        evaluation = await self._ask_twice(
            EvaluationRequest(
                problem=search.problem,
                candidate=draft.candidate,
                configurations=draft.configurations,
            )
        )
        if evaluation is None:
            search.register.forget(slot)
            self.store.fail(slot, EVALUATOR_FAILED)
            return
        result = _result(search.problem.key, draft.candidate, evaluation)
        self.store.record(slot, evaluation, None if result is draft.candidate else result)
        search.register.settle(
            Child(
                attempt=draft.attempt,
                program=draft.candidate.program_id,
                result=result.id,
                evaluation=evaluation,
            )
        )
        self.monitor.evaluations += 1

    async def _ask_twice(self, request: EvaluationRequest) -> Evaluation | None:
        """Ask the evaluator; once more where the host was too noisy to judge."""
        first = await self.ask(request)
        if first is None or first.status is not Status.UNSTABLE:
            return first
        second = await self.ask(request)
        if second is None:
            return first
        return replace(second, cost_s=first.cost_s + second.cost_s)

    async def ask(self, request: EvaluationRequest) -> Evaluation | None:
        """Ask the evaluator; None where it failed, so that nothing is known.

        Raises:
            ProblemError: The problem itself does not run here.
            EvaluatorError: The evaluator failed too often in a row.
        """
        try:
            evaluation = await self.evaluator.evaluate(request)
        except EvaluatorError as error:
            self.failures += 1
            self.monitor.evaluator_failures += 1
            if self.failures >= self.patience:
                raise EvaluatorError(
                    f"the evaluator failed {self.failures} times in a row, most recently on "
                    f"problem {request.problem.label}: {error}"
                ) from error
            return None
        self.failures = 0
        return held_to(self.library, request, self.matching.complete(request.problem, evaluation))

    def skip(self, search: ProblemSearch, reason: str) -> None:
        """Give a problem up that does not load or fit here; its open proposals fail."""
        self.store.skip_problem(search.problem.key, reason)
        search.closed = reason


def _result(problem_key: str, candidate: Candidate, evaluation: Evaluation) -> Candidate:
    """The program as it was measured: the winning configuration written in."""
    source = at_point(candidate.source, evaluation.configuration)
    return candidate if source == candidate.source else Candidate.of(problem_key, source)


def _claimed(draft: Draft, search: ProblemSearch) -> Draft:
    """The draft with its new points only, or in the final state of a duplicate."""
    if draft.candidate is None:
        return draft
    attempt = draft.attempt
    points, earlier = search.register.claim(attempt.slot, draft.candidate, draft.configurations)
    if earlier is not None:
        is_settled = earlier.generation < attempt.slot.generation
        verdict = _verdict_of(search.register.child(earlier) if is_settled else None)
        return replace(
            draft, attempt=replace(attempt, duplicate_of=earlier, **verdict), configurations=()
        )
    if points == draft.configurations or not points:
        return draft
    source = at_point(draft.candidate.source, points[0])
    candidate = Candidate.of(search.problem.key, source)
    return Draft(
        attempt=replace(attempt, candidate=candidate.id),
        candidate=candidate,
        configurations=points,
    )


class _Verdict(TypedDict):
    state: AttemptState
    reason: str
    result: str | None


def _verdict_of(original: Child | None) -> _Verdict:
    """What a duplicate takes over; nothing where the original is of its own generation."""
    if original is None or original.evaluation is None:
        return {"state": AttemptState.EVALUATED, "reason": "", "result": None}
    is_fit = original.evaluation.status is Status.OK
    return {
        "state": AttemptState.EVALUATED if is_fit else AttemptState.FAILED,
        "reason": original.evaluation.reason,
        "result": original.result if is_fit else None,
    }
