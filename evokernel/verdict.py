"""One verdict: a candidate judged on fresh secret inputs, and every process ended."""

from __future__ import annotations

from archives.candidate import Candidate
from archives.evaluation import Evaluation
from evaluator.evaluator import EvaluationRequest, Evaluator, Purpose
from problems.problem import Problem

__all__ = ["judge_once"]


async def judge_once(
    problem: Problem, source: str, evaluator: Evaluator | None = None, *, device: str = "cpu"
) -> Evaluation:
    """Start an evaluator, judge a candidate with the certainty of a verification, and close.

    Args:
        problem: The problem.
        source: Text of the candidate.
        evaluator: Whoever measures; None: a referee in this process.
        device: What that measures on: "cpu" or "cuda".

    Raises:
        ProblemError: The problem does not load or run.
        EvaluatorError: There is no verdict.
    """
    if evaluator is None:
        from evaluator.local import LocalEvaluator

        evaluator = LocalEvaluator(device=device)
    request = EvaluationRequest(
        problem=problem,
        candidate=Candidate.of(problem.key, source),
        purpose=Purpose.VERIFY,
    )
    try:
        await evaluator.start()
        return await evaluator.evaluate(request)
    finally:
        await evaluator.close()
