"""What fails its verification during the search is withdrawn, and nothing else gets lost."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from archives.configuration import read_configuration
from archives.evaluation import Evaluation, Status
from archives.export import canonical_export
from archives.store import Store
from evaluator.evaluator import EvaluationRequest, Purpose
from evokernel.config import RunConfig
from tests.evokernel import landscape as world
from tests.evokernel.gpu_landscape import GpuLandscape

KEY = world.problem(1).key
REFUTED = Evaluation(status=Status.WRONG_VALUE, reason="wrong_when_verified")


class Deceptive(GpuLandscape):
    """Every third point looks as if at the device's ceiling, and fails its verification."""

    def __init__(self, stop_at: int | None = None) -> None:
        super().__init__()
        self.stop_at = stop_at

    def judge(self, request: EvaluationRequest) -> Evaluation:
        found = super().judge(request)
        if found.configuration and sum(map(int, found.configuration.values())) % 3 == 0:
            return replace(found, roofline_share=0.98)
        return replace(found, roofline_share=0.5)

    async def evaluate(self, request: EvaluationRequest) -> Evaluation:
        if len(self.requests) == self.stop_at:
            raise KeyboardInterrupt
        if request.purpose is Purpose.SEARCH:
            return await super().evaluate(request)
        self.requests.append(request)
        point = read_configuration(request.candidate.source)
        if sum(map(int, point.values())) % 3 == 0:
            return Evaluation(status=Status.WRONG_VALUE, reason="wrong_when_verified")
        return self.judge(request)


def config(rng_seed: int) -> RunConfig:
    return world.config(
        "search.generations=8",
        "search.islands=2",
        "search.proposals=4",
        "evaluation.verify_tries=20",
        f"rng_seed={rng_seed}",
    )


def withdrawn(store: Store) -> set[str]:
    return {known.id for known in store.known(KEY).values() if known.withdrawn}


@pytest.mark.parametrize("rng_seed", [0, 1, 2])
def test_every_cell_keeps_the_best_that_holds(rng_seed: int, tmp_path: Path) -> None:
    run_config = config(rng_seed)
    with world.new_store(tmp_path / "run", run_config, 1) as store:
        evaluator = Deceptive()
        world.sit(store, run_config, evaluator)
        gone = withdrawn(store)
        purposes = [request.purpose for request in evaluator.requests]
        first = purposes.index(Purpose.VERIFY)
        assert gone
        assert Purpose.SEARCH in purposes[first:], "something is withdrawn during the search"
        best: dict[tuple[int, tuple[int, ...]], float] = {}
        for insertion in store.insertions(KEY):
            elite = insertion.elite
            if elite.candidate not in gone:
                place = (elite.slot.island, elite.cell)
                best[place] = max(best.get(place, elite.objective), elite.objective)
        held = {(e.slot.island, e.cell): e.objective for e in store.elites(KEY)}
        assert held == best
        assert not gone & {elite.candidate for elite in store.elites(KEY)}


@pytest.mark.parametrize("rng_seed", [5])
def test_an_interrupted_run_with_withdrawals_goes_on_to_the_same_end(
    rng_seed: int, tmp_path: Path
) -> None:
    run_config = config(rng_seed)
    with world.new_store(tmp_path / "whole", run_config, 1) as store:
        evaluator = Deceptive()
        world.sit(store, run_config, evaluator)
        assert withdrawn(store)
        expected = canonical_export(store)
    requests = evaluator.requests
    checks = [i for i, r in enumerate(requests) if r.purpose is Purpose.VERIFY]
    stops = {checks[0], checks[0] + 1, checks[len(checks) // 2] + 2, 2 * len(requests) // 3}
    for stop in stops:
        with world.new_store(tmp_path / str(stop), run_config, 1) as store:
            with pytest.raises(KeyboardInterrupt):
                world.sit(store, run_config, Deceptive(stop))
            world.sit(store, run_config, Deceptive())
            assert canonical_export(store) == expected


def test_a_verification_between_sittings_says_which_generation_was_finished(tmp_path: Path) -> None:
    run_config = config(0)
    with world.new_store(tmp_path / "run", run_config, 1) as store:
        with pytest.raises(KeyboardInterrupt):
            world.sit(store, run_config, Deceptive(25))
        reached = store.generation_reached(KEY)
        assert reached
        best = max(store.elites(KEY), key=lambda elite: elite.objective).candidate
        store.record_verification(KEY, best, REFUTED)
        assert store.evaluations(KEY, best)[-1].after == reached


def test_what_failed_just_before_a_kill_is_withdrawn_where_the_run_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_config = config(0)
    with world.new_store(tmp_path / "whole", run_config, 1) as store:
        world.sit(store, run_config, Deceptive())
        expected = canonical_export(store)

    def killed(self: Store, problem_key: str, candidate_id: str, reason: str) -> None:
        raise KeyboardInterrupt

    with world.new_store(tmp_path / "run", run_config, 1) as store:
        monkeypatch.setattr(Store, "withdraw", killed)
        with pytest.raises(KeyboardInterrupt):
            world.sit(store, run_config, Deceptive())
        monkeypatch.undo()
        assert not withdrawn(store)
        world.sit(store, run_config, Deceptive())
        assert canonical_export(store) == expected
