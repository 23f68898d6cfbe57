"""What the store keeps of grids: elites, migrants, tallies, withdrawals."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from archives.attempt import AttemptState
from archives.evaluation import Evaluation, Rung, Status
from archives.grid import Addition, AddStatus, Grid
from archives.records import (
    GenerationOutcome,
    Insertion,
    Migration,
    OperatorTally,
)
from archives.store import Store
from tests.archives.store_rows import FAILURE, RUN, P, Q, at, insertion, ok, program, proposal, tell

UNSTABLE = Evaluation(status=Status.UNSTABLE, reason="host_noisy")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.create(tmp_path / "run", RUN) as opened:
        opened.add_problems([P, Q])
        yield opened


def test_a_generation_ends_once_with_everything_it_brought(store: Store) -> None:
    first, second = program(1), program(2)
    tell(store, at(0), first, ok(2.0))
    tell(store, at(1), second, ok(3.0))
    migrant = proposal(
        at(0, 0, 1),
        second,
        at(1),
        operator="migrate",
        state=AttemptState.ARCHIVED,
        result=second.id,
    )
    tally = OperatorTally(
        problem=P.key, generation=0, operator="tune", attempts=2, evaluated=2, accepted=2, gain=0.7
    )
    outcome = GenerationOutcome(
        insertions=(
            insertion(at(0), first, 2.0),
            insertion(at(1), second, 3.0),
            insertion(at(0, 0, 1), second, 3.0),
        ),
        migrants=(migrant,),
        tallies=(tally,),
    )
    for _ in range(2):
        store.finish_generation(P.key, 0, outcome)
        assert store.generation_reached(P.key) == 0
        assert [(e.slot, e.candidate) for e in store.elites(P.key)] == [
            (at(1), second.id),
            (at(0, 0, 1), second.id),
        ]
        assert store.migrations(P.key) == [
            Migration(source=at(1), target=at(0, 0, 1), candidate=second.id)
        ]
        assert store.tallies(P.key) == store.tallies() == [tally]
        assert {a.state for a in store.attempts(P.key)} == {AttemptState.ARCHIVED}
    assert store.insertions(P.key) == list(outcome.insertions)
    assert [e.slot for e in store.elites(P.key, island=1)] == [at(0, 0, 1)]
    assert store.generation_reached(Q.key) is None
    assert store.counts().attempts == 2


def test_the_next_best_follows_a_withdrawn_elite(store: Store) -> None:
    candidates = [program(number) for number in range(3)]
    for index, (candidate, speedup) in enumerate(zip(candidates, (2.0, 5.0, 3.0), strict=True)):
        tell(store, at(index), candidate, ok(speedup))
    offers = [
        insertion(at(i), c, s) for i, (c, s) in enumerate(zip(candidates, (2.0, 5.0), strict=False))
    ]
    late = insertion(at(2), candidates[2], 3.0)
    refused = Addition(status=AddStatus.NOT_ADDED, value=-0.5)
    offers.append(Insertion(elite=late.elite, addition=refused))
    store.finish_generation(P.key, 0, GenerationOutcome(insertions=tuple(offers)))
    expected = [candidates[1], candidates[2], candidates[0]]
    for candidate in expected:
        assert [e.candidate for e in store.elites(P.key)] == [candidate.id]
        store.withdraw(P.key, candidate.id, "failed its verification")
    assert store.elites(P.key) == []
    assert store.known(P.key)[candidates[0].id].withdrawn == "failed its verification"
    assert len(store.attempts(P.key)) == 3
    newcomer = program(9)
    tell(store, at(0, 1), newcomer, ok(1.5))
    store.finish_generation(
        P.key, 1, GenerationOutcome(insertions=(insertion(at(0, 1), newcomer, 1.5),))
    )
    assert [e.candidate for e in store.elites(P.key)] == [newcomer.id]


def test_no_insertion_takes_a_cell_from_a_better_elite(store: Store) -> None:
    best, worse = program(0), program(1)
    tell(store, at(0), best, ok(3.0))
    tell(store, at(0, 1), worse, ok(2.0))
    for generation, (candidate, speedup) in enumerate(((best, 3.0), (worse, 2.0))):
        # Both come as NEW: whoever offers the second one believes the cell to be empty.
        offered = insertion(at(0, generation), candidate, speedup)
        store.finish_generation(P.key, generation, GenerationOutcome(insertions=(offered,)))
    assert [elite.candidate for elite in store.elites(P.key)] == [best.id]


offers = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 1), st.sampled_from([0.5, 1.0, 2.0, 4.0])),
    max_size=12,
)


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(generations=st.lists(offers, max_size=3))
def test_a_reopened_store_holds_the_same_archive(
    generations: list[list[tuple[int, int, float]]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    grids = (Grid((4, 2)), Grid((4, 2)))
    folder = tmp_path_factory.mktemp("archive") / "run"
    with Store.create(folder, RUN) as store:
        store.add_problems([P])
        for generation, children in enumerate(generations):
            insertions = []
            for index, (cell, island, speedup) in enumerate(children):
                slot = at(index, generation, island)
                candidate = program(100 * generation + index)
                tell(store, slot, candidate, ok(speedup))
                elite = insertion(slot, candidate, speedup, cell).elite
                insertions.append(Insertion(elite=elite, addition=grids[island].add(elite)))
            store.finish_generation(
                P.key, generation, GenerationOutcome(insertions=tuple(insertions))
            )
    with Store.open(folder) as store:
        for island, grid in enumerate(grids):
            assert tuple(store.elites(P.key, island)) == grid.elites()


def test_of_each_elite_that_passed_the_evaluation_is_told_that_counts(store: Store) -> None:
    searched, verified, failed, beaten = program(1), program(2), program(3), program(4)
    for index, candidate in enumerate((searched, verified, failed, beaten)):
        tell(store, at(index), candidate, ok(2.0 + index))
    outcome = GenerationOutcome(
        insertions=tuple(
            insertion(at(index), candidate, 2.0 + index, cell=index)
            for index, candidate in enumerate((searched, verified, failed))
        )
    )
    store.finish_generation(P.key, 0, outcome)
    store.record_verification(P.key, verified.id, ok(1.9, Rung.VERIFY))
    store.record_verification(P.key, verified.id, UNSTABLE)
    store.record_verification(P.key, failed.id, FAILURE)
    assert store.elite_evaluations(P.key) == {
        searched.id: ok(2.0),
        verified.id: ok(1.9, Rung.VERIFY),
    }
    assert store.elite_evaluations(Q.key) == {}
