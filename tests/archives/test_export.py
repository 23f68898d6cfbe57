import json
from dataclasses import replace
from pathlib import Path

from archives.attempt import Attempt, AttemptState, Slot
from archives.candidate import Candidate
from archives.evaluation import Evaluation, Interval, Rung, Status
from archives.export import canonical_export
from archives.grid import Addition, AddStatus, Elite
from archives.records import GenerationOutcome, Insertion, OperatorTally, RunRecord
from archives.store import Store
from problems.problem import Problem, Scale

P = Problem(level=1, id=1, name="P", family="f", scale=Scale.TINY, source="class Model: ...\n")


def export_of(
    folder: Path,
    *,
    pace_s: float,
    order: tuple[int, ...],
    name: str,
    best: float = 2.0,
    model: str = "openai/large",
) -> str:
    """Export a run whose verdicts arrived in some order, at some pace."""
    record = RunRecord(name=name, created=name, config_json="{}", rng_seed=1, scale="tiny")
    slots = [Slot(problem=P.key, generation=0, island=0, index=i) for i in range(3)]
    programs = [Candidate.of(P.key, f"NUMBER = {i}") for i in range(3)]
    with Store.create(folder, record) as store:
        store.add_problems([P])
        for slot, program in zip(slots, programs, strict=True):
            attempt = Attempt(
                slot=slot,
                operator="llm.mutate",
                model=model,
                candidate=program.id,
                cost_s=pace_s,
                cost_usd=pace_s,
            )
            store.propose(attempt, program)
        for index in order:
            verdict = Evaluation(
                status=Status.OK,
                rung=Rung.TIME,
                latency_ms=1.0,
                speedup=best,
                interval=Interval(low=1.0, high=3.0),
                cost_s=pace_s,
            )
            store.record(slots[index], verdict)
        elite = Elite(cell=(0,), objective=0.5, slot=slots[0], candidate=programs[0].id)
        migrant = Attempt(
            slot=replace(slots[0], island=1),
            operator="migrate",
            parents=(slots[0],),
            state=AttemptState.ARCHIVED,
            candidate=programs[0].id,
            result=programs[0].id,
        )
        tally = OperatorTally(problem=P.key, generation=0, operator="sketch", cost_s=pace_s)
        addition = Addition(status=AddStatus.NEW, value=0.5)
        outcome = GenerationOutcome(
            insertions=(Insertion(elite=elite, addition=addition),),
            migrants=(migrant,),
            tallies=(tally,),
        )
        store.finish_generation(P.key, 0, outcome)
        store.record_verification(P.key, programs[0].id, verdict)
        return canonical_export(store)


def test_pace_order_and_name_leave_no_trace(tmp_path: Path) -> None:
    first = export_of(tmp_path / "a", pace_s=1.0, order=(0, 1, 2), name="a")
    second = export_of(tmp_path / "b", pace_s=9.0, order=(2, 0, 1), name="b")
    assert first == second


def test_another_verdict_shows(tmp_path: Path) -> None:
    first = export_of(tmp_path / "a", pace_s=1.0, order=(0, 1, 2), name="a")
    second = export_of(tmp_path / "b", pace_s=1.0, order=(0, 1, 2), name="a", best=2.5)
    assert first != second


def test_another_model_shows(tmp_path: Path) -> None:
    first = export_of(tmp_path / "a", pace_s=1.0, order=(0, 1, 2), name="a")
    second = export_of(tmp_path / "b", pace_s=1.0, order=(0, 1, 2), name="a", model="openai/small")
    assert first != second
    (exported,) = json.loads(second)["problems"]
    models = [attempt["model"] for attempt in exported["attempts"]]
    assert sorted(models) == ["", "openai/small", "openai/small", "openai/small"]


def test_the_export_holds_the_whole_search(tmp_path: Path) -> None:
    text = export_of(tmp_path / "a", pace_s=1.0, order=(0, 1, 2), name="a")
    (exported,) = json.loads(text)["problems"]
    assert exported["label"] == "1/1 P"
    assert len(exported["attempts"]) == 4
    assert len(exported["candidates"]) == 3
    assert [e["purpose"] for e in exported["evaluations"]] == ["search"] * 3 + ["verify"]
    assert exported["elites"][0]["cell"] == [0]
    assert exported["migrations"][0]["target"] == [0, 1, 0]
    assert "cost" not in text
