"""The lift worker: lets Inductor compile a problem's reference, and tells what it wrote."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from archives.evaluation import Status
from evaluator.worker.failures import Failure, describe
from evaluator.worker.serve import Handler

if TYPE_CHECKING:
    from evaluator.worker.lifting import Lifter

__all__ = ["LiftWorker"]


class LiftWorker:
    """Serves the ops of a lift worker."""

    def __init__(self) -> None:
        self._lifter: Lifter | None = None
        self.handlers: dict[str, Handler] = {
            "prepare": self._prepare,
            "open": self._open,
            "compile": self._compile,
            "finish": self._finish,
        }

    def explain(self, error: Exception, request: dict[str, Any]) -> Failure:
        """Turn what the problem's code raised into a failure."""
        del request
        return describe(error, file="", status=Status.BUILD_ERROR, reason="problem_raised")

    def _prepare(self, request: dict[str, Any]) -> dict[str, Any]:
        """Import what compiles, which takes seconds."""
        del request
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = os.path.join(os.environ["TMPDIR"], "inductor")
        # Not in every worker: these import what compiles.
        from torch._inductor import config

        # More than one would be processes that are started through sockets.
        config.compile_threads = 1
        return {}

    def _open(self, request: dict[str, Any]) -> dict[str, Any]:
        from evaluator.worker.lifting import Lifter

        self._lifter = Lifter(request["source"], request["precision"], request["device"])
        return {}

    def _compile(self, request: dict[str, Any]) -> dict[str, Any]:
        refused = self._opened.compile(request["name"], request["options"])
        return {"lifted": None if refused is None else refused.to_json()}

    def _finish(self, request: dict[str, Any]) -> dict[str, Any]:
        del request
        return {"lifted": self._opened.finish().to_json()}

    @property
    def _opened(self) -> Lifter:
        if self._lifter is None:
            raise Failure(Status.RUNTIME_ERROR, "not_open", "no problem is open")
        return self._lifter
