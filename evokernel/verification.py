"""Verification: the best of an archive is measured again before it is reported.

A search measures many candidates briefly, so the luckiest of them looks better than it is. What
is reported is the latest verification: fresh processes, new secret inputs, many blocks.
"""

from __future__ import annotations

from dataclasses import dataclass

from archives.candidate import Candidate, Language
from archives.evaluation import Evaluation, Status
from archives.store import Store
from evaluator.evaluator import EvaluationRequest, Purpose
from evokernel.config import EvaluationConfig
from evokernel.judging import Judge
from evokernel.library import is_reference
from evokernel.search import ProblemSearch

__all__ = ["Verifier"]

_ASSUMED_COST_S = 4.0
"""Seconds of a verification before one was seen."""


@dataclass(slots=True, kw_only=True)
class Verifier:
    """Verifies the best elite of each problem; a failure withdraws it and tries the next.

    Attributes:
        store: Its rows say which elite is the best now.
        judge: Asks the evaluator.
        config: When an elite is worth it, and how often to try.
        solved_share: Share of the device's ceiling at which a problem is solved; None: never.
        cost_s: Mean seconds of a verification so far.
    """

    store: Store
    judge: Judge
    config: EvaluationConfig
    solved_share: float | None = None
    cost_s: float = _ASSUMED_COST_S

    async def verify(self, search: ProblemSearch, *, tries: int | None = None) -> Evaluation | None:
        """Verify the best elite of a problem, or the next ones where it fails.

        The reference, elites without a kernel of their own where those do not count as sure, and
        those that gain next to nothing need none.

        Args:
            search: The problem's.
            tries: Verifications at most; None: as many as the configuration says.

        Returns:
            The verification of the best elite that passed, or None.

        Raises:
            ProblemError: The problem does not run here any more.
            EvaluatorError: The evaluator failed too often in a row.
        """
        key = search.problem.key
        for _ in range(self.config.verify_tries if tries is None else tries):
            candidate = self._best(search)
            if candidate is None:
                return None
            known = self._verified(key, candidate.id)
            if known is not None:
                return known
            evaluation = await self._measure(search, candidate)
            if evaluation is None or evaluation.status is Status.UNSTABLE:
                continue
            if evaluation.status is Status.OK:
                return evaluation
            self.store.withdraw(key, candidate.id, evaluation.reason)
            search.population.withdraw(candidate.id)
        return None

    async def close_if_solved(self, search: ProblemSearch) -> None:
        """Stop a problem early where a verified elite is at the ceiling of the device.

        What counts is the objective at the ceiling: see `Matching.share`.

        Raises:
            ProblemError: The problem does not run here any more.
            EvaluatorError: The evaluator failed too often in a row.
        """
        for _ in range(self.config.verify_tries):
            # Who moves up for a withdrawn elite is verified here only where it is there too.
            if not self._looks_solved(search):
                return
            verified = await self.verify(search, tries=1)
            if verified is None:
                continue
            share = self.judge.matching.share(search.problem, verified)
            if share is not None and self.solved_share is not None and share >= self.solved_share:
                search.closed = f"at {100 * share:.0f} % of the device's ceiling"
                self.store.solve_problem(search.problem.key, search.closed)
            return

    def _looks_solved(self, search: ProblemSearch) -> bool:
        """Tell whether the best elite is at the ceiling by what the search measured of it."""
        best = search.population.archive.best
        if best is None or self.solved_share is None:
            return False
        measured = search.register.evaluation(best.candidate)
        share = self.judge.matching.share(search.problem, measured)
        return share is not None and share >= self.solved_share

    async def _measure(self, search: ProblemSearch, candidate: Candidate) -> Evaluation | None:
        evaluation = await self.judge.ask(
            EvaluationRequest(problem=search.problem, candidate=candidate, purpose=Purpose.VERIFY)
        )
        if evaluation is not None:
            self.store.record_verification(search.problem.key, candidate.id, evaluation)
            self.judge.monitor.verifications += 1
            self.cost_s = 0.8 * self.cost_s + 0.2 * evaluation.cost_s
        return evaluation

    def _best(self, search: ProblemSearch) -> Candidate | None:
        """The best elite that could count as sure, where it is worth verifying."""
        elites = self.store.elites(search.problem.key)
        for elite in sorted(elites, key=lambda e: (-e.objective, e.slot)):
            if elite.objective_speedup < self.config.verify_above:
                return None
            candidate = self.store.candidate(elite.candidate, search.problem.key)
            if candidate.language is not Language.TORCH:
                return candidate
            allowed = self.config.library == "allow"
            if allowed and not is_reference(search.problem, candidate):
                return candidate
        return None

    def _verified(self, problem_key: str, candidate_id: str) -> Evaluation | None:
        """The latest verification that the candidate passed, if any."""
        passed = [
            record.evaluation
            for record in self.store.evaluations(problem_key, candidate_id)
            if record.slot is None and record.evaluation.status is Status.OK
        ]
        return passed[-1] if passed else None
