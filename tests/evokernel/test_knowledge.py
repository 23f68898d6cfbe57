"""What a model is told of a search."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from archives.evaluation import Evaluation, Rung, Status
from archives.store import Store
from evaluator.evaluator import EvaluationRequest
from evokernel.asking import Subject, inquire, subject_of_run
from evokernel.config import resolve
from operators.llm.focus import FOCUSES
from operators.registry import OPERATORS
from problems.errors import ConfigError
from tests.evokernel import landscape as world

ASKING = resolve(flags={"llm.models": ("test/one",)})


def often_wrong(request: EvaluationRequest) -> Evaluation | None:
    if int(request.candidate.id[:2], 16) % 3:
        return None
    log = f"largest error {request.candidate.id[0]} at 3"
    return Evaluation(
        status=Status.WRONG_VALUE, reason="wrong_value", rung=Rung.BUILD, log=log, cost_s=0.1
    )


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    config = world.config("search.generations=6", "evaluation.verify=false")
    with world.new_store(tmp_path_factory.mktemp("runs") / "run", config, 2) as opened:
        world.sit(opened, config, world.Landscape(verdict=often_wrong))
        yield opened


def subject(store: Store, *parents: str) -> Subject:
    return subject_of_run(store, world.problem(1), parents)


def test_inspirations_are_elites_of_other_cells_from_slow_to_fast(store: Store) -> None:
    found = subject(store)
    key = world.problem(1).key
    elites = store.elites(key, 0)
    best = max(elites, key=lambda elite: elite.objective)
    parent = subject(store, best.candidate).parents
    islands = found.search.population.islands
    told = found.knowledge.brief_for(islands[0])(parent)
    assert 2 <= len(told.inspirations) <= 5
    speedups = [each.evaluation.speedup or 0.0 for each in told.inspirations]
    assert speedups == sorted(speedups)
    ids = [each.candidate.id for each in told.inspirations]
    assert len(set(ids)) == len(ids)
    assert best.candidate not in ids
    cells = {elite.candidate: elite.cell for elite in store.elites(key)}
    assert best.cell not in {cells[name] for name in ids if name in cells}
    assert told == found.knowledge.brief_for(islands[0])(parent)


def test_lessons_come_from_this_problem_and_from_its_family(store: Store) -> None:
    told = subject(store).knowledge.brief_for(subject(store).search.population.islands[0])(())
    assert len(told.lessons) == 1
    assert "here" in told.lessons[0]
    assert "in family landscape" in told.lessons[0]
    assert told.reference_ms == 1.0


def test_every_island_has_its_own_focus_and_changes_it_with_its_ways(store: Store) -> None:
    found = subject(store)
    islands = found.search.population.islands
    focuses = [found.knowledge.brief_for(island)(()).focus for island in islands]
    assert len(set(focuses)) == len(islands)
    assert set(focuses) <= set(FOCUSES)
    before = focuses[0]
    islands[0].changes += 1
    assert found.knowledge.brief_for(islands[0])(()).focus != before


def test_a_question_that_is_not_sent_is_the_one_that_would_be(store: Store) -> None:
    key = world.problem(1).key
    elite = max(store.elites(key), key=lambda each: each.objective)
    found = asyncio.run(
        inquire(subject(store, elite.candidate), OPERATORS["llm.mutate"], ASKING, None)
    )
    (exchange,) = found.exchanges
    prompt = exchange.messages[-1].text
    assert store.candidate(elite.candidate).source.strip() in prompt
    assert f"{1 / elite.objective_speedup:.3g} ms" in prompt
    assert found.proposal.reason == "llm_budget"


def test_a_repair_tells_the_log_of_the_failure(store: Store) -> None:
    failed = next(
        record
        for record in store.evaluations(world.problem(1).key)
        if record.evaluation.status is Status.WRONG_VALUE
    )
    found = asyncio.run(
        inquire(subject(store, failed.candidate), OPERATORS["llm.repair"], ASKING, None)
    )
    assert failed.evaluation.log in found.exchanges[0].messages[-1].text


@pytest.mark.parametrize(
    ("operator", "sentence"),
    [("llm.crossover", "wants 2 to 5 parents, got 0"), ("sketch", "does not ask a language model")],
)
def test_what_cannot_be_asked_is_said(store: Store, operator: str, sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        asyncio.run(inquire(subject(store), OPERATORS[operator], ASKING, None))
