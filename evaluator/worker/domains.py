"""Domains of inputs, guessed from two samples where a problem does not state them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from problems.problem import Domain, DomainKind

__all__ = ["infer_domains", "is_real"]

_ROW_SUM_TOLERANCE = 1e-3
_SCALARS = (bool, int, float, type(None))


def infer_domains(
    samples: Sequence[Sequence[object]], runs_on: Callable[[int, torch.Tensor], bool]
) -> list[Domain]:
    """Guess the domain of each input.

    Args:
        samples: Two or more results of `get_inputs()`; a domain must hold for all of them.
        runs_on: Tells whether the model gives finite outputs with one input (by number) replaced:
            non-negative values are `POSITIVE` only where negative ones break the model, since
            most benchmarks draw uniformly from [0, 1) and mean any real number.
    """
    return [
        _infer(number, [sample[number] for sample in samples], runs_on)
        for number in range(len(samples[0]))
    ]


def is_real(kind: DomainKind) -> bool:
    """Tell whether values of a domain may be scaled by any positive factor."""
    return kind in {
        DomainKind.REAL,
        DomainKind.POSITIVE,
        DomainKind.UPPER_TRIANGULAR,
        DomainKind.LOWER_TRIANGULAR,
        DomainKind.SYMMETRIC,
        DomainKind.SCALAR,
    }


def _infer(
    number: int, values: Sequence[object], runs_on: Callable[[int, torch.Tensor], bool]
) -> Domain:
    tensors = [value for value in values if isinstance(value, torch.Tensor)]
    if len(tensors) < len(values) or not tensors[0].numel():
        kind = DomainKind.REAL if tensors else DomainKind.SCALAR
        return Domain(kind=kind, inferred=True)
    if not tensors[0].is_floating_point():
        return _infer_whole(tensors)
    if _all(tensors, lambda t: (t.abs() == 1).all()):
        kind = DomainKind.SIGN
    elif _all(tensors, lambda t: ((t == 0) | (t == 1)).all()):
        kind = DomainKind.MASK
    elif (structure := _structure(tensors)) is not None:
        kind = structure
    elif _all(tensors, _is_probability):
        kind = DomainKind.PROBABILITY
    elif _all(tensors, lambda t: (t >= 0).all()) and not runs_on(number, -tensors[0]):
        kind = DomainKind.POSITIVE
    else:
        kind = DomainKind.REAL
    return Domain(kind=kind, inferred=True)


def _infer_whole(tensors: Sequence[torch.Tensor]) -> Domain:
    if tensors[0].dtype is torch.bool:
        return Domain(kind=DomainKind.MASK, inferred=True)
    if _all(tensors, lambda t: (t.abs() == 1).all()) and min(int(t.min()) for t in tensors) < 0:
        return Domain(kind=DomainKind.SIGN, inferred=True)
    if min(int(t.min()) for t in tensors) < 0:
        # No index: its own distribution is all that is known to be permitted.
        return Domain(kind=DomainKind.INDEX, inferred=True)
    upper = max(int(t.max()) for t in tensors) + 1
    return Domain(kind=DomainKind.INDEX, upper=upper, inferred=True)


def _structure(tensors: Sequence[torch.Tensor]) -> DomainKind | None:
    shape = tensors[0].shape
    if len(shape) < 2 or shape[-1] != shape[-2] or shape[-1] < 3:
        return None
    if _all(tensors, lambda t: t.equal(t.triu())):
        return DomainKind.UPPER_TRIANGULAR
    if _all(tensors, lambda t: t.equal(t.tril())):
        return DomainKind.LOWER_TRIANGULAR
    if _all(tensors, lambda t: t.equal(t.transpose(-1, -2))):
        return DomainKind.SYMMETRIC
    return None


def _is_probability(tensor: torch.Tensor) -> bool:
    if tensor.dim() == 0 or tensor.shape[-1] < 2:
        return False
    sums = tensor.double().sum(-1)
    return bool((tensor >= 0).all()) and bool(((sums - 1).abs() < _ROW_SUM_TOLERANCE).all())


def _all(
    tensors: Sequence[torch.Tensor], holds: Callable[[torch.Tensor], torch.Tensor | bool]
) -> bool:
    return all(bool(holds(tensor)) for tensor in tensors)
