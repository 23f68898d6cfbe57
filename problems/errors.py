"""The exceptions of EvoKernel.

EvoKernelError
├── ConfigError (also ValueError)   an option, preset, file or flag holds a wrong value
├── ProblemError                    a problem cannot be loaded, traced or rendered
├── OperatorError                   an operator was set up wrongly
├── EvaluatorError                  the evaluator itself failed (never: a candidate failed)
│   ├── DeviceCrowded               others have the device's memory at the moment
│   ├── WorkerDied                  a trusted worker process ended early
│   └── WorkerTimeout               a trusted worker process missed its deadline
└── StoreError                      a run's store cannot be read or written

A candidate's failure is never an exception: it is an `archives.Evaluation` with a status.
The command line shows an `EvoKernelError` as one sentence, without traceback, and exits with 2.
"""

from __future__ import annotations

__all__ = [
    "ConfigError",
    "DeviceCrowded",
    "EvaluatorError",
    "EvoKernelError",
    "OperatorError",
    "ProblemError",
    "StoreError",
    "WorkerDied",
    "WorkerTimeout",
]


class EvoKernelError(Exception):
    """Root of every error that EvoKernel raises on purpose."""


class ConfigError(EvoKernelError, ValueError):
    """An option, preset, configuration file or flag holds a wrong value."""


class ProblemError(EvoKernelError):
    """A problem cannot be loaded, traced or rendered."""


class OperatorError(EvoKernelError):
    """An operator was set up wrongly."""


class EvaluatorError(EvoKernelError):
    """The evaluator itself failed; says nothing about a candidate."""


class DeviceCrowded(EvaluatorError):
    """A trusted worker process found no memory on the device, which is others' at the moment."""


class WorkerDied(EvaluatorError):
    """A trusted worker process ended before it answered."""


class WorkerTimeout(EvaluatorError):
    """A trusted worker process missed its deadline."""


class StoreError(EvoKernelError):
    """A run's store cannot be read or written."""
