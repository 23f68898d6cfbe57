"""What a run makes of candidates that leave the work to a library: marked, allowed or rejected."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from archives.attempt import AttemptState
from archives.candidate import Candidate
from archives.configuration import read_configuration
from archives.evaluation import Evaluation, KernelFacts, LibraryPolicy, Rung, Status
from archives.export import canonical_export
from archives.records import RunState
from archives.store import Store
from benchmarks.level1_page import line_of, page
from evaluator.evaluator import EvaluationRequest, Purpose
from evokernel.asking import inquire, subject_of_run
from evokernel.cli.report import print_report
from evokernel.config import RunConfig, resolve
from evokernel.engine import Engine
from evokernel.launch import stored_config
from evokernel.library import held_to, policy_of
from evokernel.rechecking import Outcome, recheck
from evokernel.replay import ReplayEvaluator
from evokernel.report import Report, read_report
from evokernel.report_json import report_to_json
from operators.registry import OPERATORS
from operators.seeds import reference_as_candidate
from problems.errors import ConfigError
from tests.evokernel import landscape as world
from tests.evokernel import talk

PROBLEM = world.problem(1)
KEY = PROBLEM.key
POLICIES: tuple[LibraryPolicy, ...] = ("allow", "mark", "reject")
PRODUCT = "import torch\n\n\nclass ModelNew:\n    def forward(self, x):\n        return x @ x\n"
"""A program without a kernel of its own."""
PRODUCT_ID = Candidate.of(KEY, PRODUCT).id
REFERENCE = Candidate.of(KEY, reference_as_candidate(PROBLEM)).id


def request(source: str) -> EvaluationRequest:
    return EvaluationRequest(problem=PROBLEM, candidate=Candidate.of(KEY, source))


def measured(own: float | None) -> Evaluation:
    return world.fit(3.0, KernelFacts(launches=1, own_kernel_share=own))


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("own", [0.0, 0.35, 0.8999, 0.9, 1.0, None])
def test_only_reject_rejects_and_only_what_is_known_to_be_library_work(
    policy: LibraryPolicy, own: float | None
) -> None:
    verdict = measured(own)
    found = held_to(policy, request(world.PROGRAM), verdict)
    if policy != "reject" or own is None or own >= 0.9:
        assert found == verdict
        return
    assert (found.status, found.reason, found.rung) == (
        Status.SCREENED, "library_work", Rung.TIME,
    )  # fmt: skip
    assert (found.speedup, found.objective_speedup, found.interval) == (None, None, None)
    assert found.facts == verdict.facts, "the share is kept and shown"
    assert found.latency_ms == verdict.latency_ms


def test_the_log_says_what_was_got_what_was_expected_and_what_to_do() -> None:
    log = held_to("reject", request(PRODUCT), measured(0.8999)).log
    assert "take 89.9 % of the time, expected at least 90%" in log
    assert "do the work in kernels of your own" in log
    assert "evaluation.library=mark" in log
    assert log.count("\n") == 0


def test_the_reference_is_the_fallback_and_is_never_rejected() -> None:
    assert held_to("reject", request(PRODUCT), measured(0.0)).status is Status.SCREENED
    again = request(reference_as_candidate(PROBLEM) + "\n# with a comment\n")
    assert held_to("reject", again, measured(0.0)).status is Status.OK


def test_a_failure_keeps_its_own_reason() -> None:
    broken = Evaluation(
        status=Status.WRONG_VALUE, reason="wrong_value", facts=KernelFacts(own_kernel_share=0.0)
    )
    assert held_to("reject", request(PRODUCT), broken) == broken


def test_the_policy_is_a_setting_that_marks_by_default() -> None:
    assert RunConfig().evaluation.library == "mark"
    for policy in POLICIES:
        found = resolve(settings=[f"evaluation.library={policy}"])
        assert found.evaluation.library == policy
    with pytest.raises(ConfigError, match=r"expected one of allow, mark, reject, did you mean 're"):
        resolve(settings=["evaluation.library=rejected"])


def test_a_run_from_before_there_was_a_policy_has_marked(tmp_path: Path) -> None:
    with world.new_store(tmp_path / "run", world.config()) as store:
        store.set_config("{}")
        assert policy_of(store) == "mark"
        store.set_config(json.dumps({"evaluation": {"library": "reject", "unheard_of": 1}}))
        assert policy_of(store) == "reject"
        store.set_config(json.dumps({"evaluation": {"library": "frown"}}))
        with pytest.raises(ConfigError, match=r"'frown', expected one of allow, mark, reject"):
            policy_of(store)


class Openly(world.Landscape):
    """A world in which a library does most of the work of half of all programs, and does it fast.

    A program without a kernel of its own is the fastest of all.
    """

    def __init__(
        self,
        *,
        verdict: Callable[[EvaluationRequest], Evaluation | None] | None = None,
        when_verified: float | None = None,
    ) -> None:
        super().__init__(verdict=verdict)
        self.when_verified = when_verified

    def judge(self, request: EvaluationRequest) -> Evaluation:
        found = super().judge(request)
        is_verified = request.purpose is Purpose.VERIFY
        if request.candidate.source == PRODUCT:
            rung = Rung.VERIFY if is_verified else Rung.TIME
            return world.fit(20.0, KernelFacts(launches=2, own_kernel_share=0.0), rung)
        if not found.configuration and not read_configuration(request.candidate.source):
            return found
        assert found.speedup is not None
        own = 0.5 if is_library(request.candidate.source, found) else 1.0
        if is_verified and self.when_verified is not None:
            own = self.when_verified
        facts = replace(found.facts, own_kernel_share=own)
        if own == 1.0:
            return replace(found, facts=facts)
        fast = world.fit(2 * found.speedup, facts, found.rung)
        return replace(fast, configuration=found.configuration, configurations=found.configurations)


def is_library(source: str, found: Evaluation | None = None) -> bool:
    point = (found and found.configuration) or read_configuration(source)
    return source == PRODUCT or (bool(point) and int(point["B"]) % 2 == 1)


def config(policy: str, *settings: str) -> RunConfig:
    return world.config("search.generations=4", f"evaluation.library={policy}", *settings)


def searched(
    folder: Path,
    policy: str,
    *settings: str,
    product: bool = False,
    when_verified: float | None = None,
) -> Store:
    """A finished run of one problem; it starts from the product where that is asked for."""
    chosen = config(policy, *settings)
    seeds = {KEY: [("product", PRODUCT)]} if product else None
    store = world.new_store(folder, chosen, 1, seeds)
    ending = world.sit(store, chosen, Openly(when_verified=when_verified))
    assert ending.state is RunState.FINISHED
    return store


def library_slots(store: Store) -> set[object]:
    """The attempts whose verdict says that a library does the work, the reference's left out."""
    return {
        record.slot
        for record in store.evaluations(KEY)
        if record.slot is not None
        and (record.evaluation.facts.own_kernel_share or 0.0) < 0.9
        and record.candidate != REFERENCE
    }


def elites(store: Store) -> set[str]:
    return {elite.candidate for elite in store.elites(KEY)}


def parents(store: Store) -> set[str]:
    """The candidates from which others were made, or that went to another island."""
    attempts = store.attempts(KEY)
    made = {attempt.slot: attempt.result for attempt in attempts}
    found = {made[slot] for attempt in attempts for slot in attempt.parents}
    return {each for each in found if each is not None}


def texts(report: Report) -> str:
    out = StringIO()
    print_report(report, Console(file=out, width=200))
    return " ".join(out.getvalue().split())


@pytest.mark.parametrize("rng_seed", [0, 1])
def test_rejected_work_is_a_failure_and_nobodys_parent(tmp_path: Path, rng_seed: int) -> None:
    with searched(tmp_path / "run", "reject", f"rng_seed={rng_seed}", product=True) as store:
        rejected = library_slots(store)
        assert len(rejected) > 3
        attempts = store.attempts(KEY)
        for attempt in attempts:
            assert not rejected & set(attempt.parents)
            if attempt.slot in rejected:
                assert (attempt.state, attempt.reason) == (AttemptState.FAILED, "library_work")
        held = elites(store)
        assert REFERENCE in held, "the fallback stays"
        assert len(held) > 1
        assert not any(is_library(store.candidate(each, KEY).source) for each in held)
        statuses = {
            record.evaluation.status for record in store.evaluations(KEY) if record.slot in rejected
        }
        assert statuses == {Status.SCREENED}
        report = read_report(store)
        data = report_to_json(report)
        assert (data["library"], data["num_library_work"]) == ("reject", len(rejected))
        assert data["fast_p_sure"]["1"] == 1.0
        assert data["problems"][0]["own_kernel_share"] == 1.0
        said = "Library work is rejected (evaluation.library=reject), with less than 90% of the"
        assert said in texts(report)


def test_where_all_is_rejected_the_reference_is_what_is_reported(tmp_path: Path) -> None:
    class Everything(Openly):
        def judge(self, request: EvaluationRequest) -> Evaluation:
            found = super().judge(request)
            return replace(found, facts=replace(found.facts, own_kernel_share=0.2))

    chosen = config("reject")
    with world.new_store(tmp_path / "run", chosen, 1) as store:
        assert world.sit(store, chosen, Everything()).state is RunState.FINISHED
        assert elites(store) == {REFERENCE}
        line = report_to_json(read_report(store))["problems"][0]
        assert (line["status"], line["speedup"]) == ("reference", 1.0)


def test_marked_work_is_kept_and_never_sure(tmp_path: Path) -> None:
    with searched(tmp_path / "run", "mark") as store:
        marked = library_slots(store)
        assert marked
        assert any(marked & set(attempt.parents) for attempt in store.attempts(KEY))
        report = read_report(store)
        data = report_to_json(report)
        assert (data["library"], data["num_library_work"]) == ("mark", 0)
        line = data["problems"][0]
        assert (line["status"], line["own_kernel_share"]) == ("verified", 0.5)
        assert (data["fast_p"]["2"], data["fast_p_sure"]["1"]) == (1.0, 0.0)
        assert "surely faster with a kernel of their own" in texts(report)
        assert "Library work" not in texts(report)


def test_allowed_work_counts_as_sure_and_its_share_is_still_shown(tmp_path: Path) -> None:
    with searched(tmp_path / "run", "allow") as store:
        report = read_report(store)
        data = report_to_json(report)
        assert data["library"] == "allow"
        assert data["problems"][0]["own_kernel_share"] == 0.5
        assert data["fast_p_sure"]["2"] == data["matched"]["fast_p_sure"]["2"] == 1.0
        text = texts(report)
        assert "1 of 1 problems surely faster, library kernels allowed, geometric mean" in text
        assert "Library work is allowed (evaluation.library=allow): it counts in all" in text
        assert " 50% " in text, "the share has its column"


@pytest.mark.parametrize(
    ("policy", "status", "sure", "mean"),
    [("allow", "verified", 1.0, 20.0), ("mark", "unverified", 0.0, 1.0)],
)
def test_a_program_without_any_kernel_is_verified_where_it_counts(
    tmp_path: Path, policy: str, status: str, sure: float, mean: float
) -> None:
    settings = ("search.initial=0", "search.generations=0")
    with searched(tmp_path / "run", policy, *settings, product=True) as store:
        data = report_to_json(read_report(store))
        line = data["problems"][0]
        assert (line["status"], line["speedup"], line["own_kernel_share"]) == (status, 20.0, 0.0)
        assert data["fast_p_sure"]["1"] == sure
        assert data["geomean_with_fallback"] == pytest.approx(mean)


@pytest.mark.parametrize("pool", [0, 3])
@pytest.mark.parametrize(("policy", "is_parent"), [("allow", True), ("mark", False)])
def test_a_program_without_any_kernel_is_a_parent_where_it_counts(
    tmp_path: Path, policy: str, is_parent: bool, pool: int
) -> None:
    with searched(tmp_path / "run", policy, f"archive.pool={pool}", product=True) as store:
        assert {PRODUCT_ID, REFERENCE} <= elites(store)
        chosen = parents(store)
        assert (PRODUCT_ID in chosen) == is_parent
        assert REFERENCE not in chosen, "the fallback is nobody's parent"
        assert chosen - {PRODUCT_ID}


@pytest.mark.parametrize(("policy", "teaches"), [("allow", True), ("mark", False)])
def test_models_learn_from_a_program_without_any_kernel_where_it_counts(
    tmp_path: Path, policy: str, teaches: bool
) -> None:
    with searched(tmp_path / "run", policy, product=True) as store:
        subject = subject_of_run(store, PROBLEM, ())
        islands = subject.search.population.islands
        told = [subject.knowledge.brief_for(island)(()).inspirations for island in islands]
        ids = {parent.candidate.id for parents in told for parent in parents}
        assert (PRODUCT_ID in ids) == teaches
        assert REFERENCE not in ids, "the prompt tells of it anyway"


def test_the_reference_itself_is_not_verified_where_library_work_counts(tmp_path: Path) -> None:
    settings = ("search.initial=0", "search.generations=0", "evaluation.verify_above=0.5")
    chosen = config("allow", *settings)
    evaluator = Openly()
    with world.new_store(tmp_path / "run", chosen, 1) as store:
        world.sit(store, chosen, evaluator)
        assert elites(store) == {REFERENCE}
        assert store.counts().verifications == 0


def test_who_turns_out_to_be_a_library_when_verified_is_withdrawn(tmp_path: Path) -> None:
    with searched(tmp_path / "run", "reject", when_verified=0.7) as store:
        gone = [known for known in store.known(KEY).values() if known.withdrawn]
        assert len(gone) == 2, "as many as may fail"
        assert not {known.id for known in gone} & elites(store)
        verified = [r.evaluation for r in store.evaluations(KEY) if r.slot is None]
        assert {(v.status, v.reason) for v in verified} == {(Status.SCREENED, "library_work")}
    with searched(tmp_path / "marked", "mark", when_verified=0.7) as store:
        assert not any(known.withdrawn for known in store.known(KEY).values())


@pytest.mark.parametrize(
    ("policy", "outcomes"),
    [("reject", {Outcome.WITHDRAWN}), ("mark", {Outcome.FIRST}), ("allow", {Outcome.FIRST})],
)
def test_verifying_a_run_again_holds_it_to_its_policy(
    tmp_path: Path, policy: str, outcomes: set[Outcome]
) -> None:
    with searched(tmp_path / "run", policy, "evaluation.verify=false"):
        pass
    with Store.open(tmp_path / "run", write=True) as store:
        findings, _ = asyncio.run(recheck(store, Openly(when_verified=0.7)))
        others = [each for each in findings if each.candidate != REFERENCE]
        assert others
        assert {each.outcome for each in others} == outcomes
        if policy == "reject":
            assert elites(store) == {REFERENCE}


async def cancelled(store: Store, chosen: RunConfig, after: int) -> None:
    """A run that is stopped once so many verdicts were asked for."""

    def stop(request: EvaluationRequest) -> Evaluation | None:
        if len(evaluator.requests) == after:
            running.cancel()
        return None

    evaluator = Openly(verdict=stop)
    engine = Engine(store=store, config=chosen, evaluator=evaluator, operators=world.operators())
    running = asyncio.ensure_future(engine.run())
    await asyncio.gather(running, return_exceptions=True)


@pytest.mark.parametrize("policy", ["allow", "reject"])
def test_a_resumed_run_keeps_its_policy_and_comes_to_the_same_end(
    tmp_path: Path, policy: str
) -> None:
    chosen, seeds = config(policy), {KEY: [("product", PRODUCT)]}
    with searched(tmp_path / "whole", policy, product=True) as store:
        expected = canonical_export(store)
        asked = store.counts().evaluations
    for after in (2, asked // 2, asked - 1):
        folder = tmp_path / str(after)
        with world.new_store(folder, chosen, 1, seeds) as store:
            asyncio.run(cancelled(store, chosen, after))
            assert store.run().state is RunState.STOPPED
        with Store.open(folder, write=True) as store:
            world.sit(store, stored_config(store), Openly())
            assert library_slots(store)
            assert canonical_export(store) == expected


def test_a_replayed_run_rejects_what_the_recorded_one_rejected(tmp_path: Path) -> None:
    chosen = config("reject")
    with (
        searched(tmp_path / "run", "reject") as store,
        world.new_store(tmp_path / "again", chosen, 1) as again,
    ):
        engine = Engine(
            store=again,
            config=chosen,
            evaluator=ReplayEvaluator(store),
            operators=world.operators(),
        )
        asyncio.run(engine.run())
        assert canonical_export(again) == canonical_export(store)


def test_models_are_told_why_and_never_asked_to_repair_what_is_right(tmp_path: Path) -> None:
    chosen = config(
        "reject", talk.MODELS, 'operators.use=["llm.translate", "llm.repair"]', "search.islands=1"
    )
    talker = talk.Talker(lambda model, prompt: talk.fenced(odd(talk.any_point(model, prompt))))
    with world.new_store(tmp_path / "run", chosen, 1) as store:
        asyncio.run(talk.engine_with(store, chosen, talker, Openly()).run())
        assert len(library_slots(store)) > 3
        assert "llm.repair" not in {attempt.operator for attempt in store.attempts(KEY)}
    assert any("You cannot leave the work to torch's" in prompt for prompt in talker.prompts)


@pytest.mark.parametrize(
    ("policy", "rule"),
    [("allow", "count as much as kernels of your own"), ("mark", "gain nothing")],
)
def test_models_are_told_what_library_work_is_worth(tmp_path: Path, policy: str, rule: str) -> None:
    chosen = config(policy, talk.MODELS, 'operators.use=["llm.translate"]', "search.islands=1")
    talker = talk.Talker(lambda model, prompt: talk.fenced(talk.any_point(model, prompt)))
    with world.new_store(tmp_path / "run", chosen, 1) as store:
        asyncio.run(talk.engine_with(store, chosen, talker, Openly()).run())
        assert talker.prompts
        assert all(rule in prompt for prompt in talker.prompts)
        # Whoever asks about the run later asks by its policy, not by one's own.
        asking = resolve(flags={"llm.models": ("test/one",)})
        subject = subject_of_run(store, PROBLEM, ())
        found = asyncio.run(inquire(subject, OPERATORS["llm.translate"], asking, None))
        assert rule in found.exchanges[0].messages[-1].text


@pytest.mark.parametrize(
    ("policy", "sure", "lifted"), [("allow", "1.00", "3.00"), ("mark", "0.00", "1.00")]
)
def test_the_page_of_a_run_counts_by_its_policy(
    tmp_path: Path, policy: str, sure: str, lifted: str
) -> None:
    with searched(tmp_path / "run", policy) as store:
        report = read_report(store)
        lines = [replace(line_of(store, one, {}), lifted=measured(0.0)) for one in report.problems]
        text = page(report, lines)
    assert f"| fast_2 sure, standard | {sure} |" in text
    assert f"| fast_2 sure, matched | {sure} |" in text
    assert f"| lifted Inductor alone, matched, with fallback | {lifted} |" in text
    assert ("evaluation.library=allow" in text) == (policy == "allow")


def odd(reply: str) -> str:
    """The program of a reply, at a point where a library does the work."""
    source = reply.partition("```python\n")[2].partition("```")[0]
    number = int(read_configuration(source)["B"])
    return source.replace(f"'B': {number}", f"'B': {number | 1}").replace(
        f'"B": {number}', f'"B": {number | 1}'
    )
