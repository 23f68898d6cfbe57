"""The referee on whole problems: verdicts, weights, verification, and A/A runs."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import numpy as np
import pytest
from numpy.typing import NDArray

from archives.candidate import Candidate
from archives.evaluation import Evaluation, Rung, Status
from evaluator.evaluator import EvaluationRequest, Purpose
from evaluator.referee.calibration import Noise, measure_noise
from evaluator.referee.correctness import Bound, Expected
from evaluator.referee.cpu import CpuStation
from evaluator.referee.foreign_memory import with_memory_read
from evaluator.referee.inputs import TimedDeck
from evaluator.referee.referee import Referee
from evaluator.referee.stopwatch import Stopwatch
from evaluator.referee.timing import Block
from evaluator.referee.votes import bounds_by_variant
from evaluator.wire import VARIANTS
from problems.errors import ProblemError
from problems.problem import Domain, DomainKind, Problem
from tests.evaluator.referee_cases import (
    GIB,
    SOFTMAX,
    TRIES,
    judge,
    new_referee,
    problem_of,
    source_of,
)

MODULE = """
import torch
from torch import nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        {setup}

    def forward(self, x):
        return {expression}


def get_inputs():
    return [{inputs}]


def get_init_inputs():
    return []
"""


def module(
    expression: str, inputs: str = "torch.randn(256, 512)", setup: str = "self.unused = 0"
) -> str:
    return MODULE.format(expression=expression, inputs=inputs, setup=setup)


def as_candidate(source: str) -> str:
    return source.replace("class Model(", "class ModelNew(")


# What is timed against itself: elementwise, reductions, normalisation, matmul, pool, convolution.
A_A = {
    "relu": module("torch.relu(x)"),
    "tanh": module("torch.tanh(x)"),
    "softmax": module("torch.softmax(x, dim=1)"),
    "sum": module("x.sum(dim=1)"),
    "cumsum": module("torch.cumsum(x, dim=1)"),
    "layer norm": module("F.layer_norm(x, (512,))"),
    "matmul": module("x @ x.t()"),
    "linear": module("self.linear(x)", setup="self.linear = nn.Linear(512, 256)"),
    "max pool": module("F.max_pool2d(x, 2)", "torch.randn(4, 8, 64, 64)"),
    "convolution": module(
        "self.conv(x)", "torch.randn(2, 8, 48, 48)", "self.conv = nn.Conv2d(8, 8, 3)"
    ),
}


@contextmanager
def opened_anew() -> Iterator[Referee]:
    """A referee of its own."""
    one = new_referee()
    one.start()
    yield one
    one.close()


@pytest.fixture(scope="module")
def referee() -> Iterator[Referee]:
    with opened_anew() as one:
        yield one


@pytest.fixture(scope="module")
def noise(referee: Referee) -> Noise:
    """What a run on this host would not claim: measured, at least 1.5 %."""
    return measure_noise(referee)


@pytest.fixture(scope="module")
def a_a_verdicts(referee: Referee) -> dict[str, Evaluation]:
    """The verdict on each kernel of `A_A` as a candidate against itself."""
    return {
        name: judge_again(referee, problem_of(source, name=name), as_candidate(source))
        for name, source in A_A.items()
    }


def judge_again(referee: Referee, problem: Problem, source: str) -> Evaluation:
    """Verify; once more where the host was too noisy."""
    verdict = evaluate(referee, problem, source, Purpose.VERIFY)
    if verdict.status is Status.UNSTABLE:
        verdict = evaluate(referee, problem, source, Purpose.VERIFY)
    return verdict


def claims(verdict: Evaluation, noise: Noise) -> bool:
    return verdict.interval is not None and verdict.interval.low > 1 + noise.floor


def evaluate(
    referee: Referee, problem: Problem, source: str, purpose: Purpose = Purpose.SEARCH
) -> Evaluation:
    candidate = Candidate.of(problem.key, source)
    return referee.evaluate(
        EvaluationRequest(problem=problem, candidate=candidate, purpose=purpose)
    )


@pytest.mark.parametrize("name", A_A)
def test_a_kernel_timed_against_itself_claims_nothing(
    name: str, a_a_verdicts: dict[str, Evaluation], noise: Noise
) -> None:
    verdict = a_a_verdicts[name]
    assert verdict.status in {Status.OK, Status.UNSTABLE}, verdict
    if verdict.interval is not None:
        assert verdict.rung is Rung.VERIFY
    if claims(verdict, noise):
        # One interval of 99 % in two hundred lies above the truth: it does so by chance, not again.
        with opened_anew() as other:
            again = judge_again(other, problem_of(A_A[name], name=name), as_candidate(A_A[name]))
        assert not claims(again, noise), (verdict, again)


def test_false_claims_are_rare(a_a_verdicts: dict[str, Evaluation], noise: Noise) -> None:
    assert sum(claims(verdict, noise) for verdict in a_a_verdicts.values()) <= 1


def test_a_kernel_timed_against_itself_gets_a_verdict(a_a_verdicts: dict[str, Evaluation]) -> None:
    if all(verdict.status is Status.UNSTABLE for verdict in a_a_verdicts.values()):
        pytest.skip("this host is too busy to time anything")
    assert any(verdict.status is Status.OK for verdict in a_a_verdicts.values())


def test_a_slower_kernel_is_seen_to_be_slower(referee: Referee) -> None:
    problem = problem_of(A_A["tanh"], name="tanh")
    slow = as_candidate(A_A["tanh"]).replace("torch.tanh(x)", "torch.tanh(torch.tanh(x) * 0 + x)")
    verdict = judge(referee, problem, slow)
    assert verdict.status is Status.OK
    assert verdict.interval is not None
    assert verdict.interval.high < 1
    assert verdict.latency_ms is not None
    assert verdict.reference_ms is not None
    assert verdict.latency_ms > verdict.reference_ms


def test_a_hopeless_kernel_is_not_measured_for_long(
    referee: Referee, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocks = 0
    measure = Stopwatch._block

    def counted(self: Stopwatch, index: int, calls: int) -> Block:
        nonlocal blocks
        blocks += 1
        return measure(self, index, calls)

    monkeypatch.setattr(Stopwatch, "_block", counted)
    problem = problem_of(A_A["tanh"], name="tanh")
    four_times = "sum(torch.tanh(x) for _ in '1234') / 4"
    slow = as_candidate(A_A["tanh"]).replace("torch.tanh(x)", four_times)
    verdict = judge(referee, problem, slow)
    assert verdict.status is Status.OK, verdict
    assert verdict.speedup is not None
    assert verdict.speedup < 0.5
    assert blocks % 3 == 0, "three blocks a round, however many rounds the host needed"


def test_work_that_is_left_out_while_the_clock_runs_is_found_out(referee: Referee) -> None:
    source = module("torch.tanh(x)", "torch.randn(1024, 1024)")
    whole = "torch.tanh(x)"
    partly = "torch.cat([torch.tanh(x[:768]), x[768:]]) if self.calls > 12 else torch.tanh(x)"
    candidate = as_candidate(source).replace(
        f"return {whole}", f"self.calls = self.unused = self.unused + 1\n        return {partly}"
    )
    assert candidate.count("self.calls >") == 1
    verdict = judge(referee, problem_of(source, name="tanh"), candidate)
    assert (verdict.status, verdict.reason) == (Status.WRONG_VALUE, "wrong_when_timed")


def test_a_verdict_tells_what_it_rests_on(referee: Referee) -> None:
    verdict = judge(referee, SOFTMAX, source_of("honest/torch_expression"))
    assert verdict.device is not None
    assert verdict.device.kind == "cpu"
    assert verdict.referee_version
    assert {"caps", "memory-read"} <= set(verdict.isolation.split("+"))
    assert verdict.cost_s > 0
    assert verdict.error is not None
    assert verdict.error_bound is not None
    assert verdict.error <= verdict.error_bound
    assert verdict.matched_speedup == verdict.speedup


def test_a_host_on_which_late_outputs_go_unseen_is_told_by_its_verdicts(
    referee: Referee, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forbidden(pid: int, address: int, count: int) -> NDArray[np.uint8]:
        raise PermissionError(f"{count} bytes at {address} of {pid}")

    monkeypatch.setattr("evaluator.referee.foreign_memory.read_bytes", forbidden)
    verdict = judge(referee, SOFTMAX, source_of("honest/torch_expression"))
    assert verdict.status is Status.OK, verdict.log
    held = set(verdict.isolation.split("+"))
    assert "caps" in held
    assert "memory-read" not in held


@pytest.mark.parametrize("isolation", ["", "pid+net"])
def test_whether_memory_can_be_read_is_a_protection(isolation: str) -> None:
    with_it = "+".join(name for name in (isolation, "memory-read") if name)
    assert with_memory_read(isolation, os.getpid()) == with_it
    assert with_memory_read(isolation, 0) == isolation, "there is no such process"


def test_a_problem_that_a_constant_solves_cannot_be_judged(referee: Referee) -> None:
    problem = problem_of(module("torch.zeros(256, 512) + 0 * x.shape[0]"), name="Zero")
    with pytest.raises(ProblemError, match="null_gate"):
        evaluate(referee, problem, as_candidate(problem.source))


def test_a_relu_on_positive_inputs_is_judged_on_hidden_ones(referee: Referee) -> None:
    problem = problem_of(module("torch.relu(x)", "torch.rand(256, 512)"), name="ReLU")
    lazy = as_candidate(module("x.clone()", "torch.rand(256, 512)"))
    assert evaluate(referee, problem, lazy).reason == "wrong_value"


def test_hidden_inputs_stay_inside_their_domain(referee: Referee) -> None:
    source = module("torch.log(x).sum(dim=1)", "torch.rand(256, 512) + 0.1")
    problem = problem_of(source, name="Log", domains=[Domain(kind=DomainKind.POSITIVE)])
    guarded = as_candidate(source).replace(
        "return torch.log(x)", "assert bool((x > 0).all()); return torch.log(x)"
    )
    verdict = evaluate(referee, problem, guarded)
    assert verdict.status in {Status.OK, Status.UNSTABLE}, verdict


def test_several_outputs_and_indices_are_compared(referee: Referee) -> None:
    source = module("(x.max(dim=1).values, x.argmax(dim=1))")
    problem = problem_of(source, name="Both")
    assert evaluate(referee, problem, as_candidate(source)).status in {
        Status.OK,
        Status.UNSTABLE,
    }
    wrong = as_candidate(source).replace("x.argmax(dim=1)", "x.argmax(dim=1).clamp(max=500)")
    assert evaluate(referee, problem, wrong).reason == "wrong_value"
    fewer = as_candidate(module("x.max(dim=1).values"))
    assert evaluate(referee, problem, fewer).reason == "wrong_output_count"


def test_a_result_that_varies_is_named(referee: Referee) -> None:
    source = as_candidate(SOFTMAX.source).replace(
        "return torch.softmax(x, dim=1)",
        "self.n = getattr(self, 'n', 0) + 1; return torch.softmax(x, dim=1) * (1 + self.n % 2)",
    )
    verdict = evaluate(referee, SOFTMAX, source)
    assert (verdict.status, verdict.reason) == (Status.NON_DETERMINISTIC, "result_varies")


def test_buffers_start_each_call_alike(referee: Referee) -> None:
    source = module("self.norm(x)", "torch.randn(64, 16, 8, 8)", "self.norm = nn.BatchNorm2d(16)")
    problem = problem_of(source, name="BatchNorm")
    verdict = evaluate(referee, problem, as_candidate(source))
    assert verdict.status in {Status.OK, Status.UNSTABLE}, verdict


def test_a_problem_that_does_not_fit_says_what_it_needs(referee: Referee) -> None:
    source = module("x + 1", "torch.zeros(1).expand(1 << 18, 1 << 20)")
    problem = problem_of(source, name="Huge")
    with pytest.raises(ProblemError, match=r"Huge.* needs \d+ bytes.*\d+ are available"):
        evaluate(referee, problem, as_candidate(source))


def test_a_broken_problem_is_one_sentence(referee: Referee) -> None:
    problem = problem_of(module("x @ x"), name="Mismatch")
    with pytest.raises(ProblemError, match=r"Mismatch.*cannot be multiplied"):
        evaluate(referee, problem, as_candidate(problem.source))


def test_a_graph_is_traced_in_a_process_of_its_own(referee: Referee) -> None:
    graph = referee.graph(problem_of(module("torch.relu(x).sum(dim=1)")))
    assert [node.op for node in graph.nodes] == ["aten.relu.default", "aten.sum.dim_IntList"]


def test_a_verification_reaches_the_last_rung(referee: Referee) -> None:
    for _ in range(TRIES):
        verdict = evaluate(referee, SOFTMAX, source_of("honest/torch_expression"), Purpose.VERIFY)
        if verdict.status is Status.OK:
            assert verdict.rung is Rung.VERIFY
            return
    pytest.skip("this host is too busy to verify anything")


def test_the_noise_floor_is_at_least_one_and_a_half_percent(noise: Noise) -> None:
    assert 0.015 <= noise.floor < 1


def test_a_host_that_cannot_be_calibrated_is_said_to_be_noisy() -> None:
    class Busy(Referee):
        def evaluate(self, request: EvaluationRequest) -> Evaluation:
            del request
            return Evaluation(status=Status.UNSTABLE, reason="host_noisy")

    assert measure_noise(Busy()) == Noise(floor=0.05, noisy=True)


def test_check_sets_of_a_large_problem_are_drawn_in_turn() -> None:
    """Any problem is large to a referee with room for a byte."""
    small = Referee(CpuStation(session_bytes=1, candidate_bytes=GIB))
    try:
        source = module(
            "torch.argmax(self.linear(x), dim=1)", setup="self.linear = nn.Linear(512, 8)"
        )
        problem = problem_of(source, name="InTurn")
        honest = [f"{as_candidate(source)}\nNUMBER = {n}\n" for n in range(2)]
        with ThreadPoolExecutor(2) as pool:
            verdicts = list(pool.map(lambda one: evaluate(small, problem, one), honest))
        assert all(v.status in {Status.OK, Status.UNSTABLE} for v in verdicts), verdicts
        wrong = as_candidate(source).replace("torch.argmax", "torch.argmin")
        assert evaluate(small, problem, wrong).reason == "wrong_value"
        baked = (
            as_candidate(source)
            .replace("self.linear(x)", "x @ self.kept")
            .replace("Linear(512, 8)", "Linear(512, 8); self.kept = self.linear.weight.t().clone()")
        )
        assert evaluate(small, problem, baked).reason == "wrong_value"
        verdict = evaluate(small, problem, honest[0], Purpose.VERIFY)
        assert verdict.status in {Status.OK, Status.UNSTABLE}, verdict
        if verdict.status is Status.OK:
            assert verdict.facts.launches
    finally:
        small.close()


def test_a_tied_index_is_right(referee: Referee) -> None:
    source = module("x.argmax(dim=1)", "torch.randn(256, 512).round()")
    problem = problem_of(source, name="Ties")
    last = as_candidate(source).replace("x.argmax(dim=1)", "511 - x.flip(1).argmax(dim=1)")
    verdict = evaluate(referee, problem, last)
    assert verdict.status in {Status.OK, Status.UNSTABLE}, verdict
    wrong = as_candidate(source).replace("x.argmax(dim=1)", "x.argmax(dim=1) ^ 1")
    assert evaluate(referee, problem, wrong).reason == "wrong_value"


@pytest.mark.parametrize(
    ("slow", "timed"), [("False", True), ("bool((x < 0).sum() > x.numel() / 4)", False)]
)
def test_what_takes_the_reference_longer_than_its_own_inputs_is_not_timed(
    monkeypatch: pytest.MonkeyPatch, slow: str, timed: bool
) -> None:
    expression = f"torch.relu(torch.tanh(torch.tanh(x)) if {slow} else x)"
    problem = problem_of(module(expression, "torch.rand(512, 2048)"))
    expected = {"own", "spiked", "scaled_up"} | ({"negated"} if timed else set())
    found: set[str] = set()
    # A neighbour of the host may slow a leg that tells, which leaves a distribution out: try again.
    for _ in range(TRIES):
        found |= _timed_distributions(problem, monkeypatch)
        if expected <= found:
            break
    assert expected <= found
    assert ("negated" in found) == timed


def _timed_distributions(problem: Problem, monkeypatch: pytest.MonkeyPatch) -> frozenset[str]:
    """Return what the reference, as its own candidate, is timed on by a new referee."""
    decks: list[Sequence[str]] = []

    class Deck(TimedDeck):
        def __init__(self, permitted: Sequence[str], rng: np.random.Generator) -> None:
            super().__init__(permitted, rng)
            decks.append(permitted)

    monkeypatch.setattr("evaluator.referee.session.TimedDeck", Deck)
    same = problem.source.replace("class Model(", "class ModelNew(")
    referee = new_referee()
    try:
        candidate = Candidate.of(problem.key, same)
        referee.evaluate(EvaluationRequest(problem=problem, candidate=candidate))
    finally:
        referee.close()
    return frozenset(decks[-1])


@pytest.mark.parametrize(("expression", "draws"), [("x.square().mean()", 3), ("x.square()", 1)])
def test_what_is_permitted_of_a_single_number_rests_on_several_draws(
    monkeypatch: pytest.MonkeyPatch, expression: str, draws: int
) -> None:
    judged: list[list[str]] = []

    def noted(drawn: Sequence[tuple[str, tuple[Expected, ...]]]) -> dict[str, tuple[Bound, ...]]:
        judged.append([variant for variant, _ in drawn])
        return bounds_by_variant(drawn)

    monkeypatch.setattr("evaluator.referee.draws.bounds_by_variant", noted)
    problem = problem_of(module(expression))
    same = problem.source.replace("class Model(", "class ModelNew(")
    with_same = EvaluationRequest(
        problem=problem, candidate=Candidate.of(problem.key, same), purpose=Purpose.VERIFY
    )
    referee = new_referee()
    try:
        assert referee.evaluate(with_same).rung >= Rung.CHECK
    finally:
        referee.close()
    assert len(judged) == 2, "one for the search, one for the verification"
    assert all(sorted(variants) == sorted(draws * VARIANTS) for variants in judged)
