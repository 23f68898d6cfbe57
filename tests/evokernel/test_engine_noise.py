"""A host too noisy to judge: asked again, counted, remembered, and held against nobody."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from io import StringIO
from pathlib import Path

import numpy as np
from rich.console import Console

from archives.attempt import AttemptState
from archives.evaluation import Evaluation, Status
from archives.export import canonical_export
from evaluator.evaluator import Capacity, EvaluationRequest, Purpose
from evokernel.cli.report import print_report
from evokernel.engine import Engine
from evokernel.progress import summary_line
from evokernel.replay import ReplayEvaluator
from evokernel.report import read_report
from evokernel.report_json import report_to_json
from operators.operator import OperatorContext, Parent, Proposal
from tests.evokernel import landscape as world


class Noisy:
    """Calls every search of some requests unstable, so many times each."""

    def __init__(self, times: int) -> None:
        self.times = times
        self.asked: Counter[str] = Counter()

    def __call__(self, request: EvaluationRequest) -> Evaluation | None:
        if request.purpose is Purpose.VERIFY or int(request.candidate.id[0], 16) % 2:
            return None
        self.asked[request.candidate.id] += 1
        if self.asked[request.candidate.id] > self.times:
            return None
        return Evaluation(status=Status.UNSTABLE, reason="host_noisy", cost_s=0.25)


def test_an_unstable_verdict_is_asked_for_once_more(tmp_path: Path) -> None:
    config = world.config()
    exports = []
    for name, verdict in (("quiet", None), ("noisy", Noisy(1))):
        with world.new_store(tmp_path / name, config) as store:
            world.sit(store, config, world.Landscape(verdict=verdict))
            assert store.counts().unstable == 0
            exports.append(sorted(a.candidate or "" for a in store.attempts(generation=0)))
    assert exports[0] == exports[1]


def test_what_stays_unstable_is_counted_and_replayed_as_it_was(tmp_path: Path) -> None:
    config = world.config("search.generations=6", "rng_seed=2")
    noisy = Noisy(2)
    with world.new_store(tmp_path / "run", config, 1) as store:
        world.sit(store, config, world.Landscape(verdict=noisy))
        assert store.counts().unstable == sum(times >= 2 for times in noisy.asked.values()) > 0
        assert len(store.elites(world.problem(1).key)) > 0
        expected = canonical_export(store)
        replay = ReplayEvaluator(store)
        with world.new_store(tmp_path / "again", config, 1) as again:
            engine = Engine(
                store=again, config=config, evaluator=replay, operators=world.operators()
            )
            asyncio.run(engine.run())
            assert canonical_export(again) == expected


def test_a_noisy_run_that_was_interrupted_is_resumed_to_the_same_end(tmp_path: Path) -> None:
    def always(request: EvaluationRequest) -> Evaluation | None:
        if request.purpose is Purpose.SEARCH and int(request.candidate.id[0], 16) % 3 == 0:
            return Evaluation(status=Status.UNSTABLE, reason="host_noisy", cost_s=0.25)
        return None

    config = world.config("search.generations=5", "rng_seed=2")
    with world.new_store(tmp_path / "whole", config, 1) as store:
        world.sit(store, config, world.Landscape(verdict=always))
        expected = [(a.slot, a.operator, a.candidate) for a in store.attempts()]
    with world.new_store(tmp_path / "parts", config, 1) as store:
        for generations in range(6):
            part = world.config(f"search.generations={generations}", "rng_seed=2")
            world.sit(store, part, world.Landscape(verdict=always))
        assert [(a.slot, a.operator, a.candidate) for a in store.attempts()] == expected


def test_repairing_operators_never_start_from_what_the_host_was_too_noisy_for(
    tmp_path: Path,
) -> None:
    def verdict(request: EvaluationRequest) -> Evaluation:
        return Evaluation(status=Status.UNSTABLE, reason="host_noisy")

    class Repair(world.Start):
        name = "repair"
        num_parents = (1, 1)
        from_failures = True

    config = world.config('operators.use=["sketch"]')
    with world.new_store(tmp_path / "run", config, 1) as store:
        engine = Engine(
            store=store,
            config=config,
            evaluator=world.Landscape(verdict=verdict),
            operators={**world.operators(), "repair": Repair()},
        )
        asyncio.run(engine.run())
        assert not any(a.operator == "repair" for a in store.attempts())


def test_a_host_too_noisy_to_calibrate_is_remembered(tmp_path: Path) -> None:
    class Busy(world.Landscape):
        async def start(self) -> Capacity:
            return replace(await super().start(), noise_floor=0.05, noisy=True)

    config = world.config("search.generations=0")
    with world.new_store(tmp_path / "run", config, 1) as store:
        engine = Engine(store=store, config=config, evaluator=Busy(), operators=world.operators())
        asyncio.run(engine.run())
        assert store.run().noisy
        assert "noisy host" in summary_line(engine)
        report = read_report(store)
        assert report_to_json(report)["noisy"] is True
        out = Console(file=StringIO(), width=120)
        print_report(report, out)
        text = out.file.getvalue()  # type: ignore[attr-defined] # it is a StringIO
        assert "too noisy to calibrate: a noise floor of 5% is assumed" in text


def test_what_stays_unstable_may_be_tried_again(tmp_path: Path) -> None:
    class Stubborn(world.Start):
        async def propose(
            self, parents: Sequence[Parent], context: OperatorContext, rng: np.random.Generator
        ) -> Proposal:
            return Proposal(source=world.PROGRAM, note="again")

    def verdict(request: EvaluationRequest) -> Evaluation | None:
        asked.append(request.candidate.id)
        if "CONFIG" in request.candidate.source and asked.count(request.candidate.id) <= 2:
            return Evaluation(status=Status.UNSTABLE, reason="host_noisy")
        return None

    asked: list[str] = []
    config = world.config(
        'operators.use=["sketch"]', "search.islands=1", "search.initial=1", "search.proposals=1",
        "search.generations=2", "evaluation.verify=false",
    )  # fmt: skip
    with world.new_store(tmp_path / "run", config, 1) as store:
        engine = Engine(
            store=store,
            config=config,
            evaluator=world.Landscape(verdict=verdict),
            operators={"seed": world.operators()["seed"], "sketch": Stubborn()},
        )
        asyncio.run(engine.run())
        first, second, third = (a for a in store.attempts() if a.note == "again")
        assert (first.reason, first.duplicate_of) == ("host_noisy", None)
        assert (second.state, second.duplicate_of) == (AttemptState.ARCHIVED, None)
        assert third.duplicate_of == second.slot
        assert second.result in {e.candidate for e in store.elites(world.problem(1).key)}
