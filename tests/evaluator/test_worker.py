import os
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from evaluator.processes import mapping_facts
from evaluator.wire import VARIANTS
from tests.evaluator.worker_harness import CandidateHandle, ProblemHarness, ZygoteHarness
from tests.evaluator.worker_programs import BATCH_NORM, RELU, SCALED, SOFTMAX, as_candidate

OpenProblem = Callable[..., ProblemHarness]

WRONG_RELU = as_candidate(RELU).replace("torch.relu(x)", "torch.relu(x) + 1e-3")


@pytest.fixture
def problem(zygote: ZygoteHarness) -> Iterator[OpenProblem]:
    """Opens problems; all are closed at the end."""
    opened = []

    def open_problem(source: str, **options: Any) -> ProblemHarness:  # noqa: ANN401
        harness = ProblemHarness(zygote, source, **options)
        opened.append(harness)
        return harness

    yield open_problem
    for harness in opened:
        harness.close()


def _model(forward: str, init: str = "pass") -> str:
    """A candidate for RELU with other statements inside."""
    return (
        "import torch\nfrom torch import nn\n\n\nclass ModelNew(nn.Module):\n"
        f"    def __init__(self):\n        super().__init__()\n        {init}\n\n"
        f"    def forward(self, x):\n        {forward}\n"
    )


@pytest.mark.parametrize("source", [RELU, SOFTMAX, BATCH_NORM, SCALED])
def test_a_right_candidate_agrees_and_a_wrong_one_does_not(
    problem: OpenProblem, source: str
) -> None:
    opened = problem(source)
    candidate = opened.candidate(as_candidate(source))
    assert candidate.opened["ok"]
    assert candidate.worker.demand("weights", index=0)["loaded"]
    for number in range(3):
        got, expected = candidate.call(number), opened.expected(number)
        assert len(got) == len(expected)
        for ours, exact in zip(got, expected, strict=True):
            assert ours.shape == exact.shape
            np.testing.assert_allclose(ours, exact, atol=1e-5)
    candidate.close()


def test_a_wrong_candidate_shows(problem: OpenProblem) -> None:
    opened = problem(RELU)
    candidate = opened.candidate(WRONG_RELU)
    assert np.abs(candidate.call(0)[0] - opened.expected(0)[0]).max() > 5e-4
    candidate.close()


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


def test_weights_of_another_shape_are_left_alone(problem: OpenProblem) -> None:
    opened = problem(BATCH_NORM)
    candidate = opened.candidate(as_candidate(BATCH_NORM).replace("self.norm", "self.other"))
    assert candidate.worker.demand("weights", index=0)["loaded"] is False
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
    opened.reference.demand("mix", bases=[0, opened.set_bytes], seed=6)
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
        opened.reference.demand("mix", bases=[0, opened.set_bytes], seed=seed)
        seen += [opened.input(0).copy(), opened.input(1).copy()]
    for number, one in enumerate(seen):
        assert 0.9 < one.std() < 1.1
        for other in seen[number + 1 :]:
            assert np.mean(one == other) < 0.01


def test_symmetric_contents_stay_symmetric(problem: OpenProblem) -> None:
    source = RELU.replace("torch.randn(64, 1000)", "(lambda a: a + a.T)(torch.randn(30, 30))")
    opened = problem(source)
    opened.reference.demand("stock", seed=5, sets=3)
    for variant in VARIANTS:
        opened.draw(0, variant)
        assert np.array_equal(opened.input(0), opened.input(0).T)
    opened.reference.demand("mix", bases=[0], seed=3)
    assert np.array_equal(opened.input(0), opened.input(0).T)


def test_memory_that_was_not_written_shows(problem: OpenProblem) -> None:
    opened = problem(RELU)
    lazy = "y = torch.empty_like(x)\n        y[:32] = torch.relu(x[:32])\n        return y"
    candidate = opened.candidate(_model(lazy))
    assert candidate.opened["ok"]
    for number in range(3):
        (got,) = candidate.call(number, poison=True)
        assert not (np.abs(got[32:]) < 1e30).any()
        np.testing.assert_array_equal(got[:32], np.maximum(opened.input(number)[:32], 0))
    candidate.close()


def test_writing_to_inputs_reaches_nobody_and_is_seen_from_outside(problem: OpenProblem) -> None:
    opened = problem(RELU)
    honest = opened.candidate(as_candidate(RELU))
    mutating = opened.candidate(_model("return x.relu_()"))
    before = opened.input(0).copy()
    honest.call(0)
    mutating.call(0)
    np.testing.assert_array_equal(opened.input(0), before)
    np.testing.assert_array_equal(honest.call(0)[0], np.maximum(before, 0))
    assert mapping_facts(honest.worker.pid, "inputs").written_bytes == 0
    facts = mapping_facts(mutating.worker.pid, "inputs")
    assert facts.written_bytes >= before.nbytes // 2
    assert facts.mapped_bytes >= before.nbytes
    honest.close()
    mutating.close()


def test_later_contents_reach_a_worker_that_has_mapped_them(problem: OpenProblem) -> None:
    opened = problem(RELU)
    candidate = opened.candidate(as_candidate(RELU))
    candidate.call(0)
    opened.draw(0, "own", seed=4321)
    np.testing.assert_array_equal(candidate.call(0)[0], np.maximum(opened.input(0), 0))
    candidate.close()


@pytest.mark.parametrize(
    ("forward", "status", "reason"),
    [
        ("return x.tolist()", "WRONG_DTYPE", "not_a_tensor"),
        ("return (x, 3)", "WRONG_DTYPE", "not_a_tensor"),
        ("return nn.Parameter(x)", "WRONG_DTYPE", "lazy_tensor"),
        ("y = x.relu(); y.later = 1; return y", "WRONG_DTYPE", "lazy_tensor"),
        ("return x.to_sparse()", "WRONG_DTYPE", "not_a_dense_tensor"),
        ("return x.to('meta')", "WRONG_DTYPE", "not_a_dense_tensor"),
        ("return x.expand(9, 64, 1000)", "WRONG_SHAPE", "output_too_large"),
        ("return [x] * 99", "WRONG_SHAPE", "output_count"),
        ("raise ValueError('no such luck')", "RUNTIME_ERROR", "forward_raised"),
        ("return torch.empty(1 << 45)", "OUT_OF_MEMORY", "allocation_failed"),
    ],
)
def test_bad_outputs_have_their_reasons(
    problem: OpenProblem, forward: str, status: str, reason: str
) -> None:
    opened = problem(RELU, sets=1)
    candidate = opened.candidate(_model(forward))
    reply = candidate.worker.ask("call", index=0, base=0, poison=True)
    assert (reply["ok"], reply["status"], reply["reason"]) == (False, status, reason)
    assert len(reply["log"].encode()) <= 4096
    candidate.close()


def test_a_log_shows_the_candidates_own_lines_only(problem: OpenProblem) -> None:
    opened = problem(RELU, sets=1)
    candidate = opened.candidate(_model("return torch.relu(x, x)"))
    log = candidate.worker.ask("call", index=0, base=0, poison=False)["log"]
    assert "line 11, in forward: return torch.relu(x, x)" in log
    assert "TypeError" in log
    assert "candidate_worker" not in log
    candidate.close()


@pytest.mark.parametrize(
    ("source", "reason", "text"),
    [
        ("def broken(:\n    pass\n", "build_raised", "SyntaxError"),
        ("import nowhere_to_be_found\n", "build_raised", "ModuleNotFoundError"),
        ("x = 1\n", "no_model_new", "ModelNew"),
        (_model("return x", "raise KeyError('huh')"), "build_raised", "KeyError"),
        (
            _model(
                "return x",
                "__import__('subprocess').run(['g++', '-x', 'c++', '-', '-o', 'k.so'],"
                " input='int f( {', text=True, capture_output=True, check=True)",
            ),
            "compile_failed",
            "error: expected",
        ),
    ],
)
def test_a_failed_build_says_why(problem: OpenProblem, source: str, reason: str, text: str) -> None:
    opened = problem(RELU, sets=1)
    candidate = opened.candidate(source)
    assert candidate.opened["status"] == "BUILD_ERROR"
    assert candidate.opened["reason"] == reason
    assert text in candidate.opened["log"]
    candidate.close()


def test_several_configurations_live_in_one_worker(problem: OpenProblem) -> None:
    opened = problem(RELU, sets=1)
    candidate = opened.candidate(as_candidate(RELU))
    again = candidate.worker.ask(
        "open",
        index=1,
        source=WRONG_RELU,
        init=opened.opened["init"],
        inputs=opened.opened["inputs"],
        state=[],
        seed=7,
    )
    assert again["ok"]
    right = candidate.call(0)[0]
    reply = candidate.worker.demand("call", index=1, base=0, poison=False)
    assert reply["outputs"][0]["shape"] == [64, 1000]
    assert not np.array_equal(candidate.call(0)[0], right + 1)
    candidate.close()


def _leg(candidate: CandidateHandle, bases: list[int]) -> float:
    start = time.perf_counter()
    candidate.worker.demand("leg", index=0, bases=bases)
    return time.perf_counter() - start


def test_a_leg_calls_once_for_each_set_and_keeps_the_outputs(problem: OpenProblem) -> None:
    opened = problem(RELU)
    candidate = opened.candidate(as_candidate(RELU))
    bases = [opened.set_bytes * number for number in (5, 2, 7)]
    _leg(candidate, bases)
    opened.reference.demand("leg", index=0, bases=bases)
    _leg(candidate, [])
    for call, number in enumerate((5, 2, 7)):
        reply = candidate.worker.demand("ship", call=call, at=0)
        assert reply["outputs"][0]["offset"] == 0
        shipped = np.frombuffer(os.pread(candidate.outputs, 256_000, 0), np.float32)
        np.testing.assert_array_equal(
            shipped.reshape(64, 1000), np.maximum(opened.input(number), 0)
        )
        assert opened.reference.demand("ship", call=call, at=64)["outputs"][0]["offset"] == 64
    refused = candidate.worker.ask("ship", call=3, at=0)
    assert refused["reason"] == "no_such_call"
    candidate.close()


def test_an_output_buffer_used_again_shows_in_what_is_shipped(problem: OpenProblem) -> None:
    opened = problem(RELU)
    candidate = opened.candidate(
        _model(
            "return torch.relu(x, out=self.y) if 0 else self.y.copy_(x.relu())",
            "self.y = torch.empty(64, 1000)",
        )
    )
    _leg(candidate, [0, opened.set_bytes])
    reply = candidate.worker.demand("ship", call=0, at=0)
    assert reply["ok"]
    shipped = np.frombuffer(os.pread(candidate.outputs, 256_000, 0), np.float32)
    np.testing.assert_array_equal(shipped.reshape(64, 1000), np.maximum(opened.input(1), 0))
    candidate.close()


def test_outputs_are_written_row_major_whatever_their_stride(problem: OpenProblem) -> None:
    source = RELU.replace("torch.relu(x)", "x.t()")
    opened = problem(source)
    candidate = opened.candidate(as_candidate(source))
    reply = candidate.worker.demand("call", index=0, base=0, poison=False)
    (spec,) = reply["outputs"]
    assert (spec["shape"], spec["stride"], spec["own_stride"]) == (
        [1000, 64],
        [64, 1],
        [1, 1000],
    )
    np.testing.assert_array_equal(candidate.call(0)[0], opened.input(0).T)
    candidate.close()


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
