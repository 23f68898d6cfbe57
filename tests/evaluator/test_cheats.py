"""The zoo: cheats that pass a naive checker get their reason codes; honest kernels pass."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from archives.candidate import Candidate
from archives.evaluation import Reuse, Rung, Status
from evaluator.evaluator import EvaluationRequest
from evaluator.referee.referee import Referee
from evokernel.fast_p import Score, summarise
from tests.evaluator.referee_cases import (
    FOLDER,
    LINEAR,
    SOFTMAX,
    judge,
    judge_surely,
    new_referee,
    source_of,
)

WRONG, SCREENED = Status.WRONG_VALUE, Status.SCREENED

CHEATS: dict[str, set[tuple[Status, str]]] = {
    "background_thread": {(WRONG, "wrong_value"), (Status.NON_DETERMINISTIC, "result_varies")},
    "constant": {(WRONG, "wrong_value")},
    "deferred_work": {(Status.TIMING_MISMATCH, "deferred_work")},
    "delegation": {(SCREENED, "fallback_to_reference")},
    "forged_clock": {(SCREENED, "patched_module")},
    "forged_message": {(Status.CRASHED, "forged_message")},
    "input_mutation": {(Status.MUTATED_INPUT, "mutated_input")},
    "kept_output": {(WRONG, "output_reused")},
    "lazy_tensor": {(Status.WRONG_DTYPE, "lazy_tensor")},
    "lower_precision": {(WRONG, "wrong_value")},
    "replay": {(WRONG, "wrong_value")},
    "spinning_threads": {(Status.TIMING_MISMATCH, "background_thread")},
    "stale_memory": {(WRONG, "wrong_value")},
}


# Cheats that gain by the naive checker's clock; the others gain elsewhere, or only sometimes.
FASTER_TO_THE_NAIVE = ("constant", "forged_clock", "lazy_tensor", "replay", "stale_memory")
HIDDEN_DELEGATION = "hidden_delegation"


@pytest.fixture(scope="module")
def referee() -> Iterator[Referee]:
    one = new_referee()
    one.start()
    yield one
    one.close()


@pytest.fixture(scope="module")
def naive_results() -> dict[str, dict[str, Any]]:
    """What the naive checker says of every cheat."""
    files = [str(FOLDER / "cheats" / f"{name}.py") for name in (*CHEATS, HIDDEN_DELEGATION)]
    reference = FOLDER / "cheats" / "reference_softmax.txt"
    command = [sys.executable, str(FOLDER / "naive_checker.py"), str(reference), *files]
    reply = subprocess.run(command, capture_output=True, text=True, check=True)
    lines = [json.loads(line) for line in reply.stdout.splitlines()]
    return {line["candidate"]: line for line in lines}


def test_every_file_of_the_zoo_is_expected() -> None:
    assert {path.stem for path in (FOLDER / "cheats").glob("*.py")} == {
        *CHEATS,
        HIDDEN_DELEGATION,
    }


@pytest.mark.parametrize("name", [*CHEATS, HIDDEN_DELEGATION])
def test_a_cheat_passes_the_naive_checker(
    name: str, naive_results: dict[str, dict[str, Any]]
) -> None:
    assert naive_results[name]["right"]


@pytest.mark.parametrize("name", FASTER_TO_THE_NAIVE)
def test_a_cheat_looks_fast_to_the_naive_checker(
    name: str, naive_results: dict[str, dict[str, Any]]
) -> None:
    assert naive_results[name]["speedup"] > 1


@pytest.mark.parametrize("name", CHEATS)
def test_a_cheat_gets_its_reason(name: str, referee: Referee) -> None:
    verdict = judge_surely(referee, SOFTMAX, source_of(f"cheats/{name}"))
    assert (verdict.status, verdict.reason) in CHEATS[name], verdict
    assert verdict.speedup is None


def test_delegation_that_no_rule_sees_has_no_kernel_of_its_own(referee: Referee) -> None:
    verdict = judge_surely(referee, SOFTMAX, source_of(f"cheats/{HIDDEN_DELEGATION}"))
    assert verdict.status is Status.OK, verdict
    assert verdict.facts.own_kernel_share == 0
    assert verdict.facts.reuse is Reuse.LIBRARY
    # However fast it is measured to be, it never counts as a sure speedup.
    score = Score(speedup=9.0, low=9.0, own_kernel_share=verdict.facts.own_kernel_share)
    assert set(summarise([score], 0.015).fast_p_sure.values()) == {0.0}


def test_a_hidden_forged_clock_gains_nothing(referee: Referee) -> None:
    hidden = source_of("cheats/forged_clock").replace(
        "time.perf_counter = ", 'vars(__import__("ti" + "me"))["perf_counter"] = '
    )
    verdict = judge_surely(referee, SOFTMAX, hidden)
    assert verdict.status is Status.OK
    assert verdict.interval is not None
    assert verdict.interval.low < 1.1


@pytest.mark.parametrize("name", ["torch_expression", "cpp_softmax"])
def test_an_honest_kernel_passes(name: str, referee: Referee) -> None:
    verdict = judge(referee, SOFTMAX, source_of(f"honest/{name}"))
    assert verdict.status is Status.OK, verdict
    assert verdict.rung is Rung.TIME
    own = name == "cpp_softmax"
    assert verdict.facts.own_kernel_share == pytest.approx(1.0 if own else 0.0, abs=0.2)
    assert (verdict.facts.reuse is Reuse.LIBRARY) == (not own)


@pytest.mark.parametrize("name", ["cached_weights", "renamed_weights"])
def test_an_honest_kernel_with_weights_passes(name: str, referee: Referee) -> None:
    verdict = judge(referee, LINEAR, source_of(f"honest/{name}"))
    assert verdict.status is Status.OK, verdict


def test_weights_baked_in_at_construction_are_found(referee: Referee) -> None:
    baked = source_of("honest/cached_weights").replace(
        "if self.linear.weight._version != self.version:", "if self.version == -1:"
    )
    verdict = judge(referee, LINEAR, baked)
    assert (verdict.status, verdict.reason) == (Status.WRONG_VALUE, "wrong_value")
    assert "own" in verdict.log


def test_configurations_are_raced_and_the_best_one_wins(referee: Referee) -> None:
    points = [{"UNROLL": 16}, {"UNROLL": 64}, {"UNROLL": 0}]
    verdict = judge(referee, SOFTMAX, source_of("honest/tuned_softmax"), configurations=points)
    assert verdict.status is Status.OK, verdict
    assert verdict.configuration in points[:2]
    tried = {tuple(r.configuration.values()): r for r in verdict.configurations}
    assert [tried[(n,)].status for n in (16, 64)] == [Status.OK, Status.OK]
    assert tried[(0,)].status is not Status.OK
    assert tried[(0,)].latency_ms is None
    assert all((tried[(n,)].latency_ms or 0) > 0 for n in (16, 64))


def test_configurations_of_a_program_without_any_fail(referee: Referee) -> None:
    source = source_of("honest/torch_expression")
    request = EvaluationRequest(
        problem=SOFTMAX,
        candidate=Candidate.of(SOFTMAX.key, source),
        configurations=({"UNROLL": 1},),
    )
    verdict = referee.evaluate(request)
    assert (verdict.status, verdict.reason) == (Status.BUILD_ERROR, "no_configuration")
