"""EvoKernel: evolutionary search for fast kernels.

    import evokernel
    evaluation = evokernel.evaluate(reference_source, candidate_source)
    report = evokernel.run(level=1, problems="19", generations=2)

Names load on first use, so that importing the package stays cheap.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from evokernel.api import evaluate, replay, resume, run
    from problems.errors import (
        ConfigError,
        EvaluatorError,
        EvoKernelError,
        OperatorError,
        ProblemError,
        StoreError,
        WorkerDied,
        WorkerTimeout,
    )

__all__ = [
    "ConfigError",
    "EvaluatorError",
    "EvoKernelError",
    "OperatorError",
    "ProblemError",
    "StoreError",
    "WorkerDied",
    "WorkerTimeout",
    "__version__",
    "evaluate",
    "replay",
    "resume",
    "run",
]

__version__ = "0.1.0"

_HOMES = {
    name: "problems.errors" for name in __all__ if name.endswith(("Error", "Died", "Timeout"))
}
_HOMES |= dict.fromkeys(("evaluate", "replay", "resume", "run"), "evokernel.api")


def __getattr__(name: str) -> Any:  # noqa: ANN401 - a module attribute may be anything
    if name not in _HOMES:
        raise AttributeError(f"module 'evokernel' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
