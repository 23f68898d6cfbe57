"""Fresh input contents at about the speed of a copy: what every timed call is given.

Drawing 64 MB of random numbers takes 59 ms, copying them 4 ms. So a reservoir is drawn once, and
each set is mixed from its pieces: chosen at random and scaled at random, inside the domain.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from problems.problem import Domain, DomainKind

__all__ = ["Reservoir"]

_CHUNK_ELEMENTS = 4096
_MIN_CHUNKS = 64
_LEAST_SCALE, _SPREAD = 0.75, 0.5
"""Pieces are scaled by 0.75 to 1.25: unpredictable, and close to the own distribution."""


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
        if kind in {DomainKind.UPPER_TRIANGULAR, DomainKind.LOWER_TRIANGULAR}:
            self._mix_rows_in_place(target, generator)
        elif kind is DomainKind.SYMMETRIC:
            self._mix_symmetric(target, generator)
        elif kind is DomainKind.PROBABILITY and target.dim() > 0:
            self._gather(target, target.shape[-1], generator, scaled=False)
        else:
            elements = min(_CHUNK_ELEMENTS, max(1, target.numel() // _MIN_CHUNKS))
            self._gather(target, elements, generator, scaled=kind not in _WHOLE)
        return target

    def _mix_number(self, generator: torch.Generator) -> object:
        choice = _choice(len(self._numbers), generator)
        value = self._numbers[choice]
        return value * float(_scales(1, generator)) if isinstance(value, float) else value

    def _gather(
        self, target: torch.Tensor, elements: int, generator: torch.Generator, *, scaled: bool
    ) -> None:
        """Fill with pieces of the pool, chosen and scaled at random."""
        assert self._pool is not None
        chunks = target.numel() // elements
        sources = self._pool.view(-1)
        sources = sources[: sources.numel() // elements * elements].view(-1, elements)
        flat = target.view(-1)
        body = flat[: chunks * elements].view(chunks, elements)
        tail = flat[chunks * elements :]
        if len(tail):
            tail.copy_(sources.view(-1)[: len(tail)])
        if scaled and body.is_floating_point():
            _scale_in_one_pass(sources, body, generator)
            tail.mul_(_scales(1, generator).to(body.dtype))
            return
        chosen = _choices(len(sources), (chunks,), generator)
        torch.index_select(sources, 0, chosen, out=body)
        if self._domain.kind is DomainKind.SIGN:
            signs = _choices(2, (chunks, 1), generator) * 2 - 1
            body.mul_(signs.to(body.dtype))

    def _mix_rows_in_place(self, target: torch.Tensor, generator: torch.Generator) -> None:
        """Take each row from the same row of a random draw: triangles stay triangles."""
        assert self._pool is not None
        width = target.shape[-1]
        rows = target.numel() // width
        draw = _choices(len(self._pool), (rows,), generator)
        body = target.view(rows, width)
        sources = self._pool.view(-1, width)
        own = torch.arange(rows, device=draw.device)
        torch.index_select(sources, 0, draw * rows + own, out=body)
        body.mul_(_scales(rows, generator).to(body.dtype).unsqueeze(1))

    def _mix_symmetric(self, target: torch.Tensor, generator: torch.Generator) -> None:
        """Scale rows and columns of a random draw alike: it stays symmetric, bit for bit."""
        assert self._pool is not None
        choice = _choice(len(self._pool), generator)
        scale = _scales(target.shape[-1], generator).to(target.dtype)
        torch.mul(self._pool[choice], scale.unsqueeze(-1) * scale, out=target)


def _scale_in_one_pass(
    sources: torch.Tensor, body: torch.Tensor, generator: torch.Generator
) -> None:
    """Fill from a random piece of the pool on, each piece scaled at random: one read, one write.

    The pool has no fewer pieces than the target.
    """
    start = _choice(len(sources), generator)
    scales = _scales(len(body), generator).to(body.dtype).unsqueeze(1)
    head = min(len(body), len(sources) - start)
    torch.mul(sources[start : start + head], scales[:head], out=body[:head])
    torch.mul(sources[: len(body) - head], scales[head:], out=body[head:])


_WHOLE = frozenset({DomainKind.INDEX, DomainKind.MASK, DomainKind.SIGN})


def _choice(count: int, generator: torch.Generator) -> int:
    return int(_choices(count, (), generator))


def _choices(count: int, shape: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
    return torch.randint(count, shape, generator=generator, device=generator.device)


def _scales(count: int, generator: torch.Generator) -> torch.Tensor:
    drawn = torch.rand(count, generator=generator, device=generator.device)
    return drawn * _SPREAD + _LEAST_SCALE
