"""Every elite of a run judged once more, as `evokernel eval` does it, by one referee.

A candidate that holds several cells is judged once. Each verdict is added to a file in the run's
folder as soon as it is there, so that what an interrupted pass has found can be taken up again.
The run itself is read only: `evokernel verify` is what withdraws elites that fail.
"""

from __future__ import annotations

import json
import sys
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TextIO

from archives.candidate import Candidate
from archives.evaluation import Evaluation, Status
from archives.store import Store
from benchmarks.json_lines import drop_unfinished, whole_lines
from evaluator.evaluator import EvaluationRequest, Evaluator, Purpose
from evokernel.report import best_of
from evokernel.tasks import run_together
from problems.errors import ConfigError, EvaluatorError, ProblemError
from problems.problem import Problem

__all__ = ["FILE", "TRIES", "Again", "Pass", "judge_again", "pass_over"]

FILE = "second_verdicts.jsonl"
"""Of a run's folder: one line for each verdict."""
TRIES = 3
"""Times that an elite is judged where there is no verdict, each after all the others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Again:
    """What was said of an elite once more.

    Attributes:
        problem: Key of its problem.
        label: Name of its problem.
        candidate: Its id.
        status: The verdict; None: the evaluator or the problem failed.
        reason: Its reason, or what failed.
        speedup: Over the reference; None: not measured.
        low: Lower end of the interval of 99 %; None: not measured.
        purpose: How much certainty was bought.
        referee: Version of the referee.
    """

    problem: str
    label: str
    candidate: str
    status: Status | None
    reason: str
    speedup: float | None
    low: float | None
    purpose: Purpose
    referee: str

    @property
    def is_verdict(self) -> bool:
        """Whether it passed or failed, and the host was not too busy to tell."""
        return self.status not in (None, Status.UNSTABLE)

    @property
    def passes(self) -> bool:
        """Whether it is right and was measured."""
        return self.status is Status.OK

    def __str__(self) -> str:
        status = "NO VERDICT" if self.status is None else self.status.value
        said = self.reason if self.speedup is None else f"{self.speedup:.2f}x"
        return f"{self.label} {self.candidate[:12]}: {status} {said}".rstrip()


@dataclass(slots=True, kw_only=True)
class Pass:
    """One going through the elites, also where it was interrupted.

    Attributes:
        purpose: How much certainty is bought; `VERIFY` is what `evokernel eval` buys.
        elites: Those of each problem; each has its winning configuration in its source.
        num_cells: How many cells they hold, over all islands.
        found: The latest on each elite, by key of the problem and id.
        evaluations: How many were made in this sitting.
        wall_s: Seconds of this sitting so far.
    """

    purpose: Purpose
    elites: Sequence[tuple[Problem, Sequence[Candidate]]]
    num_cells: int
    found: dict[tuple[str, str], Again] = field(default_factory=dict)
    evaluations: int = 0
    wall_s: float = 0.0

    @property
    def num_elites(self) -> int:
        """How many are to be judged."""
        return sum(len(found) for _, found in self.elites)

    @property
    def passed(self) -> int:
        """How many passed."""
        return sum(one.passes for one in self.found.values())

    @property
    def failed(self) -> list[Again]:
        """Those that failed."""
        return [one for one in self.found.values() if one.is_verdict and not one.passes]

    @property
    def unsure(self) -> list[Again]:
        """Those without a verdict, after every try."""
        return [one for one in self.found.values() if not one.is_verdict]

    @property
    def missing(self) -> int:
        """How many were not judged yet."""
        return self.num_elites - len(self.found)

    @property
    def rate(self) -> float:
        """Evaluations a second of this sitting."""
        return self.evaluations / self.wall_s if self.wall_s else 0.0


def pass_over(store: Store, purpose: Purpose, *, only_best: bool = False) -> Pass:
    """Return a pass over the elites of a run that has not begun.

    Args:
        store: The run.
        purpose: How much certainty is bought.
        only_best: Only the best elite of each problem.
    """
    elites, cells = [], 0
    for problem in store.problems():
        if only_best:
            best = best_of(store, problem)
            held = [] if best is None else [best.candidate]
        else:
            held = [elite.candidate for elite in store.elites(problem.key)]
        cells += len(held)
        elites.append((problem, [store.candidate(one, problem.key) for one in sorted(set(held))]))
    return Pass(purpose=purpose, elites=elites, num_cells=cells)


async def judge_again(
    going: Pass, evaluator: Evaluator, file: Path, *, resume: bool = False
) -> None:
    """Judge elites once more; those without a verdict again, up to `TRIES` times in all.

    Args:
        going: Filled as verdicts arrive, so that an interrupted pass is not lost.
        evaluator: Whoever measures; it is started and closed here.
        file: Where each verdict is added; begun anew unless resumed.
        resume: Take up the verdicts of the same certainty and referee that the file holds. Whatever
            else it holds stays there.

    Raises:
        ConfigError: The file to be taken up is not one of these.
        EvaluatorError: The evaluator does not start.
        OSError: The file cannot be read or written.
    """
    try:
        capacity = await evaluator.start()
        referee = capacity.referee_version
        if resume:
            wanted = {(problem.key, one.id) for problem, found in going.elites for one in found}
            going.found |= {
                (one.problem, one.candidate): one
                for one in map(_read, whole_lines(file))
                if (one.problem, one.candidate) in wanted
                and one.is_verdict
                and (one.purpose, one.referee) == (going.purpose, referee)
            }
            drop_unfinished(file)
        with file.open("a" if resume else "w") as out:
            sitting = _Sitting(going, evaluator, referee, out)
            for _ in range(TRIES):
                await sitting.round(capacity.in_flight)
    finally:
        await evaluator.close()


class _Sitting:
    """One sitting: which evaluator, and where verdicts go."""

    def __init__(self, going: Pass, evaluator: Evaluator, referee: str, out: TextIO) -> None:
        self._pass = going
        self._evaluator = evaluator
        self._referee = referee
        self._out = out
        self._started = time.perf_counter()

    async def round(self, in_flight: int) -> None:
        """Judge once whatever has no verdict.

        Several problems at a time, each problem's elites in turn: its secret inputs have one place
        in memory, so that two of them would wait for each other.
        """
        left = deque(
            (problem, [one for one in found if not self._is_known(problem, one)])
            for problem, found in self._pass.elites
        )

        async def work() -> None:
            while left:
                problem, found = left.popleft()
                for candidate in found:
                    await self._judge(problem, candidate)

        await run_together(work() for _ in range(in_flight))

    def _is_known(self, problem: Problem, candidate: Candidate) -> bool:
        earlier = self._pass.found.get((problem.key, candidate.id))
        return earlier is not None and earlier.is_verdict

    async def _judge(self, problem: Problem, candidate: Candidate) -> None:
        """Ask as `evokernel.verdict.judge_once` does, for which a baseline changes no status."""
        purpose = self._pass.purpose
        request = EvaluationRequest(problem=problem, candidate=candidate, purpose=purpose)
        verdict: Evaluation | None = None
        try:
            verdict = await self._evaluator.evaluate(request)
            reason = verdict.reason
        except (EvaluatorError, ProblemError) as error:
            reason = str(error)
        low = verdict.interval.low if verdict and verdict.interval else None
        self._note(
            Again(
                problem=problem.key,
                label=problem.label,
                candidate=candidate.id,
                status=verdict.status if verdict else None,
                reason=reason,
                speedup=verdict.speedup if verdict else None,
                low=low,
                purpose=purpose,
                referee=self._referee,
            )
        )

    def _note(self, one: Again) -> None:
        going = self._pass
        going.found[one.problem, one.candidate] = one
        going.evaluations += 1
        going.wall_s = time.perf_counter() - self._started
        _write(one, self._out)
        left_s = (going.missing + len(going.unsure)) / going.rate
        print(
            f"  {len(going.found)}/{going.num_elites} {one}"
            f" ({going.rate:.2f}/s, {left_s / 60:.0f} min left)",
            file=sys.stderr,
            flush=True,
        )


def _write(one: Again, out: TextIO) -> None:
    print(json.dumps(asdict(one)), file=out, flush=True)


def _read(line: str) -> Again:
    """What an earlier sitting has found.

    Raises:
        ConfigError: The line is none of this version's.
    """
    try:
        fields: Mapping[str, Any] = json.loads(line)
        status = fields["status"]
        return Again(
            **{
                **fields,
                "status": None if status is None else Status(status),
                "purpose": Purpose(fields["purpose"]),
            }
        )
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigError(
            "second_verdicts.jsonl has a line that is no verdict of this version "
            f"({error!r}): move the file away, or leave --resume out"
        ) from error
