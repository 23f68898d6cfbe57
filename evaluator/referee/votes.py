"""What check sets are good for: the errors permitted on them, and which of them prove anything."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from evaluator.referee.arrays import Array
from evaluator.referee.correctness import Bound, Expected, bound_of, null_passes
from evaluator.referee.inputs import COMMON_VARIANTS
from problems.errors import ProblemError

__all__ = [
    "bounds_by_variant",
    "draws_for_bounds",
    "require_vote",
    "steady_variants",
    "timed_bounds",
    "voids_of",
]

TIMED_SLACK = 2.0
"""Timed outputs are compared with the reference's own precision, whose error adds to theirs."""
PEAK_SLACK = 8.0
"""The same for the largest error of other distributions, which differs from draw to draw. What was
not computed is off by far more."""
MANY_ELEMENTS = 4096
MANY_SLACK = 1.25
"""The same for the root mean square of so many elements, which is much the same for all contents.

Source: the triangle inequality. The reference errs by a sixteenth of the bound at most
    (`correctness.bound_of`), which makes 1.06; a product in TF32 would pass at 2.
"""
FEW_ELEMENTS = 64
FEW_DRAWS = 3
"""The error of an output of one element is a single number, which is near zero by luck: one in 25
is less than a sixteenth of another one, and one in 8,000 is where the largest of three counts.

Source: two normal errors a, b of one spread: P(|b| < |a| / 16) = 2 / pi x atan(1 / 16).
"""
STEADY = 3.0
"""How many times as large the bound of a distribution may be as those of the own one and of that
with outliers, to be one of timed sets."""


def draws_for_bounds(sizes: Sequence[int]) -> int:
    """Return how many sets of a distribution tell what the reference errs by.

    Args:
        sizes: Elements of each output.
    """
    return FEW_DRAWS if any(size < FEW_ELEMENTS for size in sizes) else 1


def bounds_by_variant(
    drawn: Sequence[tuple[str, tuple[Expected, ...]]],
) -> dict[str, tuple[Bound, ...]]:
    """Return the bounds of each distribution: from the reference's worst error over its sets.

    Args:
        drawn: Variant and expected outputs of each set; only their deviations are read.
    """
    bounds = {}
    for variant in {variant for variant, _ in drawn}:
        sets = [expected for one, expected in drawn if one == variant]
        bounds[variant] = tuple(
            bound_of([output.deviation for output in outputs], outputs[0].own.dtype)
            for outputs in zip(*sets, strict=True)
        )
    return bounds


def steady_variants(
    permitted: Sequence[str], bounds: Mapping[str, Sequence[Bound]]
) -> tuple[str, ...]:
    """Return the distributions on which a reference errs about as little as on its own.

    Where it errs more, such as a softmax of large numbers, its error differs from draw to draw, and
    the bound that one draw gave says little of others: an honest timed output could exceed it.

    Args:
        permitted: Distributions that timed sets may be of, "own" and maybe "spiked" among them.
        bounds: Of each distribution, for each output.
    """
    usual = [bounds[one] for one in COMMON_VARIANTS]
    return tuple(
        variant
        for variant in permitted
        if all(
            bound.rms <= STEADY * max(one.rms for one in among)
            and bound.peak <= STEADY * max(one.peak for one in among)
            for bound, *among in zip(bounds[variant], *usual, strict=True)
        )
    )


def timed_bounds(
    bounds: Mapping[str, Sequence[Bound]], variant: str, sizes: Sequence[int]
) -> tuple[Bound, ...]:
    """Return the errors permitted of timed outputs against the own-precision reference.

    The own and the spiked distribution count for each: some inputs stay of the own one where others
    are varied, and the spiked set is the one with hidden weights, which timed calls have.

    Args:
        bounds: Of each distribution, for each output.
        variant: The distribution that the inputs are of.
        sizes: Elements of each output.
    """
    known = [bounds[one] for one in (*COMMON_VARIANTS, variant)]
    peak_slack = TIMED_SLACK if variant == "own" else PEAK_SLACK
    return tuple(
        Bound(
            rms=(TIMED_SLACK if size < MANY_ELEMENTS else MANY_SLACK) * max(b.rms for b in among),
            peak=peak_slack * max(b.peak for b in among),
        )
        for *among, size in zip(*known, sizes, strict=True)
    )


def voids_of(
    expected: Sequence[Expected],
    bounds: Sequence[Bound],
    inputs: Sequence[Array],
    other_means: Sequence[Sequence[float]],
) -> tuple[str | None, ...]:
    """Return for each output of a set what would pass without computing anything, or None.

    Args:
        expected: What each output should be.
        bounds: The error permitted for each output.
        inputs: The set's inputs.
        other_means: For each other set the mean of each output.
    """
    return tuple(
        null_passes(output, bound, inputs, constants)
        for output, bound, constants in zip(
            expected, bounds, zip(*other_means, strict=True), strict=True
        )
    )


def require_vote(label: str, votes: Sequence[Sequence[str | None]]) -> None:
    """Require for each output a set on which only computing it passes.

    Args:
        label: Of the problem.
        votes: For each set what `voids_of` says.

    Raises:
        ProblemError: There is none: the problem cannot be judged.
    """
    for number, voids in enumerate(zip(*votes, strict=True)):
        if None not in voids:
            found = " or ".join(sorted(void for void in set(voids) if void is not None))
            raise ProblemError(
                f"problem {label} cannot be judged (null_gate): {found} would pass for output "
                f"{number} on every input set: change its inputs"
            )
