"""How far an output is from what it should be, measured on the device, in chunks.

The same figures as `referee/correctness.py` takes with numpy: root mean square error and largest
error relative to the RMS of the expected output, elements of a wrong class (NaN, infinite, or
unequal integers), and elements that nobody could get right in their precision. Only these leave
the device.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass

import torch

from evaluator.wire import encode_value

__all__ = ["CHUNK", "Deviation", "finite_mean", "measure", "ties_of"]

CHUNK = 1 << 26
"""Elements that are looked at at a time: the device is done with them later than the interpreter,
and in float64 they take 512 MB."""
_SPECIAL_CHUNK = 1 << 22
"""Elements at a time where some are not finite: they take several arrays in float64."""
_LARGEST = {torch.float64: math.inf, torch.float16: 65520.0, torch.bfloat16: 3.3961776e38}
"""From where on a magnitude rounds to infinity; float32 has its own largest number."""
_LARGEST_FLOAT32 = 3.4028236e38
_NARROW = frozenset({torch.float32, torch.float16, torch.bfloat16})
_LEAST_SINGLE = 1e-12
"""Chunks whose largest magnitude is smaller are summed in float64: in float32 squares would vanish.
A square that vanishes beside a larger one is less than 1e-14 of it."""

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
        squares = float(_norm(_error(got, exact, 0, CHUNK))) ** 2
        if math.isfinite(squares) and squares > (enough * known.scale) ** 2 * numel:
            return _result(_Sums(squares=squares, counted=numel), known, numel)
    return _result(_sums(got, exact, own, scaled=known is None), known, numel)


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

    def add(self, figures: Sequence[float], start: int) -> bool:
        """Take up a chunk's figures; tell whether its largest error is the worst so far."""
        self.squares += figures[0] ** 2
        self.expected_squares += figures[2] ** 2
        self.highest = max(self.highest, figures[3])
        if figures[1] <= self.worst:
            return False
        self.worst, self.worst_at = figures[1], start
        return True


def _sums(got: torch.Tensor, exact: torch.Tensor, own: torch.Tensor, *, scaled: bool) -> _Sums:
    """Go through all chunks.

    Args:
        got: The output to judge.
        exact: The expected output.
        own: That in its own precision.
        scaled: Whether the size of what was expected is asked for, too.
    """
    sums = _Sums()
    spans = list(_spans(exact.numel()))
    rows = [
        _figures(_error(got, exact, *span), _chunk(exact, *span) if scaled else None)
        for span in spans
    ]
    worst: tuple[int, int] | None = None
    # One wait for the device; a finite sum of squares means that every element is finite.
    for span, figures in zip(spans, torch.stack(rows).tolist() if rows else [], strict=True):
        if _lost(figures):
            wanted = _wide(exact, *span)
            figures = _figures(_wide(got, *span) - wanted, wanted).tolist()
        if not math.isfinite(figures[0]):
            for start in range(span[0], sum(span), _SPECIAL_CHUNK):
                count = min(_SPECIAL_CHUNK, sum(span) - start)
                _add_special(sums, (got, exact, own), start, count)
            continue
        if sums.add(figures, span[0]):
            worst = span
        sums.counted += span[1]
    if worst is not None and sums.worst_at == worst[0]:
        sums.worst_at += int(_error(got, exact, *worst).abs().argmax())
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
    at = int(error.abs().argmax())
    if sums.add(_figures(error, kept).tolist(), start):
        sums.worst_at += at
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
    if not exact.numel():
        return 0.0
    plain = float(exact.mean(dtype=torch.float64))
    if math.isfinite(plain):
        return plain
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
    """The error of a chunk; in float32, rounded to 24 bits, where the values are no wider.

    The difference itself is taken in the wider of both types.
    """
    values, wanted = _chunk(got, start, count), _chunk(exact, start, count)
    if values.dtype not in _NARROW:
        return torch.sub(values, wanted)
    if wanted.dtype in _NARROW:
        values, wanted = values.float(), wanted.float()
    return torch.sub(values, wanted, out=values.new_empty(count, dtype=torch.float32))


def _figures(error: torch.Tensor, wanted: torch.Tensor | None) -> torch.Tensor:
    """Norm and largest magnitude of an error, and of what was expected, where that is given."""
    figures = [_norm(error), _largest(error)]
    if wanted is not None:
        figures += [_norm(wanted), _largest(wanted)]
    else:
        figures += [torch.zeros_like(figures[0])] * 2
    return torch.stack(figures)


def _lost(figures: Sequence[float]) -> bool:
    """Whether float32 lost what float64 would not: squares that vanish, or overflow beside none."""
    is_tiny = 0 < figures[1] < _LEAST_SINGLE or 0 < figures[3] < _LEAST_SINGLE
    return is_tiny or (math.isfinite(figures[1]) and not all(map(math.isfinite, figures)))


def _norm(values: torch.Tensor) -> torch.Tensor:
    """The 2-norm, summed as the values are, by halves in float32; of a wider type there is a copy.

    So a sum over a chunk is off by about 1e-6 of itself.
    """
    norm: torch.Tensor = torch.linalg.vector_norm(values, dtype=_summed_in(values))
    return norm.double()


def _largest(values: torch.Tensor) -> torch.Tensor:
    largest: torch.Tensor = torch.linalg.vector_norm(values, math.inf, dtype=_summed_in(values))
    return largest.double()


def _summed_in(values: torch.Tensor) -> torch.dtype:
    return torch.float64 if values.dtype == torch.float64 else torch.float32


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
