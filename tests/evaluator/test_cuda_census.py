"""The census of a candidate's kernels on a GPU: what is told of them, from what ran."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from archives.evaluation import Reuse
from evaluator.worker.cuda.census import Launch, facts_of, launches_in


class TestCensus:
    COMPILED: Mapping[str, dict[str, Any]] = {
        "softmax_kernel": {"shared": 128, "tensor_core": False},
        "gemm_kernel": {"shared": 0, "tensor_core": True},
        "relu_kernel": {"shared": 0, "tensor_core": False},
    }

    def facts(self, *launches: Launch, calls: int = 1) -> dict[str, Any]:
        return facts_of(launches, calls, 4096, dict(self.COMPILED))

    def test_own_kernels_are_told_from_a_library_s(self) -> None:
        library = Launch(name="void at::native::vectorized_elementwise_kernel<4>", us=30.0)
        own = Launch(name="relu_kernel", us=10.0, blocks=4)
        found = self.facts(library, own)
        assert found["launches"] == 2
        assert found["own_kernel_share"] == 0.25
        assert found["reuse"] is Reuse.LIBRARY
        assert found["work"] == 1024

    @pytest.mark.parametrize(
        ("name", "reuse"),
        [
            ("softmax_kernel", Reuse.CACHE),
            ("relu_kernel", Reuse.REGISTERS),
            ("gemm_kernel", Reuse.LIBRARY),
            ("my_cuda_kernel(float*)", None),
        ],
    )
    def test_reuse_is_what_was_compiled(self, name: str, reuse: Reuse | None) -> None:
        found = self.facts(Launch(name=name, us=1.0, blocks=2))
        assert found["own_kernel_share"] == 1.0
        assert found["reuse"] is reuse

    @pytest.mark.parametrize(("shared", "reuse"), [(0, Reuse.REGISTERS), (4096, Reuse.CACHE)])
    def test_a_kernel_of_another_compiler_is_known_by_what_it_takes(
        self, shared: int, reuse: Reuse
    ) -> None:
        own = Launch(name="my_kernel", us=9.0, blocks=64, registers=40, shared_bytes=shared)
        found = self.facts(own, Launch(name="tail", us=1.0, blocks=1, registers=8))
        assert found["reuse"] is reuse
        assert (found["registers"], found["shared_bytes"]) == (40, shared)
        assert found["programs"] == 64

    def test_streams_are_those_of_one_call(self) -> None:
        side_by_side = [
            Launch(name="relu_kernel", us=1.0, stream=stream, number=number)
            for number, stream in enumerate([7, 20, 7, 21, 7, 22])
        ]
        assert self.facts(*reversed(side_by_side), calls=3)["streams"] == 2
        in_line = [replace(launch, stream=7) for launch in side_by_side]
        assert self.facts(*in_line, calls=3)["streams"] == 1

    def test_kernels_are_read_off_a_trace(self) -> None:
        told = {"stream": 20, "correlation": 311, "registers per thread": 40, "grid": [8, 2, 1]}
        event = {"cat": "kernel", "name": "f", "dur": 2.5, "args": {**told, "shared memory": 64}}
        others = [{"cat": "gpu_memcpy", "name": "Memcpy DtoD"}, {"ph": "M", "name": "thread"}]
        (found,) = launches_in([*others, event])
        assert found == Launch(
            name="f", us=2.5, blocks=16, registers=40, shared_bytes=64, stream=20, number=311
        )
        (bare,) = launches_in([{"cat": "kernel", "name": "f"}])
        assert bare == Launch(name="f", us=0.0)

    def test_streams_are_not_told_where_the_profiler_does_not(self) -> None:
        assert self.facts(Launch(name="relu_kernel", us=1.0))["streams"] is None
