from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from archives.attempt import Slot
from archives.grid import AddStatus, Elite
from evokernel.island import ROLES, Island


def elite(cell: int, objective: float, index: int = 0) -> Elite:
    return Elite(
        cell=(cell,),
        objective=objective,
        slot=Slot(problem="p", generation=0, island=0, index=index),
        candidate=f"candidate-{cell}-{objective}",
    )


def test_a_greedy_pick_starts_with_the_best() -> None:
    island = Island(0, (4,))
    for cell, objective in enumerate((0.1, 0.9, 0.5)):
        island.add(elite(cell, objective))
    for seed in range(10):
        picked = island.pick(np.random.default_rng(seed), 2, greed=1.0)
        assert picked[0].objective == 0.9
        assert picked[1].objective != 0.9


def test_a_pick_without_greed_reaches_every_elite() -> None:
    island = Island(0, (4,))
    for cell in range(3):
        island.add(elite(cell, float(cell)))
    firsts = {island.pick(np.random.default_rng(s), 1, greed=0.0)[0].cell for s in range(40)}
    assert firsts == {(0,), (1,), (2,)}


def test_a_pick_gives_no_more_than_there_are() -> None:
    island = Island(0, (4,))
    assert island.pick(np.random.default_rng(0), 2, greed=1.0) == ()
    island.add(elite(0, 1.0))
    assert len(island.pick(np.random.default_rng(0), 2, greed=1.0)) == 1


def test_stagnation_changes_the_role_first_and_restarts_second() -> None:
    island = Island(1, (4,))
    founder = elite(0, 0.2)
    island.add(founder)
    island.founders.append(founder)
    island.add(elite(1, 0.8))
    assert island.role == ROLES[1]
    events = [island.rest(gained=False, patience=2) for _ in range(4)]
    assert events == [False, False, False, True]
    assert island.role == ROLES[3]
    assert island.grid.elites() == (founder,)
    assert island.record.best is not None
    assert island.record.best.objective == 0.8


def test_a_gain_ends_the_waiting() -> None:
    island = Island(0, (4,))
    for gained in (False, True, False, True):
        assert not island.rest(gained=gained, patience=2)
    assert island.role == ROLES[0]


def test_what_does_not_breed_is_kept_but_never_picked() -> None:
    island = Island(0, (4,))
    assert island.add(elite(0, 0.0), breeds=False).status is AddStatus.NEW
    assert island.pick(np.random.default_rng(0), 1, greed=1.0) == ()
    assert len(island.record) == 1


def test_withdrawing_takes_a_candidate_out_everywhere() -> None:
    island = Island(0, (4,))
    gone = elite(0, 0.5)
    island.add(gone)
    island.founders.append(gone)
    island.withdraw(gone.candidate)
    assert not island.founders
    assert len(island.grid) == len(island.record) == 0


def test_the_best_of_what_a_cell_was_offered_follows_whom_is_withdrawn() -> None:
    island = Island(0, (4,))
    weak, best, refused, tied = (
        elite(0, objective, index) for index, objective in enumerate((0.1, 0.9, 0.5, 0.5))
    )
    library = replace(elite(0, 0.7, 4), candidate="library")
    for each in (weak, best, refused, replace(tied, candidate="tied")):
        island.add(each)
    island.add(library, breeds=False)
    island.withdraw(best.candidate)
    assert (island.grid.elites(), island.record.elites()) == ((refused,), (library,))
    island.withdraw(library.candidate)
    island.withdraw(refused.candidate)
    assert [each.candidate for each in island.record.elites()] == ["tied"]
    assert [each.candidate for each in island.grid.elites()] == ["tied"]
    assert island.add(elite(0, 0.3, 5)).status is AddStatus.NOT_ADDED


def test_after_a_restart_only_what_came_since_moves_up_among_parents() -> None:
    island = Island(0, (4,))
    founder, better = elite(0, 0.2), elite(0, 0.8, 1)
    island.add(founder)
    island.founders.append(founder)
    island.add(better)
    for _ in range(2):
        island.rest(gained=False, patience=1)
    newest = elite(0, 0.9, 2)
    island.add(newest)
    island.withdraw(newest.candidate)
    assert island.grid.elites() == (founder,)
    assert island.record.elites() == (better,)


@pytest.mark.parametrize("index", range(6))
def test_islands_start_with_different_ways(index: int) -> None:
    assert Island(index, (1,)).role == ROLES[index % len(ROLES)]


def test_an_island_with_a_pool_breeds_from_its_best_whatever_their_cells() -> None:
    island = Island(0, (4,), pool=2)
    for index, objective in enumerate((0.1, 0.9, 0.5)):
        island.add(elite(0, objective, index))
    assert [each.objective for each in island.grid.elites()] == [0.9, 0.5]
    assert [each.objective for each in island.record.elites()] == [0.9]
    island.withdraw("candidate-0-0.9")
    assert [each.objective for each in island.grid.elites()] == [0.5, 0.1]
    assert [each.objective for each in island.record.elites()] == [0.5]
    for _ in range(2):
        island.rest(gained=False, patience=1)
    assert island.grid.elites() == ()
