"""Parts of timed outputs: each region is looked at, the ends included."""

from __future__ import annotations

import numpy as np
import pytest

from evaluator.referee.arrays import Array
from evaluator.referee.parts import choose_part, part_of


def array(numel: int) -> Array:
    return Array(values=np.arange(numel, dtype=np.float32), dtype="float32")


def test_small_outputs_are_compared_whole() -> None:
    output = array(1 << 18)
    part = choose_part(output, lambda count: count - 1)
    assert part == slice(0, output.numel)
    assert part_of(output, part) is output


@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 0.99, 1.0])
def test_no_region_can_be_left_out(share: float) -> None:
    output = array(1 << 21)
    place = min(int(share * output.numel), output.numel - 1)
    rng = np.random.default_rng(7)
    found = 0
    for _ in range(400):
        part = choose_part(output, lambda count: int(rng.integers(count)))
        assert 0 <= part.start < part.stop <= output.numel
        assert part.stop - part.start == output.numel // 4
        found += part.start <= place < part.stop
    assert found > 400 / 12
    assert np.array_equal(part_of(output, part).values, output.values[part])
