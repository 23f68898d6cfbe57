"""Factors of timed contents: near one, new each time, and not to be learnt."""

from __future__ import annotations

import pytest
import torch

from evaluator.worker.strips import MIDDLE_SCALE, NUM_PLACES, Strips

WIDTH = 1 << 16


def factors(
    strips: Strips, numel: int, variant: str, places: tuple[int, ...], dtype: torch.dtype
) -> torch.Tensor:
    """Factors of a set whose stock is all ones, in float64."""
    target = torch.empty(numel, dtype=dtype)
    strips.multiply(torch.ones(numel, dtype=dtype), target, variant, places)
    return target.double()


def strips_of(dtype: torch.dtype, numel: int, *, signed: bool = True) -> Strips:
    generator = torch.Generator().manual_seed(3)
    return Strips(torch.empty(0, dtype=dtype), numel, generator, signed=signed)


@pytest.mark.parametrize(
    ("dtype", "loud"),
    [(torch.float16, 2), (torch.bfloat16, 8), (torch.float32, 8), (torch.float64, 8)],
)
def test_a_variant_changes_signs_and_sizes_alone(dtype: torch.dtype, loud: int) -> None:
    numel = 3 * WIDTH + 5
    strips = strips_of(dtype, numel)
    own = factors(strips, numel, "own", (7, 8, 9), dtype)
    assert 1 <= own.min() < 1.02
    assert 1.48 < own.max() <= 1.5
    assert MIDDLE_SCALE * own.mean() == pytest.approx(1, abs=0.02)
    assert torch.equal(factors(strips, numel, "scaled_up", (7, 8, 9), dtype), loud * own)
    assert torch.equal(factors(strips, numel, "negated", (7, 8, 9), dtype), -own)
    signed = factors(strips, numel, "around_zero", (7, 8, 9), dtype)
    assert torch.equal(signed.abs(), own)
    rows = (signed < 0)[: 3 * WIDTH].view(3, WIDTH)
    for number, row in enumerate(rows):
        assert 0.45 < row.double().mean() < 0.55
        for other in rows[:number]:
            assert 0.45 < (row == other).double().mean() < 0.55


def test_what_must_be_positive_stays_so() -> None:
    strips = strips_of(torch.float32, 100, signed=False)
    for variant in ("own", "spiked", "scaled_up", "negated", "around_zero"):
        assert factors(strips, 100, variant, (1, 2, 3), torch.float32).min() >= 1


def test_logarithms_are_no_sums_of_what_a_row_and_a_column_add() -> None:
    strips = strips_of(torch.float32, 8 * WIDTH)
    logs = factors(strips, 8 * WIDTH, "own", (5, 6, 7), torch.float32).log().view(8, WIDTH)
    # Of a product of two strips that are each repeated in some way, these would be zero.
    by_row = logs[1:] - logs[:-1]
    shifted = by_row[1:, :-17] - by_row[:-1, 17:]
    assert (by_row - by_row[0]).std(0).median() > 0.05
    assert shifted.std() > 0.05


def test_two_sets_have_no_factor_in_common() -> None:
    strips = strips_of(torch.float32, 2 * WIDTH)
    generator = torch.Generator().manual_seed(1)
    seen = []
    for _ in range(4):
        places = tuple(torch.randint(1 << 62, (NUM_PLACES,), generator=generator).tolist())
        seen.append(factors(strips, 2 * WIDTH, "own", places, torch.float32))
    for number, one in enumerate(seen):
        for other in seen[:number]:
            assert (one == other).double().mean() < 1e-3
