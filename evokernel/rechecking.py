"""Checking a run's elites again: later, on new secret inputs, perhaps on another device.

What a search has selected for being best was partly lucky, and what was true of a driver or a
library last month need not be. So every elite can be verified once more; what fails is withdrawn,
and whoever moves up into its cell is verified in turn. An elite's number is its latest
verification. Where it is asked for, compute-sanitizer looks at what passed: who reads or writes out
of bounds is withdrawn too, while races that it reports are shown, since it does not know every way
in which a kernel's threads wait for each other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum

from archives.evaluation import Evaluation, Status
from archives.store import Store
from evaluator.evaluator import Capacity, EvaluationRequest, Evaluator, Purpose
from evaluator.sanitizing import MEMCHECK, Sanitized
from evokernel.groups import LibraryPolicy
from evokernel.library import held_to, policy_of
from evokernel.matching import Matching, kept_baseline
from evokernel.provenance import of_another_referee
from evokernel.sanitizing import Sanitizer
from problems.errors import ConfigError, EvaluatorError, ProblemError
from problems.problem import Problem

__all__ = ["MEMCHECK_ERRORS", "Finding", "Outcome", "recheck"]

MEMCHECK_ERRORS = "memcheck_errors"
"""Why an elite is withdrawn that reads or writes out of bounds."""

TRIES = 3
"""Times that a verification is asked for where the host is too busy to tell."""


class Outcome(StrEnum):
    """What became of an elite."""

    CONFIRMED = "confirmed"
    """Right, and as fast as before: the intervals meet."""
    FASTER = "faster"
    SLOWER = "slower"
    FIRST = "first"
    """Verified for the first time: before there was only the search's own measurement."""
    WITHDRAWN = "withdrawn"
    """It failed, and is in no cell any more."""
    UNSURE = "unsure"
    """The host was too busy, or the evaluator failed: what was known stands."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What was found about one elite.

    Attributes:
        problem: The problem.
        candidate: Id of the elite.
        outcome: What became of it.
        before: What counted for it until now.
        after: The new verdict; None where there is none.
        sanitized: What compute-sanitizer said of it; empty: it was not asked.
    """

    problem: Problem
    candidate: str
    outcome: Outcome
    before: Evaluation | None
    after: Evaluation | None
    sanitized: tuple[Sanitized, ...] = ()


async def recheck(
    store: Store,
    evaluator: Evaluator,
    *,
    problems: tuple[Problem, ...] | None = None,
    sanitizer: Sanitizer | None = None,
    told: Callable[[Finding], None] = lambda finding: None,
) -> tuple[list[Finding], list[tuple[Problem, str]]]:
    """Verify every elite of a run again, and withdraw what fails.

    Args:
        store: The run, open for writing.
        evaluator: Whoever measures; it is started and closed here.
        problems: Only these problems of the run; None: all.
        sanitizer: Has what passed looked at by compute-sanitizer, which is tried before anything
            is verified; None: nothing is.
        told: Called with each finding as soon as it is recorded.

    Returns:
        The findings in the order of problems, and the problems that do not run here, with why.

    Raises:
        ConfigError: The run was measured on a device of another kind or name, or
            compute-sanitizer does not work here.
        EvaluatorError: The evaluator does not start.
    """
    try:
        capacity = await evaluator.start()
        _require_comparable(store, capacity)
        if sanitizer is not None:
            await sanitizer.require_works()
        work = _Recheck(
            store=store,
            evaluator=evaluator,
            matching=Matching(baseline=kept_baseline(store.folder)),
            library=policy_of(store),
            places=asyncio.Semaphore(capacity.in_flight),
            sanitizer=sanitizer,
            told=told,
        )
        findings: list[Finding] = []
        unable: list[tuple[Problem, str]] = []
        for problem in store.problems() if problems is None else problems:
            try:
                await work.problem(problem, findings)
            except ProblemError as error:
                unable.append((problem, str(error)))
        return findings, unable
    finally:
        await evaluator.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Recheck:
    """One going through a run.

    Attributes:
        store: The run.
        evaluator: Has started.
        matching: Completes verdicts by the run's baseline.
        library: The run's policy on library work: what it rejects is withdrawn.
        places: Requests that may be outstanding.
        sanitizer: Asks compute-sanitizer, where it is to be asked.
        told: Called with each finding.
    """

    store: Store
    evaluator: Evaluator
    matching: Matching
    library: LibraryPolicy
    places: asyncio.Semaphore
    sanitizer: Sanitizer | None
    told: Callable[[Finding], None]

    async def problem(self, problem: Problem, findings: list[Finding]) -> None:
        """Verify a problem's elites, and those that move up for what is withdrawn.

        Args:
            problem: The problem.
            findings: What is found is added here, also where the problem fails later.
        """
        seen: set[str] = set()
        while fresh := self._elites(problem) - seen:
            seen |= fresh
            results = await asyncio.gather(
                *(self._one(problem, candidate) for candidate in sorted(fresh)),
                return_exceptions=True,
            )
            findings += [each for each in results if isinstance(each, Finding)]
            for result in results:
                if isinstance(result, BaseException):
                    raise result

    def _elites(self, problem: Problem) -> set[str]:
        return {elite.candidate for elite in self.store.elites(problem.key)}

    async def _one(self, problem: Problem, candidate: str) -> Finding:
        before = self.store.evaluation(problem.key, candidate)
        request = EvaluationRequest(
            problem=problem,
            candidate=self.store.candidate(candidate, problem.key),
            purpose=Purpose.VERIFY,
        )
        async with self.places:
            after = await self._verdict(request)
        sanitized = await self._sanitized(request, after)
        after = _held_to(after, sanitized)
        outcome = _outcome(before, after)
        if after is not None and outcome is not Outcome.UNSURE:
            self.store.record_verification(problem.key, candidate, after)
        if after is not None and outcome is Outcome.WITHDRAWN:
            self.store.withdraw(problem.key, candidate, after.reason)
        finding = Finding(
            problem=problem,
            candidate=candidate,
            outcome=outcome,
            before=before,
            after=after,
            sanitized=sanitized,
        )
        self.told(finding)
        return finding

    async def _sanitized(
        self, request: EvaluationRequest, after: Evaluation | None
    ) -> tuple[Sanitized, ...]:
        """Have what passed looked at; nothing else is worth it."""
        if self.sanitizer is None or after is None or after.status is not Status.OK:
            return ()
        return await self.sanitizer.look(request.problem, request.candidate.source)

    async def _verdict(self, request: EvaluationRequest) -> Evaluation | None:
        """Ask, again where the host was too busy; None where the evaluator failed."""
        verdict: Evaluation | None = None
        for _ in range(TRIES):
            try:
                verdict = await self.evaluator.evaluate(request)
            except ProblemError:
                raise
            except EvaluatorError:
                continue
            if verdict.status is not Status.UNSTABLE:
                completed = self.matching.complete(request.problem, verdict)
                return held_to(self.library, request, completed)
        return verdict


def _held_to(after: Evaluation | None, sanitized: tuple[Sanitized, ...]) -> Evaluation | None:
    """Return the verdict, or the one on a candidate that reads or writes out of bounds."""
    bad = [one for one in sanitized if one.check == MEMCHECK and one.errors]
    if after is None or not bad:
        return after
    return replace(
        after,
        status=Status.RUNTIME_ERROR,
        reason=MEMCHECK_ERRORS,
        log=f"compute-sanitizer counts {bad[0].errors} accesses out of bounds.\n{bad[0].log}",
        speedup=None,
        matched_speedup=None,
        interval=None,
    )


def _outcome(before: Evaluation | None, after: Evaluation | None) -> Outcome:
    if after is None or after.status is Status.UNSTABLE:
        return Outcome.UNSURE
    if after.status is not Status.OK:
        return Outcome.WITHDRAWN
    if before is None or before.interval is None or before.rung < after.rung:
        return Outcome.FIRST
    assert after.interval is not None, "OK has an interval"
    if after.interval.high < before.interval.low:
        return Outcome.SLOWER
    return Outcome.FASTER if after.interval.low > before.interval.high else Outcome.CONFIRMED


def _require_comparable(store: Store, capacity: Capacity) -> None:
    """Require the run's referee, on a device like the run's: the same one, or one of its name."""
    run, here = store.run(), capacity.device
    then = run.device
    if then is None:
        return
    if difference := of_another_referee(run, capacity):
        raise ConfigError(
            f"the run {store.folder} cannot be verified here, {difference}: take the version of "
            "EvoKernel that made it, or start anew with --from, since numbers of two never mix"
        )
    if (then.kind, then.name, then.threads) != (here.kind, here.name, here.threads):
        raise ConfigError(
            f"the run {store.folder} was measured on {then}, here is {here}: verify it on a "
            "device of that name, since numbers of two never mix"
        )
