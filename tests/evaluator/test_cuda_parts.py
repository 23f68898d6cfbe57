"""Parts of the CUDA referee that need no GPU."""

from __future__ import annotations

import os
import sys
import threading
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from archives.evaluation import Status
from evaluator.referee import correctness
from evaluator.referee.arrays import Array
from evaluator.referee.cuda import device
from evaluator.referee.cuda.candidate import CudaOutputs
from evaluator.referee.cuda.clocks import Reading, disagreement
from evaluator.referee.cuda.memory import Admission, CudaPlan
from evaluator.referee.cuda.reference import Room
from evaluator.referee.cuda.stopwatch import calls_per_leg
from evaluator.referee.failure import CandidateFailed
from evaluator.wire import ValueSpec
from evaluator.worker.cuda import comparison
from problems.errors import EvaluatorError

GIB = 1 << 30


def spec(*shape: int, dtype: str = "float32") -> ValueSpec:
    stride = [1]
    for size in reversed(shape[1:]):
        stride.insert(0, stride[0] * size)
    return ValueSpec(dtype=dtype, shape=shape, stride=tuple(stride))


class TestClocks:
    def test_honest_legs_agree(self) -> None:
        readings = [Reading(events_ms=0.030, wall_ms=0.041), Reading(events_ms=0.031, wall_ms=0.02)]
        assert disagreement(readings, 20) is None
        assert disagreement([Reading(events_ms=3.0, wall_ms=3.5)], 1) is None

    def test_work_that_the_events_do_not_see_is_named(self) -> None:
        found = disagreement([Reading(events_ms=0.001, wall_ms=0.12)] * 3, 20)
        assert found is not None
        assert "0.12 ms by the wall" in found

    def test_a_leg_that_is_shorter_than_it_says_is_named(self) -> None:
        found = disagreement([Reading(events_ms=0.2, wall_ms=0.05)] * 3, 20)
        assert found is not None

    def test_one_disturbed_leg_does_not_decide(self) -> None:
        readings = [Reading(events_ms=0.03, wall_ms=0.03)] * 4
        assert disagreement([*readings, Reading(events_ms=0.03, wall_ms=9.0)], 20) is None


class TestLegs:
    def test_fast_calls_make_long_legs_and_slow_ones_short(self) -> None:
        assert calls_per_leg(0.01, 0.01, 64) == 19
        assert calls_per_leg(8.0, 8.0, 64) == 2
        assert calls_per_leg(8.0, 0.01, 64) == 7

    def test_a_leg_has_no_more_calls_than_there_are_sets(self) -> None:
        assert calls_per_leg(0.01, 0.01, 4) == 4
        assert calls_per_leg(3.0, 3.0, 1) == 1


class TestMemory:
    def test_a_small_problem_has_all_sets_side_by_side(self) -> None:
        plan = CudaPlan.of([spec(1024, 1024)], [spec(1024, 1024)], 140 * GIB)
        assert not plan.in_turn
        assert plan.num_timed == 64
        assert plan.session_bytes > 12 * (plan.set_bytes + plan.own_bytes + plan.exact_bytes)

    def test_a_large_problem_has_one_set_at_a_time(self) -> None:
        plan = CudaPlan.of([spec(4096, 393216)], [spec(4096, 393216)], 140 * GIB)
        assert plan.in_turn
        assert plan.num_timed == 1
        assert plan.peak_bytes < 140 * GIB

    def test_whoever_finds_too_little_waits(self) -> None:
        admission = Admission(100)
        entered = threading.Event()

        def second() -> None:
            with admission.reserved(60):
                entered.set()

        thread = threading.Thread(target=second)
        with admission.reserved(60):
            thread.start()
            assert not entered.wait(0.1)
        assert entered.wait(5)
        thread.join()

    @pytest.mark.parametrize(
        ("patience_s", "order"), [(60.0, ["small", "large"]), (0.0, ["large", "small"])]
    )
    def test_whoever_needs_much_lets_pass_who_needs_little_for_a_while(
        self, patience_s: float, order: list[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("evaluator.referee.cuda.memory.PATIENCE_S", patience_s)
        admission, found = Admission(100), []
        waiting = threading.Event()

        def user(name: str, num_bytes: int) -> None:
            with admission.reserved(num_bytes):
                found.append(name)

        threads = [threading.Thread(target=user, args=("large", 90))]
        threads.append(threading.Thread(target=user, args=("small", 10)))
        with admission.reserved(60):
            for thread in threads:
                thread.start()
                waiting.wait(0.1)
            assert found == (["small"] if patience_s else [])
        for thread in threads:
            thread.join()
        assert found == order

    def test_a_single_candidate_may_have_more_than_the_limit(self) -> None:
        with Admission(10).reserved(1000):
            pass


SMI = """#!/bin/sh
echo "0, NVIDIA H200, GPU-aaa, 580.159.04, 143771, 1980, 9.0"
echo "1, NVIDIA H200, GPU-bbb, 580.159.04, 143771, 1980, 9.0"
"""


class TestDevice:
    @pytest.fixture(autouse=True)
    def forget(self) -> None:
        device._gpus.cache_clear()
        device._all_gpus.cache_clear()

    def smi(self, folder: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
        program = folder / "nvidia-smi"
        program.write_text(text)
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)

    def test_gpus_are_read_off_the_driver(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.smi(tmp_path, monkeypatch, SMI)
        assert device.gpu_count() == 2
        gpu = device.gpu_of(1)
        assert (gpu.name, gpu.uuid, gpu.capability) == ("NVIDIA H200", "GPU-bbb", "9.0")
        assert gpu.memory_bytes == 143771 << 20
        fingerprint = device.fingerprint(gpu)
        assert (fingerprint.kind, fingerprint.uuid) == ("cuda", "GPU-bbb")
        environment = device.environment_of(gpu)
        assert environment["CUDA_VISIBLE_DEVICES"] == "GPU-bbb"
        assert environment["TORCH_CUDA_ARCH_LIST"] == "9.0"

    def test_only_visible_gpus_count(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.smi(tmp_path, monkeypatch, SMI)
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
        assert device.gpu_count() == 1
        assert device.gpu_of(0).uuid == "GPU-bbb"
        with pytest.raises(EvaluatorError, match="GPU 1 was asked for, 1 can be used"):
            device.gpu_of(1)

    def test_a_driver_that_fails_says_so(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.smi(tmp_path, monkeypatch, "#!/bin/sh\necho no devices were found\nexit 6\n")
        assert device.gpu_count() == 0
        with pytest.raises(EvaluatorError, match="code 6: no devices were found"):
            device.gpu_of(0)

    def test_cores_are_shared_only_where_there_are_few(self) -> None:
        cores = device.core_sets(range(16))
        assert (cores.timed, len(cores.other)) == ((0, 1), 14)
        assert device.core_sets([4, 5]).other == (4, 5)

    def test_gpus_of_one_machine_are_timed_from_cores_of_their_own(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.smi(tmp_path, monkeypatch, SMI)
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
        monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(32)))
        cores = device.cores_of(device.gpu_of(0))
        assert cores.timed == (2, 3)
        assert cores.other == tuple(range(4, 32))

    def test_compilers_are_found_though_no_shell_has_set_the_path(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.smi(tmp_path, monkeypatch, SMI)
        monkeypatch.setenv("CUDA_HOME", "/opt/cuda")
        folders = device.environment_of(device.gpu_of(0))["PATH"].split(":")
        assert "/opt/cuda/bin" in folders
        assert os.path.dirname(sys.executable) in folders


class TestComparison:
    """The device's figures are those that numpy takes of the same outputs."""

    @pytest.fixture(autouse=True)
    def small_chunks(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(comparison, "CHUNK", 1000)
        monkeypatch.setattr(correctness, "CHUNK", 1000)

    def both(
        self, got: torch.Tensor, exact: torch.Tensor, own: torch.Tensor
    ) -> tuple[dict[str, float], dict[str, float]]:
        arrays = [Array.of(tensor.numpy()) for tensor in (got, exact, own)]
        return (
            asdict(comparison.measure(got, exact, own)),
            asdict(correctness.deviation(arrays[0], arrays[1], arrays[2])),
        )

    @pytest.mark.parametrize("special", [(), (float("nan"),), (float("inf"), float("-inf"))])
    def test_floats(self, special: tuple[float, ...]) -> None:
        generator = torch.Generator().manual_seed(0)
        exact = torch.randn(57, 61, generator=generator, dtype=torch.float64)
        own = exact.float()
        got = own * (1 + 1e-6 * torch.randn(57, 61, generator=generator))
        for at, value in enumerate(special):
            got[3 + at, 5] = value
            exact[20, at] = value
            own[20, at], got[20, at] = value, value
        exact[30, 7], own[30, 7] = 1e300, float("inf")
        got[40, 8], own[40, 8] = 1.0, float("inf")
        mine, theirs = self.both(got, exact, own)
        assert mine == pytest.approx(theirs, rel=2e-6)

    @pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
    def test_float32_does_not_lose_what_is_tiny_or_huge(self, dtype: torch.dtype) -> None:
        scale = {torch.float32: 1e-30, torch.bfloat16: 1e-30, torch.float16: 6e4}[dtype]
        own = torch.linspace(-1, 1, 2500, dtype=torch.float64).mul(scale).to(dtype)
        exact = own.double()
        found = comparison.measure(own * 0.5, exact, own)
        assert found.rms == pytest.approx(0.5, rel=1e-2)
        assert found.peak == pytest.approx(0.5 * 3**0.5, rel=1e-2)
        assert found.wrong_class == 0
        halved = comparison.measure((own * 0.5).contiguous(), own, own)
        assert halved.rms == pytest.approx(0.5, rel=1e-2)

    def test_what_is_huge_and_finite_has_a_size(self) -> None:
        own = torch.full((2500,), 1e20)
        found = comparison.measure(own * 0.999, own, own)
        assert found.rms == pytest.approx(1e-3, rel=1e-2)
        assert found.scale == pytest.approx(1e20, rel=1e-6)
        assert comparison.measure(own * 1e-3, own, own).rms == pytest.approx(1.0, rel=1e-2)

    def test_integers(self) -> None:
        exact = torch.arange(5000)
        got = exact.clone()
        got[[1234, 4321]] += 1
        mine, theirs = self.both(got, exact, exact)
        assert mine["wrong_class"] == theirs["wrong_class"] == 2
        assert mine["first"] == theirs["first"] == 1234

    def test_tied_indices_are_right(self) -> None:
        source = torch.zeros(3, 4)
        source[1, 2] = source[1, 3] = 5.0
        exact = source.argmax(1)
        got = exact.clone()
        got[1] = 3
        tied = comparison.ties_of(exact, source, 1)
        assert comparison.measure(got, exact, exact, tied=tied).wrong_class == 0
        got[1] = 0
        assert comparison.measure(got, exact, exact, tied=tied).wrong_class == 1
        got[1] = 9
        assert comparison.measure(got, exact, exact, tied=tied).wrong_class == 1

    def test_a_constant_stands_for_all_elements(self) -> None:
        exact = torch.randn(2500, dtype=torch.float64)
        whole = comparison.measure(torch.zeros(2500), exact, exact.float())
        one = comparison.measure(torch.zeros(()), exact, exact.float())
        assert asdict(one) == pytest.approx(asdict(whole), rel=1e-6)

    def test_what_is_far_off_is_not_measured_to_its_end(self) -> None:
        exact = torch.ones(5000, dtype=torch.float64)
        known = comparison.measure(exact.float(), exact, exact.float())
        far = comparison.measure(torch.zeros(()), exact, exact.float(), known=known, enough=1e-6)
        assert far.rms > 1e-6

    def test_means_leave_out_what_is_not_finite(self) -> None:
        values = torch.tensor([1.0, 3.0, float("inf"), float("nan")], dtype=torch.float64)
        assert comparison.finite_mean(values) == 2.0
        assert comparison.finite_mean(values[2:]) == np.float64(0)


class TestOutputs:
    def described(self, **changes: object) -> dict[str, Any]:
        where = {"handle": "0f" * 64, "allocation": 3, "room": ""}
        output = {**spec(4, 8).to_json(), **where, **changes}
        return {"outputs": [output], "tuple": False}

    def outputs(self, reply: object) -> CudaOutputs:
        room = Room(number=7, handle="", offset=0, num_bytes=64)
        return CudaOutputs(reply, {"check": room})

    def test_an_input_that_is_returned_is_read_in_the_room_of_this_candidate(self) -> None:
        outputs = self.outputs(self.described(handle="", room="check"))
        assert outputs.readable
        assert outputs.exported[0]["room"] == 7

    def test_a_room_of_somebody_else_is_not_followed(self) -> None:
        assert not self.outputs(self.described(handle="", room="timed")).readable

    def test_what_is_exported_can_be_read(self) -> None:
        outputs = self.outputs(self.described())
        assert outputs.readable
        assert outputs.overlapping == [False]

    @pytest.mark.parametrize("handle", ["", "zz" * 64, "0f" * 63, 7])
    def test_a_handle_that_is_none_is_not_followed(self, handle: object) -> None:
        assert not self.outputs(self.described(handle=handle)).readable

    @pytest.mark.parametrize("number", [-1, 1 << 64, 1.0, True, "3", "x" * 1_000_000, None])
    def test_what_is_no_number_of_an_allocation_is_a_forgery(self, number: object) -> None:
        with pytest.raises(CandidateFailed) as failure:
            self.outputs(self.described(allocation=number))
        assert failure.value.reason == "forged_message"
        assert len(failure.value.log) < 1000

    @pytest.mark.parametrize(
        "reply",
        [None, {}, {"outputs": 3}, {"outputs": [{}]}, {"outputs": [{"dtype": "float32"}]}],
        ids=str,
    )
    def test_a_malformed_description_is_a_forgery(self, reply: object) -> None:
        with pytest.raises(CandidateFailed) as failure:
            self.outputs(reply)
        assert (failure.value.status, failure.value.reason) == (Status.CRASHED, "forged_message")

    def test_repeated_rows_are_seen(self) -> None:
        assert self.outputs(self.described(stride=[0, 1])).overlapping == [True]
