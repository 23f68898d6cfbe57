"""The reference worker: inputs, variations, exact outputs; and the trace worker."""

from __future__ import annotations

import os

import numpy as np
import pytest

from evaluator.wire import TIMED_VARIANTS, VARIANTS
from tests.evaluator.worker_harness import OpenProblem, ProblemHarness, ZygoteHarness
from tests.evaluator.worker_programs import BATCH_NORM, RELU, SOFTMAX, as_candidate


def test_what_is_expected_is_exact_and_own_precision_is_own(problem: OpenProblem) -> None:
    opened = problem(SOFTMAX)
    x = opened.input(0).astype(np.float64)
    exact = np.exp(x - x.max(1, keepdims=True))
    exact /= exact.sum(1, keepdims=True)
    np.testing.assert_allclose(opened.expected(0)[0], exact, rtol=1e-12)
    (own,) = opened.expected(0, "call")
    assert own.dtype == np.float32
    assert 0 < np.abs(own - exact).max() < 1e-7


def test_a_model_that_insists_on_its_own_precision_is_said_to(problem: OpenProblem) -> None:
    insisting = RELU.replace("torch.relu(x)", "x @ torch.ones(1000, 4)")
    opened = problem(insisting)
    reply = opened.reference.demand("expect", base=0, at=0)
    assert reply["float64"] is False
    assert reply["outputs"][0]["dtype"] == "float64"


def test_half_precision_casts_floating_inputs_only(problem: OpenProblem) -> None:
    source = RELU.replace("torch.relu(x)", "x[i]").replace(
        "forward(self, x)", "forward(self, x, i)"
    )
    source = source.replace("torch.randn(64, 1000)", "torch.randn(64, 8), torch.randint(64, (5,))")
    opened = problem(source, precision="bf16")
    assert [spec.dtype for spec in opened.inputs] == ["bfloat16", "int64"]
    assert opened.opened["outputs"][0]["dtype"] == "bfloat16"
    assert opened.opened["domains"][1]["kind"] == "index"
    np.testing.assert_array_equal(
        opened.expected(0)[0], opened.input(0)[opened.input(0, 1)].astype(np.float64)
    )


def test_statistics_do_not_drift_from_call_to_call(problem: OpenProblem) -> None:
    source = BATCH_NORM.replace(
        "return self.norm(x)", "y = self.norm(x)\n        return y + self.norm.running_mean"
    )
    opened = problem(source)
    first = opened.expected(0)[0]
    for number in (1, 2, 0):
        again = opened.expected(number)[0]
        own = opened.expected(number, "call")[0]
    np.testing.assert_array_equal(first, again)
    np.testing.assert_allclose(own, first, atol=1e-5)
    candidate = opened.candidate(as_candidate(source))
    for number in (1, 2, 0):
        (got,) = candidate.call(number)
    np.testing.assert_allclose(got, first, atol=1e-5)
    candidate.close()


def test_a_hidden_state_does_not_leak_into_the_next_call(problem: OpenProblem) -> None:
    source = RELU.replace(
        "def forward(self, x):",
        """def __init__(self):
        super().__init__()
        self.hidden = torch.ones(64, 1000)

    def forward(self, x):
        self.hidden = self.hidden * 0.5 + x""",
    ).replace("torch.relu(x)", "self.hidden")
    opened = problem(source)
    for number in (0, 1, 0):
        for op in ("expect", "call"):
            (got,) = opened.expected(number, op)
            np.testing.assert_array_equal(got, (0.5 + opened.input(number).astype(got.dtype)))
    assert opened.reference.demand("expect", base=0, at=0)["float64"]


def test_hidden_weights_reach_both_sides(problem: OpenProblem) -> None:
    opened = problem(BATCH_NORM)
    candidate = opened.candidate(as_candidate(BATCH_NORM))
    plain = opened.expected(0)[0]
    opened.reference.demand("weights", seed=99)
    hidden = opened.expected(0)[0]
    assert np.abs(hidden - plain).max() > 0.1
    assert candidate.worker.demand("weights", index=0)["loaded"]
    np.testing.assert_allclose(candidate.call(0)[0], hidden, atol=1e-5)
    opened.reference.demand("weights", seed=None)
    np.testing.assert_array_equal(opened.expected(0)[0], plain)
    candidate.close()


def test_variations_stay_inside_the_domain(problem: OpenProblem) -> None:
    source = RELU.replace("forward(self, x)", "forward(self, x, p, m, s, t, u, q, f)")
    source = source.replace(
        "torch.randn(64, 1000)",
        "torch.randn(6, 9), torch.rand(6, 9) + 0.1, torch.rand(6, 9) < 0.5,"
        " torch.randint(2, (6, 9)) * 2.0 - 1, torch.rand(7, 7).triu(),"
        " torch.rand(7, 7).tril(), torch.rand(6, 9).softmax(1), 2.5",
    )
    kinds = [
        "real",
        "positive",
        "mask",
        "sign",
        "upper_triangular",
        "lower_triangular",
        "probability",
        "scalar",
    ]
    opened = problem(source, domains=[{"kind": kind, "upper": None} for kind in kinds])
    for variant in VARIANTS:
        assert opened.draw(0, variant)
        _assert_inside(opened, 0)
    opened.reference.demand("stock", seed=5, sets=4)
    opened.reference.demand("mix", bases=[0, opened.set_bytes], variants=["own", "spiked"], seed=6)
    _assert_inside(opened, 0)
    _assert_inside(opened, 1)


def _assert_inside(opened: ProblemHarness, number: int) -> None:
    _, positive, mask, sign, upper, lower, probability, scalar = (
        opened.input(number, which) for which in range(8)
    )
    assert (positive > 0).all()
    assert set(np.unique(mask)) <= {0, 1}
    assert set(np.unique(sign)) == {-1.0, 1.0}
    assert np.array_equal(upper, np.triu(upper))
    assert upper.any()
    assert np.array_equal(lower, np.tril(lower))
    np.testing.assert_allclose(probability.sum(1), 1, atol=1e-5)
    assert (probability >= 0).all()
    assert np.isfinite(scalar).all()


def test_variations_do_what_they_say(problem: OpenProblem) -> None:
    opened = problem(RELU)
    opened.draw(0, "own", seed=1)
    own = opened.input(0).copy()
    spread = {}
    for variant in VARIANTS[1:]:
        opened.draw(0, variant, seed=1)
        spread[variant] = opened.input(0).std() / own.std()
    assert spread["scaled_up"] > 4
    assert spread["scaled_down"] < 0.1
    opened.draw(0, "negated", seed=1)
    np.testing.assert_array_equal(opened.input(0), -own)
    opened.draw(0, "around_zero", seed=1)
    assert abs(opened.input(0).mean()) < 0.05


def test_domains_are_inferred_from_samples(problem: OpenProblem) -> None:
    source = RELU.replace("forward(self, x)", "forward(self, x, p, i, s, q, y, l)")
    source = source.replace("torch.relu(x)", "torch.log(l) + x")
    source = source.replace(
        "torch.randn(64, 1000)",
        "torch.rand(6, 9), torch.rand(6, 9) < 0.5, torch.randint(5, (40,)),"
        " torch.randint(2, (6, 9)) * 2.0 - 1, torch.rand(6, 9).softmax(1),"
        " (lambda a: a + a.T)(torch.rand(5, 5)), torch.rand(6, 9) + 0.1",
    )
    domains = problem(source).opened["domains"]
    kinds = [domain["kind"] for domain in domains]
    assert kinds == ["real", "mask", "index", "sign", "probability", "symmetric", "positive"]
    assert domains[2]["upper"] == 5
    assert all(domain["inferred"] for domain in domains)


def test_mixed_contents_are_new_every_time_and_like_the_own(problem: OpenProblem) -> None:
    opened = problem(RELU)
    opened.reference.demand("stock", seed=5, sets=4)
    seen = []
    for seed in range(4):
        bases, variants = [0, opened.set_bytes], ["own", "around_zero"]
        opened.reference.demand("mix", bases=bases, variants=variants, seed=seed)
        seen += [opened.input(0).copy(), opened.input(1).copy()]
    for number, one in enumerate(seen):
        assert 0.9 < one.std() < 1.1
        for other in seen[number + 1 :]:
            assert np.mean(one == other) < 0.01


def test_mixed_contents_are_of_the_kinds_that_the_check_has(problem: OpenProblem) -> None:
    opened = problem(RELU.replace("torch.randn", "torch.rand"))
    permitted = opened.reference.demand("stock", seed=5, sets=4)["variants"]
    assert permitted == list(TIMED_VARIANTS)
    for seed in range(4):
        kinds = {}
        for variant in permitted:
            opened.reference.demand("mix", bases=[0], variants=[variant], seed=seed)
            kinds[variant] = opened.input(0).copy()
        assert 0 <= kinds["own"].min() < kinds["own"].max() <= 1.2
        outlying = kinds["spiked"] < -1.2
        assert 0 < outlying.sum() < outlying.size / 10
        assert kinds["spiked"][~outlying].max() <= 1.2
        assert 4 < kinds["scaled_up"].max() <= 8 * 1.2
        assert -1.2 <= kinds["negated"].min() < kinds["negated"].max() <= 0
        assert abs(kinds["around_zero"].mean()) < 0.02
        assert kinds["around_zero"].std() > 0.5


def test_a_model_that_would_overflow_meets_no_outliers(problem: OpenProblem) -> None:
    overflowing = RELU.replace("torch.relu(x)", "torch.exp(-20 * x)").replace("randn", "rand")
    opened = problem(overflowing)
    permitted = opened.reference.demand("stock", seed=5, sets=4)["variants"]
    assert permitted == ["own", "scaled_up", "negated", "around_zero"]


def test_a_product_that_neighbours_overflow_meets_single_outliers_alone(
    problem: OpenProblem,
) -> None:
    opened = problem(RELU.replace("torch.relu(x)", "torch.cumprod(x, 1)").replace("randn", "rand"))
    permitted = opened.reference.demand("stock", seed=5, sets=4)
    assert not permitted["runs"]
    assert "spiked" in permitted["variants"]
    for seed in range(10):
        opened.reference.demand("mix", bases=[0], variants=["spiked"], seed=seed)
        assert 0 < (opened.input(0) < 0).sum() <= 16
        assert opened.draw(0, "spiked", seed=seed, runs=False)
        assert 0 < (opened.input(0) < 0).sum() <= 16
        assert opened.draw(0, "spiked", seed=seed, runs=True)
        assert (opened.input(0) < 0).sum() > 1000


def test_the_check_has_no_set_on_which_only_the_order_of_factors_is_told(
    problem: OpenProblem,
) -> None:
    def overflowing(expression: str, draw: str) -> list[str]:
        source = RELU.replace("torch.relu(x)", expression).replace("randn", draw)
        return list(problem(source).reference.demand("stock", seed=5, sets=4)["overflowing"])

    assert overflowing("torch.cumprod(x, 1)", "rand") == ["scaled_up"]
    assert overflowing("torch.exp(8 * x)", "rand") == [], (
        "finite on the check's sets, not on louder"
    )
    assert overflowing("torch.log(x)", "randn") == [], "no more than on its own distribution"


def test_positive_contents_stay_positive(problem: OpenProblem) -> None:
    source = RELU.replace("torch.relu(x)", "torch.log(x)").replace(
        "randn(64, 1000)", "rand(64, 1000) + 0.1"
    )
    opened = problem(source)
    permitted = opened.reference.demand("stock", seed=5, sets=4)["variants"]
    assert permitted == ["own", "spiked", "scaled_up"]
    for variant in permitted:
        opened.reference.demand("mix", bases=[0], variants=[variant], seed=1)
        assert opened.input(0).min() > 0


def test_symmetric_contents_stay_symmetric(problem: OpenProblem) -> None:
    source = RELU.replace("torch.randn(64, 1000)", "(lambda a: a + a.T)(torch.randn(30, 30))")
    opened = problem(source)
    opened.reference.demand("stock", seed=5, sets=3)
    for variant in VARIANTS:
        opened.draw(0, variant)
        assert np.array_equal(opened.input(0), opened.input(0).T)
    for variant in TIMED_VARIANTS:
        opened.reference.demand("mix", bases=[0], variants=[variant], seed=3)
        assert np.array_equal(opened.input(0), opened.input(0).T)


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("x = 1", "no_model"),
        (RELU.replace("get_inputs", "inputs"), "no_get_inputs"),
        (RELU.replace("return []", "return [torch.ones(1)]"), "init_not_plain"),
        (RELU.replace("[torch.randn(64, 1000)]", "['text']"), "input_not_plain"),
        (RELU.replace("torch.relu(x)", "'text'"), "output_not_plain"),
        (RELU.replace("torch.relu(x)", "x @ x"), "problem_raised"),
    ],
)
def test_a_broken_problem_says_why(zygote: ZygoteHarness, source: str, reason: str) -> None:
    memory = {name: os.memfd_create(name) for name in ("inputs", "state", "expected")}
    worker = zygote.spawn("reference", memory)
    reply = worker.ask("open", source=source, precision="fp32", seed=1, domains=[])
    assert (reply["ok"], reply["status"], reply["reason"]) == (False, "BUILD_ERROR", reason)
    assert reply["log"]
    zygote.kill(worker)
    for descriptor in memory.values():
        os.close(descriptor)


def test_the_trace_worker_traces_and_explains(zygote: ZygoteHarness) -> None:
    worker = zygote.spawn("trace")
    graph = worker.demand("trace", source=SOFTMAX, precision="fp32")["graph"]
    assert [node["op"] for node in graph["nodes"]] == ["aten._softmax.default"]
    refused = worker.ask("trace", source="x = 1", precision="fp32")
    assert (refused["ok"], refused["reason"]) == (False, "problem_invalid")
    assert "Model" in refused["log"]
    zygote.kill(worker)
