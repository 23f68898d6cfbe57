"""Variants for `ablation.py`: the full search, and what is taken away from it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from archives.descriptors import DEFAULT_AXES
from evokernel.config import RunConfig, resolve

FULL = "full search"
_CHILDREN = 16
"""Of a generation: 4 islands x 4 proposals, the default."""
_OPERATORS = ("sketch", "tune", "splice", "rewrite")


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """One way to search.

    Attributes:
        operators: Those that are used, beside the reference.
        settings: What else differs from the full search, as for `--set`.
        device: The only kind of device on which it differs at all; "": any.
    """

    operators: tuple[str, ...] = _OPERATORS
    settings: tuple[str, ...] = ()
    device: str = ""


def _axes(*names: str) -> str:
    return f"archive.axes={json.dumps(names)}"


VARIANTS: Mapping[str, Variant] = {
    FULL: Variant(),
    # An island breeds from as many candidates as it has elites with an archive, or a few more.
    "best-first, no archive": Variant(settings=(_axes("none"), "archive.pool=8")),
    "no islands": Variant(
        settings=(
            "search.islands=1",
            f"search.proposals={_CHILDREN}",
            "search.initial=8",
            "search.migration_interval=0",
        )
    ),
    "no splice": Variant(operators=("sketch", "tune", "rewrite")),
    "no rewrite": Variant(operators=("sketch", "tune", "splice"), device="cuda"),
    # Each program comes once, at its own point; all others are found by tuning.
    "tune only": Variant(
        operators=("sketch", "tune"), settings=("operators.settings.sketch.repeats=0",)
    ),
    "random configurations": Variant(operators=("sketch",), settings=('search.mode="best-of-n"',)),
    **{
        f"no axis {name}": Variant(settings=(_axes(*(n for n in DEFAULT_AXES if n != name)),))
        for name in DEFAULT_AXES
    },
}
"""By name; the first one is what the others are held against."""


def config_of(variant: str, seed: int, evaluations: int) -> RunConfig:
    """Return the configuration of a search.

    Every evaluation is that of one point: variants that try several points for each proposal and
    variants that do not could not be compared otherwise.
    """
    chosen = VARIANTS[variant]
    single = [
        f"operators.settings.{name}.configurations=1"
        for name in chosen.operators
        if name != "rewrite"
    ]
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
