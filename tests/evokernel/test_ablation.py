"""`benchmarks/ablation.py`, on worlds of a few points."""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from archives.evaluation import Evaluation, KernelFacts, Status
from benchmarks import ablation_variants
from benchmarks.ablation import PROBLEMS
from benchmarks.ablation_record import Slice, record
from benchmarks.ablation_replay import Plan, digest_of, read_runs, replay, search
from benchmarks.ablation_tables import Table, path_of, table_paths
from benchmarks.ablation_variants import FULL, VARIANTS, config_of
from benchmarks.ablation_worlds import World, thinned
from evaluator.evaluator import Capacity, EvaluationRequest
from problems.catalogue import load_level, parse_ids
from problems.errors import ConfigError, EvaluatorError, ProblemError
from problems.problem import Scale
from problems.trace import trace
from tests.evokernel import landscape as valley
from tests.evokernel.small_world import ZEROS, small_world

PLAN = Slice(evaluations=24, points=12)


def recorded(folder: Path, evaluator: valley.Landscape, plan: Slice = PLAN) -> Table:
    asyncio.run(record(folder, [valley.problem(1)], evaluator, plan))
    return Table.read(path_of(folder, valley.problem(1)))


def begun(folder: Path) -> Path:
    path = path_of(folder, valley.problem(1))
    Table.create(path, small_world())
    return path


def made_up(number: int, configuration: dict[str, object], luck: np.random.Generator) -> Evaluation:
    """A verdict that the configuration decides on, with noise of 1 %."""
    draw = np.random.default_rng([number, *json.dumps(configuration, sort_keys=True).encode()])
    speedup = 1.0 if number == 0 else math.exp(draw.normal(0.3, 0.5) + luck.normal(0, 0.01))
    facts = KernelFacts(launches=1 + number, own_kernel_share=float(number > 0), work=64 << number)
    return valley.fit(speedup, replace(facts, reuse=valley.facts_at(ZEROS).reuse))


def real_world(folder: Path, number: int, times: int) -> Table:
    """The sketches of a problem of level 1, with made-up verdicts."""
    problem = load_level(1, Scale.SMALL, [number])[0]
    device = replace(valley.DEVICE, vector_bits=256)
    capacity = Capacity(device=device, in_flight=1, noise_floor=0.015, memory_bytes=0)
    world = World.write(problem, trace(problem.source), capacity, 30)
    table = Table.create(path_of(folder, problem), world)
    luck = np.random.default_rng(0)
    for program, configuration in world.points():
        for _ in range(times):
            table.add(program, configuration, made_up(program, dict(configuration), luck))
    return table


def test_recording_measures_each_point_as_often_as_asked_and_then_no_more(tmp_path: Path) -> None:
    begun(tmp_path)
    evaluator = valley.Landscape()
    table = recorded(tmp_path, evaluator)
    assert len(evaluator.requests) == 3 * 13, "three times at least"
    assert {len(found) for found in table.measured.values()} == {3}
    assert evaluator.is_closed
    recorded(tmp_path, more := valley.Landscape(), replace(PLAN, evaluations=50))
    assert len(more.requests) == 13
    again = valley.Landscape()
    recorded(tmp_path, again)
    assert again.requests == []


def test_recording_goes_on_where_it_stopped_even_in_the_middle_of_a_line(tmp_path: Path) -> None:
    path = begun(tmp_path)
    recorded(tmp_path, over := valley.Landscape(), replace(PLAN, end=time.monotonic()))
    assert over.requests == []
    recorded(tmp_path, valley.Landscape())
    whole = path.read_text()
    path.write_text(whole[:-40])
    recorded(tmp_path, once := valley.Landscape())
    assert len(once.requests) == 1
    assert sorted(path.read_text().splitlines()) == sorted(whole.splitlines())


def test_a_busy_host_is_asked_again_but_not_for_ever(tmp_path: Path) -> None:
    begun(tmp_path)
    unstable = Evaluation(status=Status.UNSTABLE, reason="noisy_host")
    busy = valley.Landscape(verdict=lambda request: unstable)
    for _ in range(2):
        table = recorded(tmp_path, busy)
        assert len(busy.requests) == 3 * 13
    assert table.num_measurements == 0


def test_a_point_that_the_evaluator_fails_at_has_no_verdict_and_the_others_have(
    tmp_path: Path,
) -> None:
    begun(tmp_path)
    errors = [EvaluatorError("the worker died"), ProblemError("no memory")]

    def verdict(request: EvaluationRequest) -> Evaluation | None:
        if request.candidate.id == doomed and errors:
            raise errors.pop()
        return None

    number, configuration = list(small_world().points())[5]
    doomed = small_world().candidate(number, configuration).id
    table = recorded(tmp_path, valley.Landscape(verdict=verdict))
    assert not errors
    assert [one.status for one in table.measured[doomed]].count(Status.UNSTABLE) == 2
    assert table.num_measurements == 3 * 13 - 2
    assert table.lacks(number, configuration, 3) == 2
    table = recorded(tmp_path, valley.Landscape())
    assert table.lacks(number, configuration, 3) == 0


def test_an_evaluator_that_fails_again_and_again_ends_the_recording(tmp_path: Path) -> None:
    path = begun(tmp_path)

    def verdict(request: EvaluationRequest) -> Evaluation | None:
        raise ProblemError("no such module")

    with pytest.raises(EvaluatorError, match=r"8 times in a row.*Valley1.*no such module"):
        recorded(tmp_path, valley.Landscape(verdict=verdict))
    assert len(path.read_text().splitlines()) == 1 + 7


def test_numbers_of_two_devices_never_mix(tmp_path: Path) -> None:
    path = begun(tmp_path)
    path.write_text(path.read_text().replace("landscape-0", "elsewhere"))
    with pytest.raises(ConfigError, match="take another folder"):
        recorded(tmp_path, valley.Landscape())


def test_a_file_that_is_no_table_stays_as_it_is(tmp_path: Path) -> None:
    foreign = path_of(tmp_path, valley.problem(1))
    for text in ("a note\nof two li", '{"a": 1}', "", "\xff\xfe"):
        foreign.write_text(text, encoding="latin-1")
        with pytest.raises(ConfigError, match="is no"):
            recorded(tmp_path, valley.Landscape())
        assert foreign.read_text(encoding="latin-1") == text


def test_reading_does_not_touch_a_table_that_is_being_recorded(tmp_path: Path) -> None:
    path = begun(tmp_path)
    recorded(tmp_path, valley.Landscape())
    whole = path.read_text()
    path.write_text(whole[:-40])
    assert Table.read(path).num_measurements == 3 * 13 - 1
    assert path.read_text() == whole[:-40]


def test_a_table_is_known_by_what_its_file_says(tmp_path: Path) -> None:
    path = begun(tmp_path)
    digests = {Table.read(path).digest}
    table = recorded(tmp_path, valley.Landscape())
    digests.add(table.digest)
    table.add(0, {}, valley.fit(1.0, valley.facts_at(ZEROS)))
    digests.add(table.digest)
    assert len(digests) == 3
    assert table.digest == Table.read(path).digest
    assert table.digest == hashlib.sha256(path.read_bytes()).hexdigest()


# Without 97: the 513 points of its world take longer to write than those of the others together.
@pytest.mark.parametrize("number", [one for one in parse_ids(PROBLEMS) if one != 97])
def test_what_is_bred_stays_in_the_world_of_real_sketches(tmp_path: Path, number: int) -> None:
    table = real_world(tmp_path, number, times=1)
    run = search(table, FULL, 0, 30)
    assert run.unknown == 0
    assert run.evaluations == min(30, len(table.measured))


@pytest.mark.parametrize("variant", VARIANTS)
def test_no_variant_leaves_the_world_of_real_sketches(tmp_path: Path, variant: str) -> None:
    table = real_world(tmp_path, 93, times=3)
    run = search(table, variant, 0, 24)
    assert run.unknown == 0
    assert run.evaluations == 24
    counts, speedups = zip(*run.steps, strict=True)
    assert list(counts) == sorted(set(counts))
    assert 1.0 < max(speedups) <= table.best * 1.1
    assert search(table, variant, 0, 24).steps == run.steps
    assert search(table, variant, 1, 24).steps != run.steps


def test_what_counts_is_the_median_and_not_what_was_seen(tmp_path: Path) -> None:
    table = Table.create(tmp_path / "t.jsonl", small_world())
    luck = np.random.default_rng(0)
    for number, configuration in table.world.points():
        for speedup in (1.0, 1.0) if number == 0 else (1.5, 1.5, 1.5, float(luck.uniform(3, 9))):
            table.add(number, configuration, valley.fit(speedup, valley.facts_at(ZEROS)))
    runs = [search(table, "random configurations", seed, 13) for seed in range(6)]
    assert {value for run in runs for _, value in run.steps} == {1.0, 1.5}


def test_the_measurement_that_a_search_saw_is_left_out_of_what_counts(tmp_path: Path) -> None:
    table = Table.create(tmp_path / "t.jsonl", small_world())
    for speedup in (1.0, 2.0, 4.0):
        table.add(1, ZEROS, valley.fit(speedup, valley.facts_at(ZEROS)))
    table.add(1, ZEROS, Evaluation(status=Status.UNSTABLE, reason="noisy_host"))
    (candidate,) = table.measured
    pairs = {}
    for seed in range(30):
        verdict = table.verdict(candidate, seed)
        assert verdict is not None
        pairs[verdict.speedup] = table.value(candidate, seed)
    assert pairs == {1.0: 3.0, 2.0: 2.5, 4.0: 1.5}
    assert table.value(candidate) == 2.0


def test_what_was_measured_once_only_counts_as_nothing(tmp_path: Path) -> None:
    table = Table.create(tmp_path / "t.jsonl", small_world())
    table.add(1, ZEROS, valley.fit(2.0, valley.facts_at(ZEROS)))
    (candidate,) = table.measured
    assert table.value(candidate, 0) is None


def test_a_point_that_no_table_has_costs_an_evaluation_and_is_counted(tmp_path: Path) -> None:
    table = Table.create(tmp_path / "t.jsonl", small_world())
    for number, configuration in table.world.points():
        if configuration.get("A") != 6:
            table.add(number, configuration, valley.fit(1.5, valley.facts_at(ZEROS)))
    run = search(table, FULL, 0, 9)
    assert run.evaluations == 9
    assert 0 < run.unknown < 9


def test_replays_are_appended_once_and_read_back(tmp_path: Path) -> None:
    begun(tmp_path)
    recorded(tmp_path, valley.Landscape())
    out = tmp_path / "runs.jsonl"
    for seeds in (1, 2, 2):
        plan = Plan(variants=[FULL], seeds=seeds, evaluations=13, jobs=1)
        replay(table_paths(tmp_path), out, plan)
    runs = read_runs([out])
    assert [(run.variant, run.seed) for run in runs] == [(FULL, 0), (FULL, 1)]
    (path,) = table_paths(tmp_path)
    assert runs[0].steps[-1][1] == pytest.approx(Table.read(path).best)

    whole = out.read_text()
    out.write_text(whole[:-40])
    assert read_runs([out]) == runs[:1], "a kill cut the second one off"
    replay(table_paths(tmp_path), out, plan)
    assert [(run.variant, run.seed) for run in read_runs([out])] == [(FULL, 0), (FULL, 1)]


def test_a_changed_table_or_variant_is_replayed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun(tmp_path)
    table = recorded(tmp_path, valley.Landscape())
    out = tmp_path / "runs.jsonl"
    plan = Plan(variants=[FULL], seeds=1, evaluations=13, jobs=1)
    replay([table.path], out, plan)
    line = table.path.read_text().splitlines()[-1]
    table.path.write_text(table.path.read_text().replace(line, line.replace("0.25", "0.5")))
    # A sitting reads each table once; this is another one's.
    other = tmp_path / "other"
    path = other / table.path.name
    other.mkdir()
    path.write_bytes(table.path.read_bytes())
    replay([path], out, plan)
    assert len(read_runs([out])) == 2
    greedier = replace(VARIANTS[FULL], settings=("operators.floor=0.2",))
    monkeypatch.setattr(ablation_variants, "VARIANTS", {FULL: greedier})
    replay([path], out, plan)
    assert len(read_runs([out])) == 3
    assert len({(run.table, run.config) for run in read_runs([out])}) == 3


def test_only_what_a_replay_depends_on_makes_it_another_search() -> None:
    config = config_of(FULL, 3, 300)
    judged = config.evaluation.model_copy(update={"library": "allow"})
    known = digest_of(config)
    assert digest_of(config.model_copy(update={"evaluation": judged})) == known
    bred = config.search.model_copy(update={"islands": 2})
    assert digest_of(config.model_copy(update={"search": bred})) != known
    assert digest_of(config_of(FULL, 4, 300)) != known


def test_a_variant_that_does_not_exist_is_named_with_those_that_do(tmp_path: Path) -> None:
    plan = Plan(variants=["no iland"], seeds=1, evaluations=13, jobs=1)
    with pytest.raises(ConfigError, match=r"no variant 'no iland'.*'no islands'"):
        replay([], tmp_path / "runs", plan)


def test_searches_are_never_added_to_another_kind_of_file(tmp_path: Path) -> None:
    out = tmp_path / "notes"
    plan = Plan(variants=[FULL], seeds=1, evaluations=13, jobs=1)
    for text in ("a note\n", '{"a": 1}\n', '{"a": 1}'):
        out.write_text(text)
        with pytest.raises(ConfigError, match="another file"):
            replay([], out, plan)
        assert out.read_text() == text


def test_a_table_that_is_not_finished_is_not_replayed(tmp_path: Path) -> None:
    path = begun(tmp_path)
    plan = Plan(variants=[FULL], seeds=1, evaluations=13, jobs=1)
    with pytest.raises(ConfigError, match=r"13 points .* less than 3 times"):
        replay([path], tmp_path / "runs", plan)


@given(
    sizes=st.lists(st.integers(1, 6), min_size=1, max_size=5),
    least=st.integers(1, 400),
    data=st.data(),
)
def test_thinning_keeps_the_start_and_as_many_points_as_asked(
    sizes: list[int], least: int, data: st.DataObject
) -> None:
    space = {f"P{place}": list(range(size)) for place, size in enumerate(sizes)}
    start = {name: data.draw(st.sampled_from(choices)) for name, choices in space.items()}
    kept = thinned(space, start, least)
    assert math.prod(map(len, kept.values())) >= min(least, math.prod(sizes))
    for name, choices in kept.items():
        assert start[name] in choices
        assert [choice for choice in space[name] if choice in choices] == list(choices)
        assert len(choices) >= min(2, len(space[name]))
