"""How much calls on the same inputs differ: nothing for most programs, a little for atomics."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import pytest
import torch

from archives.candidate import Candidate
from archives.evaluation import Mismatch
from evaluator.evaluator import EvaluationRequest
from evaluator.referee.referee import Referee
from evaluator.worker.spread import SAMPLE, measure_spread
from tests.evaluator.referee_cases import SOFTMAX, new_referee, source_of


def returning(outputs: Sequence[object]) -> Iterator[object]:
    yield from outputs


@pytest.mark.parametrize(
    ("outputs", "spread"),
    [
        ([torch.ones(4), torch.ones(4)], 0.0),
        ([torch.ones(4), torch.tensor([1.0, 1.0, 1.0, 1.5])], 0.5),
        ([torch.full((4,), 100.0), torch.full((4,), 101.0)], 0.01),
        ([(torch.ones(2), torch.ones(2)), (torch.ones(2), torch.zeros(2))], 1.0),
        ([torch.tensor([math.nan, 1.0])] * 2, 0.0),
        ([torch.tensor([math.nan, 1.0]), torch.ones(2)], Mismatch.NUMBERS),
        ([torch.tensor([3, 4]), torch.tensor([3, 4])], 0.0),
        ([torch.ones(2), torch.ones(3)], Mismatch.SHAPES),
        ([torch.ones(2), (torch.ones(2), torch.ones(2))], Mismatch.SHAPES),
        ([torch.zeros(2), torch.ones(2)], 1.0),
        ([torch.ones(2)], None),
        ([torch.ones(0), torch.ones(0)], 0.0),
    ],
    ids=[
        "same",
        "one",
        "relative",
        "second",
        "nan",
        "nan once",
        "integers",
        "shapes",
        "number of tensors",
        "zeros",
        "raises",
        "empty",
    ],
)
def test_the_largest_difference_counts(
    outputs: list[object], spread: float | Mismatch | None
) -> None:
    calls = returning(outputs)
    found = measure_spread(lambda: next(calls))
    assert found == (pytest.approx(spread) if isinstance(spread, float) else spread)


def test_a_buffer_that_is_written_again_is_no_excuse() -> None:
    kept = torch.zeros(4)
    assert measure_spread(lambda: kept.add_(1.0)) == pytest.approx(1.0)


@pytest.mark.parametrize("turned", [False, True])
def test_of_a_large_output_a_sample_is_looked_at(turned: bool) -> None:
    calls = 0

    def call() -> torch.Tensor:
        nonlocal calls
        calls += 1
        values = torch.ones(2, SAMPLE)
        values += 0.25 * (calls - 1)
        return values.t() if turned else values

    assert measure_spread(call) == pytest.approx(0.25)


def test_a_verdict_tells_the_spread() -> None:
    referee: Referee = new_referee()
    try:
        request = EvaluationRequest(
            problem=SOFTMAX,
            candidate=Candidate.of(SOFTMAX.key, source_of("honest/cpp_softmax")),
        )
        assert referee.evaluate(request).facts.spread == 0.0
    finally:
        referee.close()
