"""The candidate worker: builds, calls, legs, and why it refuses."""

from __future__ import annotations

import os
import time

import numpy as np
import pytest

from evaluator.processes import mapping_facts
from tests.evaluator.worker_harness import CandidateHandle, OpenProblem
from tests.evaluator.worker_programs import BATCH_NORM, RELU, SCALED, SOFTMAX, as_candidate

WRONG_RELU = as_candidate(RELU).replace("torch.relu(x)", "torch.relu(x) + 1e-3")


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


def test_weights_of_another_shape_are_left_alone(problem: OpenProblem) -> None:
    opened = problem(BATCH_NORM)
    candidate = opened.candidate(as_candidate(BATCH_NORM).replace("self.norm", "self.other"))
    assert candidate.worker.demand("weights", index=0)["loaded"] is False
    candidate.close()


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
        conversions={},
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
