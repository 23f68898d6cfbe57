"""Rooms: what a candidate is given for its timed calls, and whether it is still that afterwards."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from evaluator.wire import ValueSpec
from evaluator.worker.cuda.rooms import Room, set_bytes
from evaluator.worker.cuda.timed_sets import TimedSets
from evaluator.worker.opened import open_problem
from tests.evaluator.referee_cases import SOFTMAX
from tests.evaluator.stand_in_gpu import StandInDriver

CALLS = 3
NUMEL = 3 * 45
SET_BYTES = 1024
"""Room for one set: 540 bytes, and a gap."""


class Given:
    """A room with copies of some timed sets."""

    def __init__(self, sets: int) -> None:
        source = SOFTMAX.source.replace("128, 2048", "3, 45")
        opened, _ = open_problem({"source": source, "seed": 1, "precision": "fp32"})
        driver = StandInDriver(waits=False)
        self.timed = TimedSets(driver, opened)
        self.timed.stock(2, sets)
        self.sets = self.timed.fill(["own", "spiked", "negated"], 3)
        self.room = Room(driver, opened.inputs, CALLS + 1)
        self.timed.copy_to(self.room, CALLS)
        address, num_bytes = self.room.extent
        assert set_bytes(opened.inputs) == SET_BYTES
        self.bytes = driver.tensor(
            address, ValueSpec(dtype="uint8", shape=(num_bytes,), stride=(1,))
        )

    @property
    def is_unchanged(self) -> bool:
        return self.timed.unchanged_in(self.room, CALLS)


@pytest.fixture(params=[0, 4], ids=["drawn", "mixed"])
def given(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Given:
    monkeypatch.chdir(tmp_path)
    return Given(request.param)


def test_copies_are_those_of_the_sets_that_were_filled(given: Given) -> None:
    for place, (wanted,) in enumerate(given.sets):
        (copy,) = given.room.values(place)
        assert isinstance(copy, torch.Tensor)
        assert isinstance(wanted, torch.Tensor)
        assert torch.equal(copy, wanted)
    assert given.is_unchanged


@pytest.mark.parametrize("place", range(CALLS))
def test_one_bit_of_an_input_that_was_written_is_seen(given: Given, place: int) -> None:
    given.bytes[place * SET_BYTES + 4 * NUMEL - 1] ^= 0x80
    assert not given.is_unchanged


def test_what_lies_between_inputs_and_behind_them_is_nobody_s(given: Given) -> None:
    given.bytes[4 * NUMEL] = 7
    given.bytes[CALLS * SET_BYTES :] = 7
    assert given.is_unchanged
