"""One verdict: a candidate judged on fresh secret inputs, and every process ended."""

from __future__ import annotations

from pathlib import Path

from archives.candidate import Candidate
from archives.evaluation import DeviceFingerprint, Evaluation
from evaluator.evaluator import EvaluationRequest, Evaluator, Purpose
from evokernel.baseline_file import load_baseline
from evokernel.baseline_shelf import baseline_for
from evokernel.baselines import Baseline, check_device
from evokernel.matching import Matching
from problems.problem import Problem

__all__ = ["judge_once"]


async def judge_once(
    problem: Problem,
    source: str,
    evaluator: Evaluator | None = None,
    *,
    device: str = "cpu",
    baseline: Path | None = None,
) -> Evaluation:
    """Start an evaluator, judge a candidate with the certainty of a verification, and close.

    On a GPU the verdict also says what share of the device's ceiling was reached and, where a
    baseline of the device is known, how the candidate stands against torch's other settings.

    Args:
        problem: The problem.
        source: Text of the candidate.
        evaluator: Whoever measures; None: a referee in this process.
        device: What that measures on: "cpu" or "cuda".
        baseline: File of `evokernel baseline`; None: one of the device, if known.

    Raises:
        ConfigError: The baseline cannot be read, or is one of another device or version.
        ProblemError: The problem does not load or run.
        EvaluatorError: There is no verdict.
    """
    if evaluator is None:
        from evaluator.local import LocalEvaluator

        evaluator = LocalEvaluator(device=device, rate=device == "cuda")
    request = EvaluationRequest(
        problem=problem,
        candidate=Candidate.of(problem.key, source),
        purpose=Purpose.VERIFY,
    )
    try:
        capacity = await evaluator.start()
        matching = Matching(baseline=_baseline(capacity.device, problem, baseline))
        return matching.complete(problem, await evaluator.evaluate(request))
    finally:
        await evaluator.close()


def _baseline(device: DeviceFingerprint, problem: Problem, given: Path | None) -> Baseline | None:
    """The file that was named, or what is known of the device."""
    if given is None:
        return baseline_for(device, [problem])
    found = load_baseline(given)
    check_device(found, device)
    return found
