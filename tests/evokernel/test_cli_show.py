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


@pytest.mark.parametrize(("streams", "said"), [(1, ", on 1 stream, "), (3, ", on 3 streams, ")])
def test_streams_are_told_where_they_were_counted(streams: int, said: str) -> None:
    facts = KernelFacts(launches=3, streams=streams, work=64)
    assert said in "\n".join(describe_evaluation(world.fit(2.0, facts)))
    silent = "\n".join(describe_evaluation(world.fit(2.0, KernelFacts(launches=3, work=64))))
    assert "stream" not in silent
