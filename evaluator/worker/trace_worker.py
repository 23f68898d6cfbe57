"""The trace worker: the operator graph of a problem, on meta tensors, and what it is good for."""

from __future__ import annotations

from typing import Any

from archives.evaluation import Status
from evaluator.worker.failures import Failure, describe
from evaluator.worker.linting import look_at
from evaluator.worker.serve import Handler
from problems.errors import ProblemError
from problems.trace import trace

__all__ = ["TraceWorker"]


class TraceWorker:
    """Serves the ops of a trace worker."""

    def __init__(self) -> None:
        self.handlers: dict[str, Handler] = {"trace": self._trace, "lint": self._lint}

    def explain(self, error: Exception, request: dict[str, Any]) -> Failure:
        """Turn what the problem's code raised into a failure."""
        del request
        if isinstance(error, ProblemError):
            return Failure(Status.BUILD_ERROR, "problem_invalid", str(error))
        return describe(error, file="", status=Status.BUILD_ERROR, reason="problem_raised")

    def _trace(self, request: dict[str, Any]) -> dict[str, Any]:
        return {"graph": trace(request["source"], request["precision"]).to_json()}

    def _lint(self, request: dict[str, Any]) -> dict[str, Any]:
        flaws, remarks = look_at(request)
        return {"flaws": flaws, "remarks": remarks}
