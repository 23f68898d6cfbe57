import importlib
import math
from itertools import pairwise
from types import ModuleType

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from archives.attempt import Slot
from archives.grid import Addition, AddStatus, Elite, Grid, merge, objective_of

DIMS = (3, 2, 4)
OFFSET = -2.0

cells = st.tuples(*(st.integers(0, size - 1) for size in DIMS))
objectives = st.one_of(st.floats(-5, 5, allow_nan=False), st.sampled_from([-1.0, 0.0, 0.5, 1.0]))
additions = st.lists(st.tuples(cells, objectives), max_size=60)


def elite(cell: tuple[int, ...], objective: float, index: int = 0, island: int = 0) -> Elite:
    slot = Slot(problem="p", generation=0, island=island, index=index)
    return Elite(cell=cell, objective=objective, slot=slot, candidate=f"c{index}")


def grid_of(items: list[tuple[tuple[int, ...], float]], island: int = 0) -> Grid:
    grid = Grid(DIMS, qd_offset=OFFSET)
    for index, (cell, objective) in enumerate(items):
        grid.add(elite(cell, objective, index, island))
    return grid


@pytest.fixture(scope="module")
def pyribs() -> ModuleType:
    """The other grid; imported here because it takes seconds, for which other tests had to wait."""
    return importlib.import_module("ribs.archives")


@given(items=additions)
def test_the_grid_agrees_with_pyribs(
    pyribs: ModuleType, items: list[tuple[tuple[int, ...], float]]
) -> None:
    ours = Grid(DIMS, qd_offset=OFFSET)
    theirs = pyribs.GridArchive(
        solution_dim=1,
        dims=DIMS,
        ranges=[(0, size) for size in DIMS],
        qd_score_offset=OFFSET,
        dtype=np.float64,
    )
    for index, (cell, objective) in enumerate(items):
        mine = ours.add(elite(cell, objective, index))
        info = theirs.add_single([float(index)], objective, [bin_ + 0.5 for bin_ in cell])
        assert mine.status == int(info["status"])
        assert mine.value == pytest.approx(float(info["value"]))
    assert len(ours) == theirs.stats.num_elites
    assert ours.num_cells == theirs.cells
    assert ours.coverage == pytest.approx(float(theirs.stats.coverage))
    assert ours.qd_score == pytest.approx(float(theirs.stats.qd_score))
    assert ours.normalised_qd_score == pytest.approx(float(theirs.stats.norm_qd_score))
    data = theirs.data(["solution", "objective", "measures"], return_type="tuple")
    expected = {
        tuple(int(m) for m in measures): (f"c{int(solution[0])}", float(objective))
        for solution, objective, measures in zip(*data, strict=True)
    }
    assert {e.cell: (e.candidate, e.objective) for e in ours.elites()} == expected
    if items:
        assert ours.best is not None
        assert ours.best.objective == pytest.approx(float(theirs.stats.obj_max))


@given(items=additions)
def test_no_cell_gets_worse_and_coverage_never_falls(
    items: list[tuple[tuple[int, ...], float]],
) -> None:
    grid = Grid(DIMS, qd_offset=OFFSET)
    history: list[tuple[dict[tuple[int, ...], float], float]] = [({}, 0.0)]
    for index, (cell, objective) in enumerate(items):
        grid.add(elite(cell, objective, index))
        history.append(({e.cell: e.objective for e in grid.elites()}, grid.coverage))
    for (before, covered), (after, covers) in pairwise(history):
        assert covers >= covered
        assert all(after[cell] >= objective for cell, objective in before.items())


@given(cell=cells, objective=objectives, count=st.integers(2, 6))
def test_of_equal_candidates_the_first_stays(
    cell: tuple[int, ...], objective: float, count: int
) -> None:
    grid = grid_of([(cell, objective)] * count)
    assert [e.candidate for e in grid.elites()] == ["c0"]


@given(items=additions, seed=st.integers(0, 2**32 - 1), count=st.integers(0, 5))
def test_a_sample_is_distinct_and_repeats_with_its_stream(
    items: list[tuple[tuple[int, ...], float]], seed: int, count: int
) -> None:
    grid = grid_of(items)
    first = grid.sample(np.random.default_rng(seed), count)
    assert first == grid.sample(np.random.default_rng(seed), count)
    assert len(first) == min(count, len(grid)) == len({e.cell for e in first})
    assert set(first) <= set(grid.elites())


@given(left=additions, right=additions)
def test_merging_islands_is_one_grid_filled_in_island_order(
    left: list[tuple[tuple[int, ...], float]], right: list[tuple[tuple[int, ...], float]]
) -> None:
    islands = [grid_of(left, 0), grid_of(right, 1)]
    merged = merge(islands, DIMS, qd_offset=OFFSET)
    for cell in {e.cell for grid in islands for e in grid.elites()}:
        holders = [h for grid in islands if (h := grid.elite(cell)) is not None]
        best = max(holders, key=lambda h: (h.objective, -h.slot.island))
        assert merged.elite(cell) == best
    assert len(merged) == len({e.cell for grid in islands for e in grid.elites()})


def test_an_addition_tells_what_it_brought() -> None:
    grid = Grid((2,))
    assert grid.add(elite((0,), 1.0)) == Addition(status=AddStatus.NEW, value=1.0)
    better = grid.add(elite((0,), 1.5, 1))
    assert better == Addition(status=AddStatus.IMPROVE_EXISTING, value=0.5)
    worse = grid.add(elite((0,), 1.0, 2))
    assert worse == Addition(status=AddStatus.NOT_ADDED, value=-0.5)
    assert not worse.status
    assert grid.elite((1,)) is None


def test_the_best_of_equals_is_the_earliest() -> None:
    grid = Grid((2,))
    grid.add(elite((1,), 1.0, 0))
    grid.add(elite((0,), 1.0, 1))
    assert grid.best is not None
    assert grid.best.candidate == "c0"
    assert Grid((2,)).best is None


def test_a_withdrawn_candidate_leaves_every_cell() -> None:
    grid = grid_of([((0, 0, 0), 1.0)])
    assert [e.candidate for e in grid.withdraw("c0")] == ["c0"]
    assert len(grid) == 0
    assert grid.withdraw("c0") == ()


def test_the_objective_is_the_logarithm_of_the_speedup() -> None:
    assert objective_of(1.0) == 0.0
    assert elite((0,), objective_of(2.5)).objective_speedup == pytest.approx(2.5)
    assert Grid((1,)).qd_offset == pytest.approx(math.log(0.01))


@pytest.mark.parametrize("cell", [(3, 0, 0), (-1, 0, 0), (0, 0), (0, 0, 0, 0)])
def test_a_cell_outside_the_grid_is_refused(cell: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="got the cell"):
        Grid(DIMS).add(elite(cell, 1.0))


@pytest.mark.parametrize("dims", [(), (0,), (2, -1)])
def test_a_grid_without_cells_is_refused(dims: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="at least one bin"):
        Grid(dims)
