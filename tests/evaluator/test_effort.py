"""When blocks say enough, and a further round is measured."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from evaluator.referee.cuda.candidate import CudaCandidate
from evaluator.referee.cuda.stopwatch import CudaStopwatch
from evaluator.referee.effort import LONG_VERIFY_EFFORT, SEARCH_EFFORT, VERIFY_EFFORT, Effort
from evaluator.referee.timing import Block, estimate, estimate_together
from tests.evaluator.referee_cases import SOFTMAX
from tests.evaluator.stand_in_gpu import open_arena

pytestmark = pytest.mark.usefixtures("stand_in_folder")


def simulated(speedup: float, spread: float, rng: np.random.Generator) -> Iterator[Block]:
    """Blocks whose ratio has a log-normal spread."""
    while True:
        ms = float(np.exp(rng.normal(0, spread)) / speedup)
        yield Block(reference_ms=(1.0, 1.0), candidate_ms=(ms, ms))


def rounds_needed(effort: Effort, blocks: Iterator[Block]) -> list[Block]:
    """Measure as a stopwatch does."""
    kept: list[Block] = []
    for left in reversed(range(effort.rounds)):
        kept += [next(blocks) for _ in range(effort.blocks)]
        if effort.is_enough(estimate(kept), left):
            break
    return kept


@pytest.mark.parametrize("effort", [SEARCH_EFFORT, VERIFY_EFFORT, LONG_VERIFY_EFFORT])
def test_quiet_blocks_of_one_round_are_enough(effort: Effort) -> None:
    blocks = simulated(1.5, 0.002, np.random.default_rng(0))
    assert len(rounds_needed(effort, blocks)) == effort.blocks


def test_a_device_that_changes_its_clock_is_measured_for_longer() -> None:
    """Blocks scatter by 2.5 %, as they did of attention on a GPU short of power: +- 2 % before."""
    rng = np.random.default_rng(0)
    half_widths, counts = [], []
    for _ in range(20):
        processes = [
            rounds_needed(LONG_VERIFY_EFFORT, simulated(1.0, 0.025, rng)) for _ in range(3)
        ]
        counts += [len(blocks) for blocks in processes]
        interval = estimate_together(processes).interval
        half_widths.append((interval.high - interval.low) / 2)
    assert np.mean(counts) > 3 * LONG_VERIFY_EFFORT.blocks
    assert np.median(half_widths) < 0.01


def test_of_what_is_hopeless_no_more_is_measured() -> None:
    blocks = simulated(0.5, 0.025, np.random.default_rng(0))
    assert len(rounds_needed(LONG_VERIFY_EFFORT, blocks)) == LONG_VERIFY_EFFORT.blocks


@pytest.mark.parametrize(("spread", "rounds"), [(0.002, 1), (0.025, 4)])
def test_a_stopwatch_measures_until_it_is_enough(
    spread: float, rounds: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    effort = LONG_VERIFY_EFFORT
    blocks = simulated(1.0, spread, np.random.default_rng(0))
    monkeypatch.setattr(
        CudaStopwatch, "_round", lambda *_: [next(blocks) for _ in range(effort.blocks)]
    )
    with open_arena(SOFTMAX, tmp_path) as (arena, session, _):
        process: CudaCandidate = arena.process(arena.build_folder(), timed=True)
        process.open(0, SOFTMAX.source.replace("class Model(", "class ModelNew("))
        arena.furnish(process)
        watch = CudaStopwatch(session, process, None, is_trusted=True)
        try:
            assert len(watch.blocks(0, 1.0, effort)) == rounds * effort.blocks
        finally:
            process.end()
