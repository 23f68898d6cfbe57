"""Fresh input contents at about the speed of a copy: what every timed call is given.

Drawing 64 MB of random numbers takes 59 ms, copying them 4 ms. So a reservoir is drawn once, and
each set is mixed from it, inside the domain: the reservoir from a random element on, times a strip
of random factors, from a random factor on. Reservoir and strip hold millions of pairs of places,
and no linear function of such a product follows from what was computed for another pair: pieces
that are only scaled would let a candidate remember an answer for each piece, and scale that.

Covered: replay of remembered answers, scaled or not, of inputs that are real, positive,
triangular or probabilities; short cuts that are right near the own distribution alone, and taken
in timed calls alone, where outliers are permitted. Not covered: functions of masks, signs and
indices alone, whose pieces are chosen and (indices) shifted at random, but are not new.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from evaluator.worker.variants import scale_up
from problems.problem import Domain, DomainKind

__all__ = ["Reservoir"]

_CHUNK_ELEMENTS = 4096
_MIN_CHUNKS = 64
_LEAST_SCALE, _SPREAD = 0.75, 0.5
"""Elements are scaled by 0.75 to 1.25: unpredictable, and close to the own distribution."""
_STRIP_ELEMENTS = 1 << 16
"""Factors of a strip: it stays in the cache while a set is mixed."""
_OUTLYING = 4096
"""One in so many factors is an outlier, negative where the domain permits: who looks at some
elements alone to learn that all are positive, or small, is wrong when it is timed, too. Half of all
sets have none: where few outliers make up the scale of an output, all else could be off."""


class Reservoir:
    """Draws from one input's own distribution, and the mixing of new ones from their pieces.

    Args:
        draws: Values of one input, of one shape and dtype; plain numbers as they are.
        domain: What mixed values must stay inside.
    """

    def __init__(self, draws: Sequence[object], domain: Domain) -> None:
        self._numbers = [draw for draw in draws if not isinstance(draw, torch.Tensor)]
        self._domain = domain
        tensors = [draw for draw in draws if isinstance(draw, torch.Tensor)]
        self._pool = torch.stack([t.contiguous() for t in tensors]) if tensors else None
        self._strips: tuple[torch.Tensor, ...] = ()
        self._outlier = 1.0
        self._always = False

    def set_outliers(self, times: float, *, always: bool = False) -> None:
        """Scale the outliers.

        Args:
            times: How many times as large as those of the check; 0: as large as all elements.
            always: Whether every set has them, not every other one.
        """
        dtype = torch.float32 if self._pool is None else self._pool.dtype
        self._outlier = times * scale_up(dtype) if times else 1.0
        self._always = always
        self._strips = ()

    def mix(self, target: object, generator: torch.Generator) -> object:
        """Make a value never seen before.

        Args:
            target: Row-major tensor that is filled; anything else for a plain number.
            generator: Source of the randomness, on the pool's device.

        Returns:
            The target, or the plain number.
        """
        if self._pool is None or not isinstance(target, torch.Tensor):
            return self._mix_number(generator)
        if target.numel() == 0:
            return target
        kind = self._domain.kind
        if kind is DomainKind.SYMMETRIC:
            self._mix_symmetric(target, generator)
        elif not target.is_floating_point() or kind in _WHOLE:
            self._gather(target, generator)
        elif kind is DomainKind.PROBABILITY and target.dim() > 0:
            self._mix_rows(target, generator)
        elif kind in {DomainKind.UPPER_TRIANGULAR, DomainKind.LOWER_TRIANGULAR}:
            # From the start of a draw on: triangles stay triangles.
            start = _choice(len(self._pool), generator) * target.numel()
            self._multiply(target.view(-1), start, generator)
        else:
            start = _choice(self._pool.numel(), generator)
            self._multiply(target.view(-1), start, generator)
        return target

    def _mix_number(self, generator: torch.Generator) -> object:
        choice = _choice(len(self._numbers), generator)
        value = self._numbers[choice]
        return value * float(_scales(1, generator)) if isinstance(value, float) else value

    def _multiply(self, target: torch.Tensor, start: int, generator: torch.Generator) -> None:
        """Fill with the pool from an element on, round its end, times the strip: one pass."""
        assert self._pool is not None
        strip = self._factors(target.dtype, generator)
        first = _choice(_STRIP_ELEMENTS, generator)
        factors = strip[first : first + _STRIP_ELEMENTS]
        sources = self._pool.view(-1)
        head = min(len(target), len(sources) - start)
        _times(sources[start : start + head], factors, target[:head])
        _times(sources[: len(target) - head], factors, target[head:])

    def _factors(self, dtype: torch.dtype, generator: torch.Generator) -> torch.Tensor:
        """Return the strip with outliers or the one without, twice in a row.

        They are drawn when they are first needed.
        """
        if not self._strips:
            plain = _scales(_STRIP_ELEMENTS, generator)
            outlying = plain.clone()
            if (sign := _SIGNS.get(self._domain.kind)) is not None:
                count = (_STRIP_ELEMENTS // _OUTLYING,)
                outlying[_choices(_STRIP_ELEMENTS, count, generator)] *= sign * self._outlier
            self._strips = tuple(torch.cat([one, one]).to(dtype) for one in (plain, outlying))
        return self._strips[self._has_outliers(generator)]

    def _has_outliers(self, generator: torch.Generator) -> bool:
        return self._always or bool(_choice(2, generator))

    def _mix_rows(self, target: torch.Tensor, generator: torch.Generator) -> None:
        """Take rows of the pool at random, multiply by the strip, and let each sum to 1 again."""
        assert self._pool is not None
        width = target.shape[-1]
        body, sources = target.view(-1, width), self._pool.view(-1, width)
        chosen = _choices(len(sources), (len(body),), generator)
        torch.index_select(sources, 0, chosen, out=body)
        strip = self._factors(target.dtype, generator)
        first = _choice(_STRIP_ELEMENTS, generator)
        _times(target.view(-1), strip[first : first + _STRIP_ELEMENTS], target.view(-1))
        body.div_(body.sum(1, keepdim=True))

    def _gather(self, target: torch.Tensor, generator: torch.Generator) -> None:
        """Fill with pieces of the pool, chosen at random; indices are shifted within bounds."""
        assert self._pool is not None
        elements = min(_CHUNK_ELEMENTS, max(1, target.numel() // _MIN_CHUNKS))
        chunks = target.numel() // elements
        sources = self._pool.view(-1)
        sources = sources[: sources.numel() // elements * elements].view(-1, elements)
        flat = target.view(-1)
        body = flat[: chunks * elements].view(chunks, elements)
        tail = flat[chunks * elements :]
        if len(tail):
            tail.copy_(sources.view(-1)[: len(tail)])
        chosen = _choices(len(sources), (chunks,), generator)
        torch.index_select(sources, 0, chosen, out=body)
        if self._domain.kind is DomainKind.SIGN:
            signs = _choices(2, (chunks, 1), generator) * 2 - 1
            body.mul_(signs.to(body.dtype))
        upper = self._domain.upper
        if self._domain.kind is DomainKind.INDEX and upper is not None:
            shifts = _choices(upper, (chunks, 1), generator)
            body.add_(shifts.to(body.dtype)).remainder_(upper)

    def _mix_symmetric(self, target: torch.Tensor, generator: torch.Generator) -> None:
        """Scale rows and columns of a random draw alike: it stays symmetric, bit for bit."""
        assert self._pool is not None
        choice = _choice(len(self._pool), generator)
        scale = _scales(target.shape[-1], generator).to(target.dtype)
        if self._outlier != 1.0 and self._has_outliers(generator):
            scale[_choice(len(scale), generator)] *= -self._outlier
        torch.mul(self._pool[choice], scale.unsqueeze(-1) * scale, out=target)


def _times(sources: torch.Tensor, factors: torch.Tensor, out: torch.Tensor) -> None:
    """Multiply one flat tensor by factors that are repeated along it, into another."""
    width = len(factors)
    rows = len(sources) // width
    if rows:
        body = slice(0, rows * width)
        torch.mul(sources[body].view(rows, width), factors, out=out[body].view(rows, width))
    rest = slice(rows * width, len(sources))
    torch.mul(sources[rest], factors[: len(sources) - rows * width], out=out[rest])


_WHOLE = frozenset({DomainKind.INDEX, DomainKind.MASK, DomainKind.SIGN})
_SIGNS = {
    DomainKind.REAL: -1,
    DomainKind.UPPER_TRIANGULAR: -1,
    DomainKind.LOWER_TRIANGULAR: -1,
    DomainKind.POSITIVE: 1,
}
"""Signs of outliers, where there are any."""


def _choice(count: int, generator: torch.Generator) -> int:
    return int(_choices(count, (), generator))


def _choices(count: int, shape: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
    return torch.randint(count, shape, generator=generator, device=generator.device)


def _scales(count: int, generator: torch.Generator) -> torch.Tensor:
    drawn = torch.rand(count, generator=generator, device=generator.device)
    return drawn * _SPREAD + _LEAST_SCALE
