"""Fresh input contents at about the speed of a copy: what every timed call is given.

Drawing 64 MB of random numbers takes 59 ms, copying them 4 ms. So a reservoir is drawn once, and
each set is mixed from it, inside the domain: the reservoir from a random element on, times factors
that nobody can foresee (`strips`). No linear function of such a product, and no sum of logarithms,
follows from what was computed before: pieces that are only scaled would let a candidate remember an
answer for each piece, and scale that.

Sets are of the kinds that the check has, too: scaled up, negated, with random signs, with few
outliers. What is right near the own distribution alone, or changed by whole rows of other numbers
alone, must not pass because it is taken in timed calls alone.

Covered: replay of remembered answers, scaled or not, of inputs that are real, positive,
triangular or probabilities; short cuts in timed calls. Not covered: functions of masks, signs and
indices alone, whose pieces are chosen and (indices) shifted at random, but are not new.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from evaluator.worker.domains import is_real
from evaluator.worker.outliers import Runs, add_outliers
from evaluator.worker.strips import MIDDLE_SCALE, NUM_PLACES, Strips
from evaluator.worker.variants import number_factor, scale_up
from problems.problem import Domain, DomainKind

__all__ = ["Reservoir"]

_CHUNK_ELEMENTS = 4096
_MIN_CHUNKS = 64
_LEAST_SCALE, _SPREAD = 0.75, 0.5
"""Elements are scaled by 0.75 to 1.25: unpredictable, and close to the own distribution."""


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
        self._strips: Strips | None = None
        if self._pool is not None and self._is_multiplied(self._pool):
            self._pool.mul_(MIDDLE_SCALE)

    def varies(self, variant: str) -> bool:
        """Tell whether a variant changes this input."""
        if self._pool is None:
            return _number_varies(self._numbers, variant)
        if not (self._pool.is_floating_point() and is_real(self._domain.kind)):
            return False
        return variant in {"spiked", "scaled_up"} or (
            self._domain.kind in _SIGNED
            and (variant == "negated" or self._domain.kind is not DomainKind.SYMMETRIC)
        )

    def stays_own(self, variant: str) -> bool:
        """Tell whether the check varies this input in a way that timed contents do not."""
        return self._domain.kind is DomainKind.PROBABILITY and variant != "spiked"

    def mix(
        self,
        target: object,
        generator: torch.Generator,
        variant: str = "own",
        *,
        host: torch.Generator | None = None,
        runs: Runs = Runs.SOME,
        louder: bool = False,
    ) -> object:
        """Make a value never seen before.

        Args:
            target: Row-major tensor that is filled; anything else for a plain number.
            generator: Source of the randomness, on the pool's device.
            variant: One of the wire's `TIMED_VARIANTS`.
            host: Source of the numbers that the interpreter reads; by default the same. Reading one
                of a GPU's takes as long as many launches.
            runs: Which outliers are neighbours, where the variant has outliers.
            louder: Double it.

        Returns:
            The target, or the plain number.
        """
        if self._pool is None or not isinstance(target, torch.Tensor):
            return self._mix_number(host or generator, variant, louder=louder)
        if target.numel() == 0:
            return target
        kind = self._domain.kind
        if kind is DomainKind.SYMMETRIC:
            self._mix_symmetric(target, generator, variant, louder=louder)
        elif kind is DomainKind.PROBABILITY and target.dim() > 0:
            self._mix_rows(target, generator)
        elif self._is_multiplied(target):
            sources = generator, host or generator
            self._multiply(target.view(-1), sources, variant, runs, louder=louder)
        else:
            self._gather(target, generator)
        return target

    def _is_multiplied(self, value: torch.Tensor) -> bool:
        """Whether values of the domain are a product of stock and factors."""
        kind = self._domain.kind
        return value.is_floating_point() and is_real(kind) and kind is not DomainKind.SYMMETRIC

    def _mix_number(self, generator: torch.Generator, variant: str, *, louder: bool) -> object:
        choice = _choice(len(self._numbers), generator)
        value = self._numbers[choice]
        if not isinstance(value, float):
            return value
        return value * float(_scales(1, generator)) * number_factor(variant) * (1 + louder)

    def _multiply(
        self,
        target: torch.Tensor,
        generators: tuple[torch.Generator, torch.Generator],
        variant: str,
        runs: Runs,
        *,
        louder: bool,
    ) -> None:
        """Fill with the pool from an element on, round its end, times factors."""
        assert self._pool is not None
        generator, host = generators
        start, *places = _choices(_PLACES, (1 + 2 * NUM_PLACES,), host).tolist()
        if self._domain.kind in _TRIANGULAR:
            # From the start of a draw on: triangles stay triangles.
            start = start % len(self._pool) * target.numel()
        sources = self._pool.view(-1)
        start %= sources.numel()
        head = min(len(target), len(sources) - start)
        strips = self._strips_for(target, generator)
        begin, end = sources[start : start + head], sources[: len(target) - head]
        strips.multiply(begin, target[:head], variant, places[:NUM_PLACES], louder=louder)
        strips.multiply(end, target[head:], variant, places[NUM_PLACES:], louder=louder)
        if variant == "spiked":
            sign = -1 if self._domain.kind in _SIGNED else 1
            add_outliers(target, sign * scale_up(target.dtype), generator, runs, host)

    def _strips_for(self, target: torch.Tensor, generator: torch.Generator) -> Strips:
        """Return the strips, which are drawn when they are first needed."""
        if self._strips is None:
            signed = self._domain.kind in _SIGNED
            self._strips = Strips(target, target.numel(), generator, signed=signed)
        return self._strips

    def _mix_rows(self, target: torch.Tensor, generator: torch.Generator) -> None:
        """Take rows of the pool at random, multiply by factors, and let each sum to 1 again."""
        assert self._pool is not None
        width = target.shape[-1]
        body, sources = target.view(-1, width), self._pool.view(-1, width)
        chosen = _choices(len(sources), (len(body),), generator)
        places = _choices(_PLACES, (NUM_PLACES,), generator).tolist()
        rows = sources.index_select(0, chosen)
        self._strips_for(target, generator).multiply(rows.view(-1), target.view(-1), "own", places)
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

    def _mix_symmetric(
        self, target: torch.Tensor, generator: torch.Generator, variant: str, *, louder: bool
    ) -> None:
        """Scale rows and columns of a random draw alike: it stays symmetric, bit for bit."""
        assert self._pool is not None
        choice = _choice(len(self._pool), generator)
        scale = _scales(target.shape[-1], generator).to(target.dtype)
        loud = scale_up(target.dtype)
        if variant == "spiked":
            scale[_choice(len(scale), generator)] *= -loud
        torch.mul(self._pool[choice], scale.unsqueeze(-1) * scale, out=target)
        target.mul_({"scaled_up": loud, "negated": -1}.get(variant, 1) * (1 + louder))


def _number_varies(numbers: Sequence[object], variant: str) -> bool:
    return number_factor(variant) != 1.0 and any(isinstance(value, float) for value in numbers)


_TRIANGULAR = frozenset({DomainKind.UPPER_TRIANGULAR, DomainKind.LOWER_TRIANGULAR})
_SIGNED = frozenset({DomainKind.REAL, DomainKind.SCALAR, DomainKind.SYMMETRIC}) | _TRIANGULAR
"""Domains whose values may be negative."""
_PLACES = 1 << 62


def _choice(count: int, generator: torch.Generator) -> int:
    return int(_choices(count, (), generator))


def _choices(count: int, shape: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
    return torch.randint(count, shape, generator=generator, device=generator.device)


def _scales(count: int, generator: torch.Generator) -> torch.Tensor:
    drawn = torch.rand(count, generator=generator, device=generator.device)
    return drawn * _SPREAD + _LEAST_SCALE
