"""The evaluator: what a child is worth.

`evaluator.pool.Pool` measures with Ray, `evaluator.local.LocalEvaluator` in this process; both are
imported from their modules, so that workers, which live in this package too, import neither.
"""

from evaluator.evaluator import Capacity, EvaluationRequest, Evaluator, Purpose

__all__ = ["Capacity", "EvaluationRequest", "Evaluator", "Purpose"]
