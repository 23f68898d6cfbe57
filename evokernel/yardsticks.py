"""Measure a baseline: torch's own times, problem by problem, on the device at hand."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import IO, Any

from evaluator.gate import Gate
from evaluator.processes import worker_environment
from evaluator.referee.device import core_sets, fingerprint
from evokernel.baselines import Baseline, ProblemBaseline, Setting
from problems.errors import EvaluatorError
from problems.problem import Problem

__all__ = ["Effort", "measure_baseline"]

_SEED = 20260101
_CPU_VARIABLES = (
    "OMP_WAIT_POLICY",
    "GLIBC_TUNABLES",
    "MALLOC_MMAP_MAX_",
    "MALLOC_TRIM_THRESHOLD_",
    "MALLOC_TOP_PAD_",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How much time a baseline may take.

    Attributes:
        budget_s: Seconds of timed calls for each setting of each problem.
        deadline_s: Seconds for each problem, all settings together; then the next one follows.
    """

    budget_s: float = 0.4
    deadline_s: float = 300.0


def measure_baseline(
    problems: Sequence[Problem],
    kind: str,
    settings: Sequence[str],
    *,
    effort: Effort | None = None,
    progress: Callable[[ProblemBaseline], None] = lambda done: None,
) -> Baseline:
    """Measure torch on problems, each in a process of its own, one after the other.

    Args:
        problems: At least one, all at the same scale.
        kind: "cuda" or "cpu".
        settings: Which ways to measure; see `Setting`.
        effort: How much time it may take.
        progress: Called with each problem as it is done.

    Raises:
        EvaluatorError: The measuring process does not start, or dies.
    """
    effort = effort or Effort()
    cpus = core_sets().timed if kind == "cpu" else ()
    found: list[ProblemBaseline] = []
    device: dict[str, Any] = {}
    with _measurer(kind) as process:
        for problem in problems:
            request = {
                "source": problem.source,
                "precision": problem.precision,
                "device": kind,
                "settings": list(settings),
                "seed": _SEED,
                "cpus": list(cpus),
                "budget_s": effort.budget_s,
                "deadline_s": effort.deadline_s,
            }
            with Gate(kind).exclusive():
                answers = list(_ask(process, request))
            for answer in answers:
                device = answer.get("device", device)
            found.append(_problem_baseline(problem, settings, answers))
            progress(found[-1])
    return Baseline(
        kind=kind,
        device=device.get("name") or fingerprint(len(cpus)).name,
        threads=len(cpus),
        scale=problems[0].scale.value,
        versions=device.get("versions", {}),
        date=datetime.now(UTC).date().isoformat(),
        problems=tuple(found),
    )


@contextmanager
def _measurer(kind: str) -> Iterator[subprocess.Popen[bytes]]:
    """Start the process that forks a child for each problem; end it, and its children."""
    with tempfile.TemporaryDirectory(prefix="evokernel-baseline-") as folder:
        environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": folder}
        if kind == "cpu":
            known = worker_environment()
            environment |= {name: known[name] for name in _CPU_VARIABLES}
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "evaluator.worker.yardsticks"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            cwd=folder,
        )
        try:
            yield process
        finally:
            _stream(process.stdin).close()
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            _stream(process.stdout).close()


def _ask(process: subprocess.Popen[bytes], request: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Send one request and yield what is answered, up to and including the end."""
    try:
        _stream(process.stdin).write(json.dumps(request).encode() + b"\n")
        _stream(process.stdin).flush()
    except BrokenPipeError as error:
        raise _dead(process) from error
    for line in _stream(process.stdout):
        answer = json.loads(line)
        yield answer
        if "end" in answer:
            return
    raise _dead(process)


def _dead(process: subprocess.Popen[bytes]) -> EvaluatorError:
    code = process.wait()
    return EvaluatorError(
        f"the process that measures torch ended with exit code {code}: what it printed is above; "
        "run 'evokernel doctor' to see what is missing"
    )


def _stream(stream: IO[bytes] | None) -> IO[bytes]:
    assert stream is not None, "the process was started with pipes"
    return stream


def _problem_baseline(
    problem: Problem, settings: Sequence[str], answers: Sequence[dict[str, Any]]
) -> ProblemBaseline:
    """Put the answers for a problem together; what is missing gets the reason of the end."""
    rows = {answer["setting"]: answer for answer in answers if "setting" in answer}
    doing = [answer["doing"] for answer in answers if "doing" in answer]
    end = answers[-1]
    missing = f"{end['end']} while {doing[-1] if doing else 'starting'}: {end['detail']}"
    return ProblemBaseline(
        key=problem.key,
        level=problem.level,
        id=problem.id,
        name=problem.name,
        settings=tuple(
            Setting(**rows[name]) if name in rows else Setting(setting=name, log=missing)
            for name in settings
        ),
    )
