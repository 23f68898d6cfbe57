"""Factors for the elements of a set that nobody can foresee, and whose logarithms nobody can learn.

A factor takes its fraction from the exclusive or of two strips of random bits, and its exponent
from the first one; random signs come from a third. A set is laid out in rows as wide as the first
strip; each begins at another place of the second, so no two rows have the same factors. Products
of two strips would do for contents that are new, but the logarithm of a product is a sum: who has
learnt both strips would know sums of logarithms of elements that were never read. No sum of theirs
follows from two strips whose bits are mixed; it would take a table of all pairs of places, 2^32 of
them, 2^36 on a GPU.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch

from evaluator.worker.variants import scale_up

__all__ = ["MIDDLE_SCALE", "NUM_PLACES", "Strips"]

MIDDLE_SCALE = 0.8
"""Factors lie from 1 to 1.5: with it, from 0.8 to 1.2, which is close to the own distribution."""
NUM_PLACES = 3
"""Random places that one multiplication takes."""

_WIDTH = {"cpu": 1 << 16, "cuda": 1 << 18}
"""Elements of a row: its strips stay in the cache, and a GPU takes a whole set in one go."""
_STEP = 17
"""Each row begins so many elements further in the second strip."""
_CHUNK_ELEMENTS = 1 << 17
"""A core puts factors for so many elements into a buffer, which stays in its cache, and multiplies.
A GPU puts all of them where their products go."""
_FORMATS = {
    torch.float16: (torch.int16, 16, 10),
    torch.bfloat16: (torch.int16, 16, 7),
    torch.float32: (torch.int32, 32, 23),
    torch.float64: (torch.int64, 64, 52),
}
"""Of a floating-point format: integers of its size, its bits, and those of its fraction.

Source: IEEE 754 (binary16, 32 and 64); bfloat16 is binary32 less the lower 16 bits.
"""


class Strips:
    """Two strips for tensors of one dtype and size.

    Args:
        like: A tensor of this dtype and device.
        numel: Elements of a set.
        signed: Whether values may be negative.
        generator: Source of the randomness, on that device.
    """

    def __init__(
        self, like: torch.Tensor, numel: int, generator: torch.Generator, *, signed: bool
    ) -> None:
        self._integers, self._size, self._fraction = _FORMATS[like.dtype]
        width = _WIDTH.get(like.device.type, _WIDTH["cpu"])
        self.width = max(1, min(width, numel))
        is_host = like.device.type == "cpu"
        self._buffer = like.new_empty(max(self.width, _CHUNK_ELEMENTS)) if is_host else None
        self._loud = int(scale_up(like.dtype)).bit_length() - 1
        self._generator = generator
        one = torch.ones(1, dtype=like.dtype, device=like.device).view(self._integers)
        rows = -(-numel // self.width) + 1
        self._first = self._random(2 * self.width) | one
        self._second = self._random(2 * self.width + _STEP * rows)
        self._sign = -(1 << (self._size - 1)) if signed else 0
        self._signs = -self._random(2 * self.width + _STEP * rows, bits=1) & self._sign

    def multiply(
        self,
        sources: torch.Tensor,
        target: torch.Tensor,
        variant: str,
        places: Sequence[int],
        *,
        louder: bool = False,
    ) -> None:
        """Fill a flat tensor with the elements of another one, times a factor each.

        Args:
            sources: Row-major and flat, as long as the target.
            target: Filled.
            variant: One of the wire's `TIMED_VARIANTS`; the outliers of "spiked" are not set here.
            places: `NUM_PLACES` random numbers, each >= 0.
            louder: Double all factors.
        """
        width = self.width
        at, second, signs = (place % width for place in places)
        first = self._varied(self._first[at : at + width], variant, louder=louder)
        for row, number, start, end in self._chunks(len(target)):
            factors = target[start:end] if self._buffer is None else self._buffer[: end - start]
            # Less than a row is left at the end.
            size = (end - start) // number
            part = factors.view(self._integers).view(number, size)
            window = _windows(self._second, second, row, number, size)
            torch.bitwise_xor(first[:size], window, out=part)
            if variant == "around_zero":
                part.bitwise_xor_(_windows(self._signs, signs, row, number, size))
            torch.mul(sources[start:end], factors, out=target[start:end])

    def _chunks(self, numel: int) -> Iterator[tuple[int, int, int, int]]:
        """Yield a row, how many follow each other, and where they begin and end; the rest last."""
        rows = numel // self.width
        together = max(1, rows if self._buffer is None else _CHUNK_ELEMENTS // self.width)
        for row in range(0, rows, together):
            number = min(together, rows - row)
            yield row, number, row * self.width, (row + number) * self.width
        if rows * self.width < numel:
            yield rows, 1, rows * self.width, numel

    def _varied(self, first: torch.Tensor, variant: str, *, louder: bool) -> torch.Tensor:
        """Change signs and exponents of a row as a variant has it."""
        power = louder + (self._loud if variant == "scaled_up" else 0)
        changed = self._exponent(power) ^ (self._sign if variant == "negated" else 0)
        return first ^ changed if changed else first

    def _exponent(self, power: int) -> int:
        """Return the bits by which the exponents of 1 and of 2^power differ."""
        bias = (1 << (self._size - self._fraction - 2)) - 1
        return (bias ^ (bias + power)) << self._fraction

    def _random(self, count: int, bits: int | None = None) -> torch.Tensor:
        """Draw numbers of some bits; by default all of the fraction but the first."""
        return torch.randint(
            1 << (self._fraction - 1 if bits is None else bits),
            (count,),
            generator=self._generator,
            dtype=self._integers,
            device=self._generator.device,
        )


def _windows(strip: torch.Tensor, at: int, row: int, number: int, size: int) -> torch.Tensor:
    """Return parts of a strip, one for each of some rows, each some elements further."""
    return strip.as_strided((number, size), (_STEP, 1), at + _STEP * row)
