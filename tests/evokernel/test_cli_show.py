"""What `evokernel show` says of a candidate's kernels."""

from __future__ import annotations

import pytest

from archives.evaluation import KernelFacts, Mismatch
from evokernel.cli.show import describe_evaluation
from tests.evokernel import landscape as world


@pytest.mark.parametrize(
    ("spread", "said"),
    [
        (None, None),
        (0.0, "calls on the same inputs agree bit for bit"),
        (3.2e-7, "calls on the same inputs differ by up to 3.2e-07"),
        (
            Mismatch.NUMBERS,
            "calls on the same inputs return numbers here and NaN or infinity there",
        ),
        (Mismatch.SHAPES, "calls on the same inputs return different shapes"),
    ],
)
def test_how_much_calls_differ_is_told_where_it_was_measured(
    spread: float | Mismatch | None, said: str | None
) -> None:
    text = "\n".join(describe_evaluation(world.fit(2.0, KernelFacts(launches=2, spread=spread))))
    assert "2 launches per call" in text
    assert ("calls on the same inputs" in text) == (said is not None)
    assert said is None or said in text
