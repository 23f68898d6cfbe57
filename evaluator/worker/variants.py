"""Hidden variations of inputs: other numbers, still inside each input's domain."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from evaluator.wire import VARIANTS
from evaluator.worker.domains import is_real
from evaluator.worker.outliers import Runs, add_outliers
from problems.problem import Domain, DomainKind

__all__ = ["number_factor", "scale_up", "vary", "vary_set", "varying"]

_SCALE_UP = {torch.float16: 2.0}
_SCALE_UP_DEFAULT = 8.0
"""exp() of a value 8 standard deviations out stays finite: 8 x 8 < 88; in fp16 2 x 5 < 11."""
_SCALE_DOWN = 1.0 / 32
_LEAST_POSITIVE = 1e-3
_SHARPEN = {"scaled_up": 4.0, "scaled_down": 0.25}
_NUMBER_FACTORS = {
    "scaled_up": _SCALE_UP_DEFAULT,
    "scaled_down": _SCALE_DOWN,
    "negated": -1.0,
}
_SPIKED = 4096
"""One row of probabilities in so many is an outlier: who looks at some rows alone misses it."""
_APART = 1 << 40


def varying(seed: int, device: torch.device) -> torch.Generator:
    """Return a source of variations of what is drawn with a seed.

    Its numbers are others than those: with the same ones, the first elements of a set would tell
    where its outliers are.
    """
    return torch.Generator(device).manual_seed(seed ^ _APART)


def vary_set(
    values: Sequence[object],
    domains: Sequence[Domain],
    variant: str,
    generator: torch.Generator,
    *,
    runs: bool,
) -> tuple[list[object], bool]:
    """Return a variation of a check set, and whether it changed any input.

    Args:
        values: Drawn from the problem's own distribution.
        domains: One for each input.
        variant: One of `VARIANTS`.
        generator: Source of the randomness.
        runs: Whether outliers may be neighbours: the longest runs then, which do for any.
    """
    neighbours = Runs.LONGEST if runs else Runs.NONE
    varied = [
        vary(value, domain, variant, generator, neighbours)
        for value, domain in zip(values, domains, strict=True)
    ]
    return [value for value, _ in varied], any(applied for _, applied in varied)


def vary(
    value: object, domain: Domain, variant: str, generator: torch.Generator, runs: Runs
) -> tuple[object, bool]:
    """Return a variation of one input.

    Args:
        value: Drawn from the input's own distribution.
        domain: What it must stay inside.
        variant: One of `VARIANTS`.
        generator: Source of the randomness.
        runs: Which of its outliers are neighbours, where the variant has outliers.

    Returns:
        The variation, and whether the domain permitted one (else the value itself).
    """
    assert variant in VARIANTS, f"unknown variant {variant!r}"
    if variant == "own":
        return value, True
    if not isinstance(value, torch.Tensor):
        return _vary_number(value, variant)
    if value.numel() == 0:
        return value, False
    if domain.kind is DomainKind.INDEX:
        return _vary_index(value, domain, variant, generator)
    if domain.kind is DomainKind.PROBABILITY:
        return _vary_probability(value, variant, generator), True
    if not is_real(domain.kind) or not value.is_floating_point():
        return value, False
    return _vary_real(value, domain.kind, variant, generator, runs)


def scale_up(dtype: torch.dtype) -> float:
    """Return how many times as large a value may become; also the factor of outliers."""
    return _SCALE_UP.get(dtype, _SCALE_UP_DEFAULT)


def _vary_real(
    value: torch.Tensor, kind: DomainKind, variant: str, generator: torch.Generator, runs: Runs
) -> tuple[torch.Tensor, bool]:
    if variant == "scaled_up":
        return value * scale_up(value.dtype), True
    if variant == "scaled_down":
        return value * _SCALE_DOWN, True
    if variant == "negated":
        positive = kind is DomainKind.POSITIVE
        return (value, False) if positive else (-value, True)
    if variant == "spiked":
        return _spiked(value, kind, generator, runs), True
    return _around_zero(value, kind, generator), True


def number_factor(variant: str) -> float:
    """Return by what a plain float is multiplied; whole numbers and flags often steer shapes."""
    return _NUMBER_FACTORS.get(variant, 1.0)


def _vary_number(value: object, variant: str) -> tuple[object, bool]:
    if not isinstance(value, float) or variant not in _NUMBER_FACTORS:
        return value, False
    return value * number_factor(variant), True


def _vary_index(
    value: torch.Tensor, domain: Domain, variant: str, generator: torch.Generator
) -> tuple[torch.Tensor, bool]:
    if variant != "around_zero" or domain.upper is None:
        return value, False
    drawn = torch.randint(domain.upper, value.shape, generator=generator, device=generator.device)
    return drawn.to(value.dtype), True


def _vary_probability(
    value: torch.Tensor, variant: str, generator: torch.Generator
) -> torch.Tensor:
    """Sharper, flatter, reversed (all or few) or unrelated rows, each of which sums to 1."""
    if variant == "negated":
        return value.flip(-1)
    if variant == "around_zero":
        noise = _normal(value.shape, torch.float64, generator)
        return noise.softmax(-1).to(value.dtype)
    if variant == "spiked":
        spiked = value.clone(memory_format=torch.contiguous_format)
        rows = spiked.view(-1, value.shape[-1])
        places = _places(len(rows), -(-len(rows) // _SPIKED), generator)
        rows[places] = rows[places].flip(-1)
        return spiked
    powered = value.double().pow(_SHARPEN[variant])
    return (powered / powered.sum(-1, keepdim=True)).to(value.dtype)


def _spiked(
    value: torch.Tensor, kind: DomainKind, generator: torch.Generator, runs: Runs
) -> torch.Tensor:
    """Scale few elements up, some of them neighbours; negate them where the domain permits."""
    factor = scale_up(value.dtype)
    if kind is not DomainKind.POSITIVE:
        factor = -factor
    if kind is DomainKind.SYMMETRIC:
        # A row and the column of the same number; where they meet, the diagonal, twice.
        signs = torch.ones(value.shape[-1], dtype=value.dtype, device=value.device)
        signs[_places(value.shape[-1], 1, generator)] = factor
        return value * (signs.unsqueeze(-1) * signs)
    spiked = value.clone(memory_format=torch.contiguous_format)
    add_outliers(spiked.view(-1), factor, generator, runs)
    return spiked


def _places(numel: int, count: int, generator: torch.Generator) -> torch.Tensor:
    return torch.randint(numel, (count,), generator=generator, device=generator.device)


def _around_zero(value: torch.Tensor, kind: DomainKind, generator: torch.Generator) -> torch.Tensor:
    """Return standard normal numbers with the structure of the domain."""
    dtype = torch.float64 if value.dtype is torch.float64 else torch.float32
    noise = _normal(value.shape, dtype, generator)
    if kind is DomainKind.POSITIVE:
        noise = noise.abs() + _LEAST_POSITIVE
    elif kind is DomainKind.UPPER_TRIANGULAR:
        noise = noise.triu()
    elif kind is DomainKind.LOWER_TRIANGULAR:
        noise = noise.tril()
    elif kind is DomainKind.SYMMETRIC:
        noise = (noise + noise.transpose(-1, -2)) * 2**-0.5
    return noise.to(value.dtype)


def _normal(shape: torch.Size, dtype: torch.dtype, generator: torch.Generator) -> torch.Tensor:
    """Draw standard normal numbers where the generator is."""
    return torch.randn(shape, generator=generator, dtype=dtype, device=generator.device)
