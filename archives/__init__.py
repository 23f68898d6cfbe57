"""Archives: what is known about candidates.

`archives.store.Store` and `archives.export` are imported from their modules: they bring the
database library with them, which most users of this package do without.
"""

from __future__ import annotations

from archives.attempt import Attempt, AttemptState, Slot
from archives.candidate import Candidate, Language, detect_language
from archives.configuration import (
    Configuration,
    Space,
    read_configuration,
    read_space,
    with_configuration,
    without_configuration,
)
from archives.descriptors import AXES, DEFAULT_AXES, Axis, axes_named, describe, dims_of
from archives.evaluation import (
    ConfigurationResult,
    DeviceFingerprint,
    Evaluation,
    Interval,
    KernelFacts,
    Reuse,
    Rung,
    Status,
)
from archives.grid import Addition, AddStatus, Cell, Elite, Grid, merge, objective_of
from archives.lineage import Step, ancestors, attempts_of, tree

__all__ = [
    "AXES",
    "DEFAULT_AXES",
    "AddStatus",
    "Addition",
    "Attempt",
    "AttemptState",
    "Axis",
    "Candidate",
    "Cell",
    "Configuration",
    "ConfigurationResult",
    "DeviceFingerprint",
    "Elite",
    "Evaluation",
    "Grid",
    "Interval",
    "KernelFacts",
    "Language",
    "Reuse",
    "Rung",
    "Slot",
    "Space",
    "Status",
    "Step",
    "ancestors",
    "attempts_of",
    "axes_named",
    "describe",
    "detect_language",
    "dims_of",
    "merge",
    "objective_of",
    "read_configuration",
    "read_space",
    "tree",
    "with_configuration",
    "without_configuration",
]
