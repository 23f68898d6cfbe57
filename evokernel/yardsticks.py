"""Measure a baseline: torch's own times, problem by problem, on the device at hand.

Eager settings of a problem are measured in one process, each compiled one in a process of its own,
so that a compiler that crashes or hangs costs its own row alone. Several such processes compile
beside each other; they time one after the other.
"""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from evaluator.referee.device import core_sets, fingerprint
from evokernel.baselines import (
    COMPILED,
    Baseline,
    ProblemBaseline,
    Setting,
    check_same,
    with_settings,
)
from evokernel.measurer import ask, gate_name, measurer
from problems.errors import ConfigError, EvaluatorError
from problems.problem import Problem

__all__ = ["Effort", "measure_baseline", "most_jobs"]

_SEED = 20260101
_MOST_JOBS = 16
"""Beyond that, processes wait for the device rather than for a core."""
_KEPT_FREE = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How much time a baseline may take.

    Attributes:
        budget_s: Seconds of timed calls for each setting of each problem.
        deadline_s: Seconds for each process, its turns at the device not waited for; then the
            next one follows.
        limit_s: Seconds for all of it; what is not done by then is left out. None: no limit.
        jobs: Processes beside each other.
    """

    budget_s: float = 0.4
    deadline_s: float = 300.0
    limit_s: float | None = None
    jobs: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class _Task:
    """What one process measures."""

    problem: Problem
    settings: tuple[str, ...]


def most_jobs(kind: str) -> int:
    """Return how many processes may well compile beside each other.

    Args:
        kind: "cuda" or "cpu"; on a CPU they would disturb what is timed.
    """
    if kind == "cpu":
        return 1
    return max(1, min(_MOST_JOBS, len(os.sched_getaffinity(0)) - _KEPT_FREE))


def measure_baseline(
    problems: Sequence[Problem],
    kind: str,
    settings: Sequence[str],
    *,
    effort: Effort | None = None,
    known: Baseline | None = None,
    again: bool = False,
    progress: Callable[[Baseline, ProblemBaseline], None] = lambda all, done: None,
) -> Baseline:
    """Measure torch on problems, in processes of their own.

    Args:
        problems: At least one, all at the same scale.
        kind: "cuda" or "cpu".
        settings: Which ways to measure; see `Setting`.
        effort: How much time it may take.
        known: An earlier baseline to go on with: what it has a time of is not measured again.
        again: Measure that again all the same; its other problems stay.
        progress: Called with all that is known so far and with what a process has just measured.

    Returns:
        The problems in order, those of `known` that were not asked for after them; settings that
        were not measured for lack of time are left out.

    Raises:
        ConfigError: `known` was measured on another device or with other versions.
        EvaluatorError: A measuring process does not start, or dies.
    """
    measuring = _Measuring(problems, kind, effort or Effort(), known, progress)
    return measuring.run(_tasks(problems, settings, None if again else known))


def _tasks(
    problems: Sequence[Problem], settings: Sequence[str], known: Baseline | None
) -> list[_Task]:
    """What is to be measured still: eager settings together, each compiled one by itself."""
    tasks = []
    for problem in problems:
        there = None if known is None else known.of(problem)
        missing = [s for s in settings if there is None or there.latency_ms(s) is None]
        groups = [[s for s in missing if s not in COMPILED]]
        groups += [[s] for s in missing if s in COMPILED]
        tasks += [_Task(problem=problem, settings=tuple(group)) for group in groups if group]
    # What takes longest to compile is not left for the end.
    return sorted(tasks, key=lambda task: "max_autotune" not in task.settings)


class _Measuring:
    """One baseline on its way; several threads put into it what their processes found."""

    def __init__(
        self,
        problems: Sequence[Problem],
        kind: str,
        effort: Effort,
        known: Baseline | None,
        progress: Callable[[Baseline, ProblemBaseline], None],
    ) -> None:
        self._kind = kind
        self._effort = effort
        self._known = known
        self._progress = progress
        self._lock = threading.Lock()
        self._cpus = core_sets().timed if kind == "cpu" else ()
        self._end = None if effort.limit_s is None else time.monotonic() + effort.limit_s
        self._device: dict[str, Any] = {}
        self._has_failed = False
        self._processes: list[subprocess.Popen[bytes]] = []
        self._compiles = False
        self._scale = problems[0].scale.value
        there = {} if known is None else {one.key: one for one in known.problems}
        asked = {each.key: there.get(each.key) or _unmeasured(each) for each in problems}
        self._found = {**asked, **{key: one for key, one in there.items() if key not in asked}}

    def run(self, tasks: Sequence[_Task]) -> Baseline:
        """Measure; see `measure_baseline`."""
        self._compiles = any(name in COMPILED for task in tasks for name in task.settings)
        queue = iter(tasks)
        jobs = max(1, min(self._effort.jobs, len(tasks)))
        with ThreadPoolExecutor(jobs, thread_name_prefix="baseline") as threads:
            workers = [threads.submit(self._work, queue, jobs) for _ in range(jobs)]
            try:
                for worker in workers:
                    worker.result()
            except BaseException:
                self._give_up()
                raise
        return self._baseline()

    def _work(self, queue: Iterator[_Task], jobs: int) -> None:
        """Measure one task after the other, until none is left or the time is over."""
        task = self._next(queue)
        if task is None:
            return
        try:
            with measurer(self._kind, jobs, self._left_s(), compiles=self._compiles) as process:
                with self._lock:
                    self._processes.append(process)
                while task is not None:
                    answers = self._measure(process, task, jobs)
                    if answers is None:
                        return
                    self._put(task, answers)
                    task = self._next(queue)
        except BaseException:
            self._has_failed = True
            raise

    def _give_up(self) -> None:
        """Measure nothing more, and end what is being measured: Ctrl-C, or an error."""
        self._has_failed = True
        with self._lock:
            for process in self._processes:
                process.terminate()

    def _next(self, queue: Iterator[_Task]) -> _Task | None:
        with self._lock:
            return None if self._is_over() else next(queue, None)

    def _is_over(self) -> bool:
        left_s = self._left_s()
        return self._has_failed or (left_s is not None and left_s <= 0)

    def _left_s(self) -> float | None:
        return None if self._end is None else self._end - time.monotonic()

    def _measure(
        self, process: subprocess.Popen[bytes], task: _Task, jobs: int
    ) -> list[dict[str, Any]] | None:
        """Let a process measure; None where the time was over before it was done."""
        request = {
            "source": task.problem.source,
            "precision": task.problem.precision,
            "device": self._kind,
            "settings": list(task.settings),
            "seed": _SEED,
            "cpus": list(self._cpus),
            "budget_s": self._effort.budget_s,
            "deadline_s": self._effort.deadline_s,
            "gate": gate_name(self._kind),
            "beside": jobs > 1,
        }
        try:
            return list(ask(process, request))
        except EvaluatorError:
            if self._is_over():
                return None
            raise

    def _put(self, task: _Task, answers: Sequence[dict[str, Any]]) -> None:
        with self._lock:
            if self._has_failed:
                return
            for answer in answers:
                if "device" in answer:
                    self._meet(answer["device"])
            rows = _rows(task.settings, answers)
            before = self._found[task.problem.key]
            self._found[task.problem.key] = with_settings(before, rows)
            self._progress(self._baseline(), replace(before, settings=rows))

    def _meet(self, device: dict[str, Any]) -> None:
        """Note where a process has measured; at the first one, compare with what is known."""
        is_first, self._device = not self._device, device
        if is_first and self._known is not None:
            try:
                check_same(self._known, self._baseline())
            except ConfigError:
                self._has_failed = True
                raise

    def _baseline(self) -> Baseline:
        problems = tuple(one for one in self._found.values() if one.settings)
        if self._known is not None and not self._device:
            return replace(self._known, problems=problems)
        return Baseline(
            kind=self._kind,
            device=self._device.get("name") or fingerprint(len(self._cpus)).name,
            threads=len(self._cpus),
            scale=self._scale,
            versions=self._device.get("versions", {}),
            date=datetime.now(UTC).date().isoformat(),
            problems=problems,
        )


def _unmeasured(problem: Problem) -> ProblemBaseline:
    return ProblemBaseline(
        key=problem.key, level=problem.level, id=problem.id, name=problem.name, settings=()
    )


def _rows(settings: Sequence[str], answers: Sequence[dict[str, Any]]) -> tuple[Setting, ...]:
    """Put the answers of a process together; what is missing gets the reason of the end."""
    rows = {answer["setting"]: answer for answer in answers if "setting" in answer}
    doing = [answer["doing"] for answer in answers if "doing" in answer]
    end = answers[-1]
    missing = f"{end['end']} while {doing[-1] if doing else 'starting'}: {end['detail']}"
    return tuple(
        Setting(**rows[name]) if name in rows else Setting(setting=name, log=missing)
        for name in settings
    )
