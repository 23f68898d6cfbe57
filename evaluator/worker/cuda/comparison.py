"""How far an output is from what it should be, measured on the device, in chunks.

The same figures as `referee/correctness.py` takes with numpy: root mean square error and largest
error relative to the RMS of the expected output, elements of a wrong class (NaN, infinite, or
unequal integers), and elements that nobody could get right in their precision. Only these leave
the device.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import torch

from evaluator.wire import encode_value

__all__ = ["CHUNK", "Deviation", "finite_mean", "measure", "ties_of"]

CHUNK = 1 << 24
"""Elements that are looked at at a time: widened to float64 they take 128 MB."""
_LARGEST = {torch.float64: math.inf, torch.float16: 65520.0, torch.bfloat16: 3.3961776e38}
"""From where on a magnitude rounds to infinity; float32 has its own largest number."""
_LARGEST_FLOAT32 = 3.4028236e38

Tied = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
"""Tells for flat positions and the indices found there whether they point at a tied value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deviation:
    """How far one output is from what was expected; fields as in `referee/correctness.py`."""

    rms: float
    peak: float
    scale: float
    highest: float
    wrong_class: int
    free: float
    first: int

    def to_json(self) -> object:
        """Return JSON-able data."""
        return encode_value(asdict(self))


def measure(
    got: torch.Tensor,
    exact: torch.Tensor,
    own: torch.Tensor,
    *,
    known: Deviation | None = None,
    tied: Tied | None = None,
    enough: float = math.inf,
) -> Deviation:
    """Measure how far an output is from float64.

    Args:
        got: The output to judge, of the expected shape and dtype; one element stands for an
            output that is constant.
        exact: The float64 output of the reference; for integers, its plain output.
        own: The reference's output in its own precision.
        known: An earlier result for the same expected output: its scale is taken over.
        tied: For outputs that are indices.
        enough: Root mean square error, relative to the scale that is known, beyond which the rest
            is not looked at.
    """
    got = got.contiguous()
    if not got.is_floating_point():
        return _unequal(got, exact, tied)
    numel = exact.numel()
    if known is not None and numel > CHUNK and math.isfinite(enough):
        squares = float(_error(got, exact, 0, CHUNK).square().sum())
        if math.isfinite(squares) and squares > (enough * known.scale) ** 2 * numel:
            return _result(_Sums(squares=squares, counted=numel), known, numel)
    return _result(_sums(got, exact, own), known, numel)


@dataclass(slots=True, kw_only=True)
class _Sums:
    """Sums over the chunks of one output."""

    squares: float = 0.0
    expected_squares: float = 0.0
    worst: float = 0.0
    worst_at: int = 0
    highest: float = 0.0
    counted: int = 0
    free: int = 0
    wrong: int = 0
    first_wrong: int = 0

    def add(self, values: tuple[float, ...], start: int) -> None:
        """Take up squares, expected squares, worst, where, and highest of a chunk."""
        self.squares += values[0]
        self.expected_squares += values[1]
        if values[2] > self.worst:
            self.worst, self.worst_at = values[2], start + int(values[3])
        self.highest = max(self.highest, values[4])


def _sums(got: torch.Tensor, exact: torch.Tensor, own: torch.Tensor) -> _Sums:
    sums = _Sums()
    spans = list(_spans(exact.numel()))
    rows = [_figures(_error(got, exact, *span), _wide(exact, *span)) for span in spans]
    # One wait for the device; a finite sum of squares means that every element is finite.
    figures = torch.stack(rows).tolist() if rows else []
    for (start, count), row in zip(spans, figures, strict=True):
        if math.isfinite(row[0]):
            sums.add(tuple(row), start)
            sums.counted += count
        else:
            _add_special(sums, (got, exact, own), start, count)
    return sums


def _add_special(
    sums: _Sums, tensors: tuple[torch.Tensor, torch.Tensor, torch.Tensor], start: int, count: int
) -> None:
    """Account for a chunk that holds NaN or infinities somewhere."""
    got, exact, own = tensors
    values, wanted, owned = (_wide(tensor, start, count) for tensor in (got, exact, own))
    largest = _LARGEST.get(got.dtype, _LARGEST_FLOAT32)
    rounded = torch.where(wanted.abs() >= largest, wanted.sign() * math.inf, wanted)
    free = _classes(owned) != _classes(rounded)
    wrong = (_classes(values) != _classes(rounded)) & ~free
    number = int(wrong.sum())
    if number and not sums.wrong:
        sums.first_wrong = start + int(wrong.to(torch.uint8).argmax())
    sums.wrong += number
    sums.free += int(free.sum())
    judged = rounded.isfinite() & values.isfinite() & ~free
    kept = torch.where(judged, wanted, 0.0)
    error = torch.where(judged, values, 0.0) - kept
    sums.add(tuple(_figures(error, kept).tolist()), start)
    sums.counted += int(judged.sum())


def _result(sums: _Sums, known: Deviation | None, numel: int) -> Deviation:
    if known is None:
        scale = math.sqrt(sums.expected_squares / sums.counted) if sums.counted else 0.0
        highest = _over(sums.highest, scale)
    else:
        scale, highest = known.scale, known.highest
    rms = math.sqrt(sums.squares / sums.counted) if sums.counted else 0.0
    return Deviation(
        rms=_over(rms, scale),
        peak=_over(sums.worst, scale),
        scale=scale,
        highest=highest,
        wrong_class=sums.wrong,
        free=sums.free / numel if numel else 0.0,
        first=sums.first_wrong if sums.wrong else sums.worst_at,
    )


def _unequal(got: torch.Tensor, exact: torch.Tensor, tied: Tied | None) -> Deviation:
    number, first = 0, 0
    for start, count in _spans(exact.numel()):
        values = _chunk(got, start, count)
        wrong = values != _chunk(exact, start, count)
        if tied is not None and bool(wrong.any()):
            at = wrong.nonzero().view(-1)
            wrong[at] = ~tied(at + start, values[at])
        here = int(wrong.sum())
        if here and not number:
            first = start + int(wrong.to(torch.uint8).argmax())
        number += here
    return Deviation(
        rms=0.0, peak=0.0, scale=0.0, highest=0.0, wrong_class=number, free=0.0, first=first
    )


def ties_of(exact: torch.Tensor, source: torch.Tensor, dimension: int) -> Tied:
    """Return what tells whether indices point at the same values as those expected.

    Args:
        exact: The indices expected.
        source: The input that they point into.
        dimension: Along which of its dimensions.
    """
    lines = source.movedim(dimension, -1)
    length = lines.shape[-1]

    def tied(at: torch.Tensor, got: torch.Tensor) -> torch.Tensor:
        inside = (got >= 0) & (got < length)
        places = torch.unravel_index(at, lines.shape[:-1])
        wanted = lines[(*places, exact.reshape(-1)[at])]
        found = lines[(*places, torch.where(inside, got, 0))]
        return ((found == wanted) | (found.isnan() & wanted.isnan())) & inside

    return tied


def finite_mean(exact: torch.Tensor) -> float:
    """Return the mean of the finite elements; 0 where there is none or it overflows."""
    total, count = 0.0, 0
    for span in _spans(exact.numel()):
        values = _wide(exact, *span)
        finite = values.isfinite()
        total += float(torch.where(finite, values, 0.0).sum())
        count += int(finite.sum())
    return total / count if count and math.isfinite(total) else 0.0


def _spans(numel: int) -> Iterator[tuple[int, int]]:
    """Start and size of each chunk."""
    for start in range(0, numel, CHUNK):
        yield start, min(CHUNK, numel - start)


def _chunk(tensor: torch.Tensor, start: int, count: int) -> torch.Tensor:
    """A chunk in row-major order; a single element is repeated."""
    flat = tensor.reshape(-1)
    return flat.expand(count) if len(flat) == 1 else flat[start : start + count]


def _wide(tensor: torch.Tensor, start: int, count: int) -> torch.Tensor:
    return _chunk(tensor, start, count).double()


def _error(got: torch.Tensor, exact: torch.Tensor, start: int, count: int) -> torch.Tensor:
    return _wide(got, start, count) - _wide(exact, start, count)


def _figures(error: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
    """Squares, expected squares, largest error, where that is, largest expected magnitude."""
    size = error.abs()
    at = size.argmax()
    figures: Any = (error.square().sum(), wanted.square().sum(), size[at], at, wanted.abs().amax())
    return torch.stack([figure.double() for figure in figures])


def _classes(values: torch.Tensor) -> torch.Tensor:
    """Class of each element: 0 finite, 1 NaN, 2 plus infinity, 3 minus infinity."""
    classes = values.isnan().to(torch.uint8)
    classes[values == math.inf] = 2
    classes[values == -math.inf] = 3
    return classes


def _over(value: float, scale: float) -> float:
    if scale > 0:
        return value / scale
    return 0.0 if value == 0 else math.inf
