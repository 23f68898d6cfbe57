"""Variants for `ablation.py`: the full search, and what is taken away from it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from archives.descriptors import DEFAULT_AXES
from evokernel.config import RunConfig, resolve

FULL = "full search"
STEADY = "full, no restarts"
LEFT_OUT = (
    "The full search is what a table can answer: it tries one point for each evaluation. Left out "
    "are several configurations for each proposal, the compiler, transfer between problems, "
    "language models, and verification. Rewriting is not tested on a CPU."
)
"""What the full search here has less than that of a run."""
_CHILDREN = 16
"""Of a generation: 4 islands x 4 proposals, the default."""
_OPERATORS = ("sketch", "tune", "splice")
_NO_RESTARTS = "search.stagnation=100000"


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """One way to search.

    Attributes:
        note: Everything in which it differs from what it is held against, for people.
        operators: Those that are used, beside the reference.
        settings: What else differs from the full search, as for `--set`.
        against: Name of the variant that it is held against.
    """

    note: str
    operators: tuple[str, ...] = _OPERATORS
    settings: tuple[str, ...] = ()
    against: str = FULL


def _axes(*names: str) -> str:
    return f"archive.axes={json.dumps(names)}"


VARIANTS: Mapping[str, Variant] = {
    FULL: Variant(note="islands, an archive, sketch, tune and splice"),
    # A restart takes an island back to its founders, and how often one stagnates depends on what
    # counts as a gain: with other cells, or fewer islands, another number of times.
    STEADY: Variant(
        note="islands keep their ways and never restart",
        settings=(_NO_RESTARTS,),
    ),
    "no archive": Variant(
        note="each island breeds from its one best, so that there is no second parent to splice",
        settings=(_axes("none"), _NO_RESTARTS),
        against=STEADY,
    ),
    # An island breeds from as many candidates as it has elites with an archive, or a few more.
    "best-first, no archive": Variant(
        note="each island breeds from its best 8, always from the very best first: its greed is 1, "
        "not 0.1 to 0.8",
        settings=(_axes("none"), "archive.pool=8", _NO_RESTARTS),
        against=STEADY,
    ),
    "no islands": Variant(
        note=f"one island with {_CHILDREN} children in balanced ways: no climber, scout or mixer",
        settings=(
            "search.islands=1",
            f"search.proposals={_CHILDREN}",
            "search.initial=8",
            "search.migration_interval=0",
            _NO_RESTARTS,
        ),
        against=STEADY,
    ),
    "no splice": Variant(note="its share goes to the others", operators=("sketch", "tune")),
    "tune only": Variant(
        note="no splice; each program comes once, at its own point, all others by tuning",
        operators=("sketch", "tune"),
        settings=("operators.settings.sketch.repeats=0",),
    ),
    "random configurations": Variant(
        note="independent points of the sketches",
        operators=("sketch",),
        settings=('search.mode="best-of-n"',),
    ),
    **{
        f"no axis {name}": Variant(
            note="a grid of two axes: fewer cells to gain, so that islands restart more often",
            settings=(_axes(*(n for n in DEFAULT_AXES if n != name)),),
        )
        for name in DEFAULT_AXES
    },
}
"""By name; the first one is what most others are held against."""


def config_of(variant: str, seed: int, evaluations: int) -> RunConfig:
    """Return the configuration of a search.

    Every evaluation is that of one point: variants that try several points for each proposal and
    variants that do not could not be compared otherwise.
    """
    chosen = VARIANTS[variant]
    single = [f"operators.settings.{name}.configurations=1" for name in chosen.operators]
    return resolve(
        settings=[
            f"rng_seed={seed}",
            f"budget.max_evaluations={evaluations}",
            # More than are ever needed: the evaluations are what ends a search.
            f"search.generations={evaluations}",
            "search.stop_at_ceiling=false",
            "evaluation.verify=false",
            "evaluation.failures=1000",
            f"operators.use={json.dumps(chosen.operators)}",
            *single,
            *chosen.settings,
        ]
    )
