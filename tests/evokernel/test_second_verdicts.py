"""Judging every elite of a run once more: who is asked for, what is said, what a stop leaves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

import tests.evokernel.landscape as world
from archives.configuration import read_configuration
from archives.evaluation import Evaluation, Status
from archives.store import Store
from benchmarks import main_job
from benchmarks.second_verdicts import FILE, TRIES
from evaluator.evaluator import EvaluationRequest, Purpose
from problems.errors import EvaluatorError, ProblemError

Verdict = Callable[[EvaluationRequest], Evaluation | None]
WRONG = Evaluation(status=Status.WRONG_VALUE, reason="wrong_value", log="off by one")
BUSY = Evaluation(status=Status.UNSTABLE, reason="host_noisy", log="busy")


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A finished run over two problems."""
    config = world.config("search.generations=2", "evaluation.verify=false")
    with world.new_store(tmp_path / "run", config, count=2) as store:
        world.sit(store, config)
    return tmp_path / "run"


@pytest.fixture
def judged(
    run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str, world.Landscape]]:
    """Judges the run; the promises that a small run cannot keep are left out."""
    monkeypatch.setattr(main_job, "judge", lambda store: [])

    def judge(*options: str, verdict: Verdict | None = None) -> tuple[int, str, world.Landscape]:
        evaluator = world.Landscape(verdict=verdict, in_flight=2)
        monkeypatch.setattr(main_job, "evaluator_like", lambda store: evaluator)
        code = main_job.main([str(run), "--evaluate-elites", *options])
        assert evaluator.is_closed
        return code, capsys.readouterr().out, evaluator

    return judge


def held(run: Path) -> tuple[set[str], int]:
    """The elites of a run and how many cells they hold."""
    with Store.open(run) as store:
        elites = [elite for one in store.problems() for elite in store.elites(one.key)]
    return {elite.candidate for elite in elites}, len(elites)


def asked(evaluator: world.Landscape) -> Counter[str]:
    return Counter(request.candidate.id for request in evaluator.requests)


Judge = Callable[..., tuple[int, str, world.Landscape]]


def test_every_elite_is_judged_once_as_eval_does_it(run: Path, judged: Judge) -> None:
    elites, cells = held(run)
    code, said, evaluator = judged()
    assert code == 0
    assert asked(evaluator) == dict.fromkeys(elites, 1)
    assert all(request.purpose is Purpose.VERIFY for request in evaluator.requests)
    assert said.startswith("kept      every elite passes evokernel eval: ")
    assert f"{len(elites)} of {len(elites)} pass, which hold {cells} cells" in said
    assert cells > len(elites), "one that migrated is judged once"
    with Store.open(run) as store:
        for request in evaluator.requests:
            counting = store.evaluation(request.problem.key, request.candidate.id)
            assert counting is not None
            # Its own winning configuration is in its text, and no other is tried.
            assert request.configurations == ()
            won = counting.configuration
            assert won is None or read_configuration(request.candidate.source) == won


def test_an_elite_that_fails_is_named_and_not_asked_again(run: Path, judged: Judge) -> None:
    doomed = max(held(run)[0])
    code, said, evaluator = judged(
        verdict=lambda request: WRONG if request.candidate.id == doomed else None
    )
    assert code == 1
    assert said.startswith("NOT KEPT")
    assert "1 failed (1/" in said
    assert f"{doomed[:12]}: WRONG_VALUE wrong_value" in said
    assert asked(evaluator)[doomed] == 1


def test_one_without_a_verdict_is_judged_again_after_the_others(run: Path, judged: Judge) -> None:
    elites = held(run)[0]
    late, never = sorted(elites)[:2]

    def verdict(request: EvaluationRequest) -> Evaluation | None:
        seen[request.candidate.id] += 1
        if request.candidate.id == never:
            raise EvaluatorError("the worker died")
        return BUSY if request.candidate.id == late and seen[late] < TRIES else None

    seen: Counter[str] = Counter()
    code, said, evaluator = judged(verdict=verdict)
    assert code == 3
    assert said.startswith("UNSURE")
    assert "1 without a verdict (1/" in said
    assert f"{never[:12]}: NO VERDICT the worker died" in said
    assert "failed" not in said
    assert "one that was too noisy or got no answer was judged up to 2 times more" in said
    assert asked(evaluator) == dict.fromkeys(elites, 1) | {late: TRIES, never: TRIES}
    first = [request.candidate.id for request in evaluator.requests][: len(elites)]
    assert set(first) == elites


def test_a_problem_that_does_not_run_is_no_failure_of_its_elites(judged: Judge) -> None:
    def verdict(request: EvaluationRequest) -> Evaluation | None:
        if request.problem.id == 2:
            raise ProblemError("no such module")
        return None

    code, said, _ = judged(verdict=verdict)
    assert code == 3
    assert "NO VERDICT no such module" in said


def test_an_interrupted_pass_tells_what_it_found_and_goes_on(run: Path, judged: Judge) -> None:
    elites = held(run)[0]
    doomed = ""

    def stopped(request: EvaluationRequest) -> Evaluation | None:
        nonlocal doomed
        doomed = doomed or request.candidate.id
        if len(asked_now) == len(elites) - 2:
            raise KeyboardInterrupt
        asked_now.append(request.candidate.id)
        return WRONG if request.candidate.id == doomed else world.Landscape().judge(request)

    asked_now: list[str] = []
    code, said, _ = judged(verdict=stopped)
    assert code == 130
    assert said.startswith("NOT KEPT")
    assert f"{len(asked_now) - 1} of {len(elites)} pass" in said
    assert "2 not judged" in said
    file = run / FILE
    with file.open("a") as out:
        out.write('{"problem": "cut off by a ki')

    code, said, evaluator = judged("--resume")
    assert code == 1, "what failed before is taken up too"
    assert set(asked(evaluator)) == elites - set(asked_now)
    assert f"{len(elites) - 1} of {len(elites)} pass" in said
    assert len(file.read_text().splitlines()) == len(elites)

    code, _, evaluator = judged()
    assert code == 0, "begun anew, nothing is taken up"
    assert set(asked(evaluator)) == elites


def test_what_was_timed_quickly_does_not_count_as_eval(run: Path, judged: Judge) -> None:
    code, said, evaluator = judged("--quick")
    assert code == 0
    assert "every elite passes at the search's effort" in said
    assert {request.purpose for request in evaluator.requests} == {Purpose.SEARCH}
    quick = (run / FILE).read_text()
    _, _, evaluator = judged("--resume")
    assert set(asked(evaluator)) == held(run)[0]
    assert (run / FILE).read_text().startswith(quick), "resuming takes nothing away"
    _, _, evaluator = judged("--resume", "--quick")
    assert not evaluator.requests, "nor with other options in between"


def test_resuming_with_only_the_best_keeps_the_others_verdicts(run: Path, judged: Judge) -> None:
    judged()
    whole = (run / FILE).read_text()
    code, said, evaluator = judged("--resume", "--best")
    assert (code, evaluator.requests) == (0, [])
    assert "2 of 2 pass" in said
    assert (run / FILE).read_text() == whole


def test_only_the_best_of_each_problem(judged: Judge) -> None:
    code, said, evaluator = judged("--best")
    assert code == 0
    assert [request.problem.id for request in evaluator.requests] == [1, 2]
    assert "the best elite of each problem passes evokernel eval: 2 of 2 pass" in said
