"""Is an output right? Raw bytes against float64, in chunks, with numpy alone.

Every element is read once into memory of our own before it is judged, so that a process that
still holds the bytes cannot change them between two tests.

Covered: shape, dtype, NaN and infinity masks, the root mean
square error and the largest error, both relative to the root mean square (RMS) of the expected
output. Integer and boolean outputs must be equal, but for indices of tied values where the values
are at hand (`indices`).
Not covered: an error smaller than the bound in each of the hidden input distributions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from archives.evaluation import Status
from evaluator.referee.arrays import Array, Shaped, filled, is_float, narrow
from evaluator.referee.indices import Indices

__all__ = [
    "Bound",
    "Deviation",
    "Expected",
    "Mismatch",
    "Turn",
    "bound_of",
    "compare",
    "deviation",
    "finite_mean",
    "judge",
    "mismatch_of_spec",
    "null_passes",
]

Turn = AbstractContextManager[object]
"""Entered for each chunk: holds a comparing thread back while another thread's clock runs."""

NO_TURN: Turn = nullcontext()

Floats = NDArray[np.floating[Any]]

CHUNK = 65536
_PERMITTED = {"float16": (4.0, 4.0), "bfloat16": (4.0, 4.0)}
_PERMITTED_ELSE = (16.0, 8.0)
"""Times the reference's own error, and roundings where that happens to be exact. Honest in-order
float32 sums reach 16 times torch's error; half precisions are summed in float32."""
UNIT_ROUNDOFF = {"float64": 2.0**-53, "float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}
LARGEST = {
    "float64": 1.8e308,
    "float32": 3.4028236e38,
    "float16": 65520.0,
    "bfloat16": 3.3961776e38,
}
MAX_FREE_SHARE = 0.1
"""Share of elements beyond the reference's own range from which on a set proves nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deviation:
    """How far one output is from what was expected.

    Attributes:
        rms: Root mean square error over the RMS of the expected output.
        peak: Largest error over the RMS of the expected output.
        scale: RMS of the expected output, over its finite elements.
        highest: Largest finite magnitude of the expected output over `scale`.
        wrong_class: Elements that are NaN or infinite where they should not be, or the reverse.
        free: Share of elements that the reference itself cannot represent: not judged.
        first: Flat index of the first element of a wrong class, or of the largest error.
    """

    rms: float
    peak: float
    scale: float
    highest: float
    wrong_class: int
    free: float
    first: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """What the reference computed for one output of one input set.

    Attributes:
        exact: The output in float64; for integers, the plain output.
        own: The output in the problem's own precision.
        deviation: How far `own` is from `exact`.
    """

    exact: Array
    own: Array
    deviation: Deviation

    @classmethod
    def of(cls, exact: Array, own: Array) -> Expected:
        """Measure the reference's own error along the way."""
        return cls(exact=exact, own=own, deviation=deviation(own, exact, own))


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """The errors that are permitted, relative to the RMS of the expected output."""

    rms: float
    peak: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Mismatch:
    """Why an output is wrong.

    Attributes:
        status: `WRONG_SHAPE`, `WRONG_DTYPE` or `WRONG_VALUE`.
        reason: Stable code.
        log: One sentence for the author.
    """

    status: Status
    reason: str
    log: str


def mismatch_of_spec(outputs: Sequence[Shaped], expected: Sequence[Shaped]) -> Mismatch | None:
    """Compare number, shapes and dtypes of the outputs, not their values."""
    if len(outputs) != len(expected):
        log = f"forward returned {len(outputs)} tensor(s), the reference returns {len(expected)}."
        return Mismatch(status=Status.WRONG_SHAPE, reason="wrong_output_count", log=log)
    for number, (got, want) in enumerate(zip(outputs, expected, strict=True)):
        if got.shape != want.shape:
            log = f"output {number} has shape {list(got.shape)}, expected {list(want.shape)}."
            return Mismatch(status=Status.WRONG_SHAPE, reason="wrong_shape", log=log)
        if got.dtype != want.dtype:
            log = f"output {number} has dtype {got.dtype}, expected {want.dtype}."
            return Mismatch(status=Status.WRONG_DTYPE, reason="wrong_dtype", log=log)
    return None


def compare(
    got: Array, expected: Expected, bound: Bound, turn: Turn = NO_TURN
) -> tuple[Deviation, Mismatch | None]:
    """Judge one output whose shape and dtype are right.

    Args:
        got: The candidate's output.
        expected: What the reference computed.
        bound: The errors permitted.
        turn: Entered for each chunk.

    Returns:
        How far off it is, and why that is wrong, or None where it is right.
    """
    found = deviation(got, expected.exact, expected.own, expected.deviation, turn)
    return found, judge(found, bound)


def judge(found: Deviation, bound: Bound) -> Mismatch | None:
    """Say why a deviation is too large, or None where it is permitted."""
    if found.wrong_class:
        log = (
            f"{found.wrong_class} element(s) are NaN, infinite or unequal where the reference is "
            f"not, first at flat index {found.first}."
        )
        return Mismatch(status=Status.WRONG_VALUE, reason="wrong_value", log=log)
    if found.rms <= bound.rms and found.peak <= bound.peak:
        return None
    log = (
        f"error against float64, relative to the output's RMS {found.scale:.4g}: rms "
        f"{found.rms:.3g} (permitted {bound.rms:.3g}), largest {found.peak:.3g} (permitted "
        f"{bound.peak:.3g}) at flat index {found.first}."
    )
    return Mismatch(status=Status.WRONG_VALUE, reason="wrong_value", log=log)


def bound_of(owns: Sequence[Deviation], dtype: str) -> Bound:
    """Derive the bound of one input distribution from the reference's own errors.

    Args:
        owns: The own-precision reference against float64, for each seed of the distribution.
        dtype: The output's dtype.

    Source: docs/decisions/0006: max(16 x own error, 8 x unit roundoff x scale), of 16-bit outputs
        four times either; the scale of the largest error's floor is the largest magnitude.
    """
    if not is_float(dtype):
        return Bound(rms=0.0, peak=0.0)
    factor, roundings = _PERMITTED.get(dtype, _PERMITTED_ELSE)
    floor = roundings * UNIT_ROUNDOFF[dtype]
    return Bound(
        rms=max([floor, *(factor * own.rms for own in owns)]),
        peak=max([floor, *(max(factor * own.peak, floor * own.highest) for own in owns)]),
    )


class _Tally:
    """Sums over the chunks of one output."""

    def __init__(self, known: Deviation | None) -> None:
        self.known = known
        self.squares = self.expected_squares = 0.0
        self.worst = self.highest = 0.0
        self.counted = self.free = self.wrong = 0
        self.first_wrong = self.worst_at = 0

    def add_wrong(self, wrong: NDArray[np.bool_], start: int) -> None:
        count = int(np.count_nonzero(wrong))
        if count and not self.wrong:
            self.first_wrong = start + int(np.argmax(wrong))
        self.wrong += count

    def add_errors(self, error: Floats, squares: float, exact: Floats, start: int) -> None:
        self.squares += squares
        worst = max(float(error.max()), -float(error.min()))
        if worst > self.worst:
            self.worst, self.worst_at = worst, start + int(np.argmax(np.abs(error)))
        self.counted += len(error)
        if self.known is None:
            self.expected_squares += _squares(exact)
            self.highest = max(self.highest, float(exact.max()), -float(exact.min()))

    def result(self, numel: int) -> Deviation:
        if self.known is None:
            scale = math.sqrt(self.expected_squares / self.counted) if self.counted else 0.0
            highest = _over(self.highest, scale)
        else:
            scale, highest = self.known.scale, self.known.highest
        rms = math.sqrt(self.squares / self.counted) if self.counted else 0.0
        return Deviation(
            rms=_over(rms, scale),
            peak=_over(self.worst, scale),
            scale=scale,
            highest=highest,
            wrong_class=self.wrong,
            free=self.free / numel if numel else 0.0,
            first=self.first_wrong if self.wrong else self.worst_at,
        )


def _squares(values: Floats) -> float:
    """Sum of squares; not by BLAS, whose threads would disturb what is being timed.

    In float32 where that suffices: an infinite scale would permit any error.
    """
    with np.errstate(over="ignore"):
        found = float(np.einsum("i,i->", values, values))
    is_lost = not math.isfinite(found) and values.dtype != np.float64
    return _squares(values.astype(np.float64)) if is_lost else found


def _over(value: float, scale: float) -> float:
    if 0 < scale < math.inf:
        return value / scale
    return 0.0 if value == 0 else math.inf


def deviation(
    got: Array, exact: Array, own: Array, known: Deviation | None = None, turn: Turn = NO_TURN
) -> Deviation:
    """Measure how far an output is from float64, 64K elements at a time.

    Where the own-precision reference overflows or turns NaN and float64 does not, an element is
    *free*: nobody could get it right in that precision.

    Args:
        got: The output to judge.
        exact: The float64 output of the reference; for integers, its plain output.
        own: The reference's output in its own precision.
        known: An earlier result for the same expected output: its scale is taken over.
        turn: Entered for each chunk; holds this thread back while a clock runs.
    """
    tally = _Tally(known)
    numel = got.numel
    if not is_float(got.dtype):
        for start in range(0, numel, CHUNK):
            with turn:
                tally.add_wrong(_unequal(got, exact, start), start)
        tally.counted = 1
        return tally.result(numel)
    # Two float32 outputs are compared in float32: their difference is exact where they are close.
    both_single = got.dtype == exact.dtype == "float32"
    size = min(CHUNK, numel)
    buffer: Floats = np.empty(size, np.float32) if both_single else np.empty(size, np.float64)
    for start in range(0, numel, CHUNK):
        with turn:
            _add_chunk(tally, (got, exact, own), start, buffer)
    return tally.result(numel)


def _unequal(got: Array, exact: Array, start: int) -> NDArray[np.bool_]:
    """Which elements of a chunk are wrong: unequal, and no index of a tied value either."""
    values = got.chunk(start, CHUNK)
    wrong: NDArray[np.bool_] = values != exact.peek(start, CHUNK)
    if isinstance(exact, Indices) and wrong.any():
        (at,) = np.nonzero(wrong)
        wrong[at] = ~exact.tied(start + at, values[at])
    return wrong


def _add_chunk(
    tally: _Tally, arrays: tuple[Array, Array, Array], start: int, buffer: Floats
) -> None:
    got, exact, _ = arrays
    values = narrow(got, start, CHUNK)
    wanted = exact.peek(start, CHUNK) if exact.dtype == "float64" else narrow(exact, start, CHUNK)
    error = buffer[: len(values)]
    with np.errstate(invalid="ignore", over="ignore"):
        np.subtract(values, wanted, out=error, dtype=error.dtype)
        squares = _squares(error)
    # A finite sum of squares means that every element is finite: the common case.
    if math.isfinite(squares):
        tally.add_errors(error, squares, cast("Floats", wanted), start)
    else:
        _add_special(tally, values.astype(np.float64), arrays, start)


def _add_special(
    tally: _Tally, values: NDArray[np.float64], arrays: tuple[Array, Array, Array], start: int
) -> None:
    """Account for a chunk that holds NaN or infinities somewhere."""
    got, exact, own = arrays
    wanted = narrow(exact, start, CHUNK).astype(np.float64)
    largest = LARGEST[got.dtype]
    rounded = np.where(np.abs(wanted) >= largest, np.copysign(np.inf, wanted), wanted)
    free = _classes(narrow(own, start, CHUNK).astype(np.float64)) != _classes(rounded)
    tally.add_wrong((_classes(values) != _classes(rounded)) & ~free, start)
    tally.free += int(np.count_nonzero(free))
    judged = np.isfinite(rounded) & np.isfinite(values) & ~free
    if judged.any():
        kept = np.where(judged, wanted, 0.0)
        error = np.where(judged, values, 0.0) - kept
        tally.add_errors(error, _squares(error), kept, start)
        tally.counted -= int(np.count_nonzero(~judged))


def _classes(values: NDArray[np.float64]) -> NDArray[np.int8]:
    """Class of each element: 0 finite, 1 NaN, 2 plus infinity, 3 minus infinity."""
    classes = np.zeros(values.shape, dtype=np.int8)
    classes[np.isnan(values)] = 1
    classes[values == np.inf] = 2
    classes[values == -np.inf] = 3
    return classes


def null_passes(
    expected: Expected, bound: Bound, inputs: Sequence[Array], constants: Sequence[float]
) -> str | None:
    """Name what would pass without computing anything: "zeros", "constant", "input3", or None.

    A set on which that holds has no vote: being right there proves nothing.

    Args:
        expected: What the reference computed.
        bound: The errors permitted.
        inputs: The set's inputs: one of them might do as the output.
        constants: Values that somebody who knows the problem but not the set could guess: the
            output's mean on other sets.
    """
    own = expected.own
    if expected.deviation is not None and expected.deviation.free > MAX_FREE_SHARE:
        return "overflow"
    for name, value in (("zeros", 0.0), *(("constant", constant) for constant in constants)):
        if _passes(filled(own.shape, own.dtype, value), expected, bound):
            return name
    for number, value_in in enumerate(inputs):
        alike = value_in.shape == own.shape and value_in.dtype == own.dtype
        if alike and _passes(value_in, expected, bound):
            return f"input{number}"
    return None


def _passes(got: Array, expected: Expected, bound: Bound) -> bool:
    """Compare, but not to the end where the first chunk alone exceeds what all may be off."""
    if is_float(got.dtype) and expected.exact.dtype == "float64":
        with np.errstate(invalid="ignore", over="ignore"):
            head, wanted = narrow(got, 0, CHUNK), expected.exact.chunk(0, CHUNK)
            squares = _squares(np.subtract(head, wanted, dtype=np.float64))
        permitted = (bound.rms * expected.deviation.scale) ** 2 * got.numel
        if math.isfinite(squares) and squares > permitted:
            return False
    return compare(got, expected, bound)[1] is None


def finite_mean(exact: Array) -> float:
    """Return the mean of the finite elements; 0 where there is none or it overflows."""
    total, count = 0.0, 0
    for start in range(0, exact.numel, CHUNK):
        values = narrow(exact, start, CHUNK)
        finite = values[np.isfinite(values)]
        with np.errstate(over="ignore", invalid="ignore"):
            total += float(finite.sum(dtype=np.float64))
        count += len(finite)
    return total / count if count and math.isfinite(total) else 0.0
