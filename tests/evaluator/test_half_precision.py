"""Problems in half precision: who is as exact as the reference passes, who is less is found."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import nn

from archives.evaluation import Status
from evaluator.referee.correctness import Deviation, bound_of
from evaluator.referee.referee import Referee
from evaluator.worker.state import convert, take_precision
from tests.evaluator.referee_cases import judge, problem_of

CPU = torch.device("cpu")
NORMED = problem_of(
    """
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(512, 256)
        self.norm = nn.LayerNorm(256)

    def forward(self, x):
        return self.norm(self.linear(x))


def get_inputs():
    return [torch.randn(256, 512)]


def get_init_inputs():
    return []
""",
    name="Normed",
)


TABLED = """
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(128, 128)
        DECLARED

    def forward(self, x):
        return COMPUTED


def get_inputs():
    return [torch.randn(64, 128)]


def get_init_inputs():
    return []
"""
BUFFER = 'self.register_buffer("table", torch.randn(128, 128), persistent=False)'
WIDE_BUFFER = BUFFER.replace("128), ", "128).double(), ")
PLAIN = "self.table = torch.randn(128)"


def with_tensors(dtype: torch.dtype) -> nn.Module:
    """A model with a tensor of each sort; one is in float64 in any case."""
    model = nn.Module()
    model.kept = nn.Parameter(torch.zeros(4, dtype=dtype))
    model.register_buffer("hidden", torch.zeros(4, dtype=dtype), persistent=False)
    model.register_buffer("wide", torch.zeros(4, dtype=torch.float64), persistent=False)
    model.register_buffer("count", torch.zeros((), dtype=torch.int64), persistent=False)
    model.plain = torch.zeros(4, dtype=dtype)
    return model


@pytest.mark.parametrize("precision", ["fp16", "bf16"])
def test_the_problem_s_own_way_is_right_with_hidden_weights(
    referee: Referee, precision: str
) -> None:
    problem = replace(NORMED, precision=precision)
    verdict = judge(referee, problem, problem.source.replace("class Model(", "class ModelNew("))
    assert verdict.status is Status.OK, verdict.log


@pytest.mark.parametrize(
    ("precision", "declared", "computed"),
    [
        ("bf16", BUFFER, "self.linear(x) @ self.table"),
        ("bf16", BUFFER, "self.linear(x) + self.table[0]"),
        ("fp16", BUFFER, "self.linear(x) @ self.table"),
        ("bf16", WIDE_BUFFER, "self.linear(x) @ self.table"),
        ("fp32", WIDE_BUFFER, "self.linear(x) @ self.table"),
        # Both keep it in float32, and so the outputs are.
        ("bf16", PLAIN, "self.linear(x) + self.table"),
    ],
)
def test_the_reference_is_right_with_tensors_outside_its_state(
    referee: Referee, precision: str, declared: str, computed: str
) -> None:
    source = TABLED.replace("DECLARED", declared).replace("COMPUTED", computed)
    problem = replace(problem_of(source, name="Tabled"), precision=precision)
    verdict = judge(referee, problem, source.replace("class Model(", "class ModelNew("))
    assert verdict.status is Status.OK, verdict.log


def test_weights_of_eight_bits_are_wrong_where_bfloat16_was_asked_for(referee: Referee) -> None:
    problem = replace(NORMED, precision="bf16")
    source = problem.source.replace("class Model(", "class ModelNew(").replace(
        "self.norm(self.linear(x))",
        "self.norm(nn.functional.linear(x, self.linear.weight.to(torch.float8_e4m3fn).to(x.dtype), "
        "self.linear.bias))",
    )
    verdict = judge(referee, problem, source)
    assert (verdict.status, verdict.reason) == (Status.WRONG_VALUE, "wrong_value"), verdict.log


def test_a_16_bit_output_may_be_off_by_four_roundings() -> None:
    exact = Deviation(rms=0.0, peak=0.0, scale=1.0, highest=1.0, wrong_class=0, free=0.0, first=0)
    assert bound_of([exact], "bfloat16").rms == 4 * 2.0**-8
    assert bound_of([exact], "float16").rms == 4 * 2.0**-11
    assert bound_of([exact], "float32").rms == 8 * 2.0**-24
    erring = replace(exact, rms=0.01)
    assert bound_of([erring], "bfloat16").rms == 0.04
    assert bound_of([erring], "float32").rms == 0.16


def test_a_candidate_s_state_takes_the_reference_s_type_where_it_has_its_name() -> None:
    class Packed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(4, 4)
            self.packed = nn.Parameter(torch.zeros(4, 4))
            self.register_buffer("count", torch.zeros((), dtype=torch.int64))

    reference = nn.Module()
    reference.linear = nn.Linear(4, 4)
    reference.register_buffer("count", torch.zeros((), dtype=torch.int64))
    model = Packed()
    take_precision(model, convert(reference, CPU, torch.bfloat16))
    assert model.linear.weight.dtype is torch.bfloat16
    assert model.packed.dtype is torch.float32
    assert model.count.dtype is torch.int64
    again = Packed()
    take_precision(again, convert(nn.Module(), CPU, torch.bfloat16))
    assert again.linear.weight.dtype is torch.float32


def test_what_is_converted_is_what_module_to_converts() -> None:
    model = with_tensors(torch.float32)
    found = convert(model, CPU, torch.bfloat16)
    assert found == {
        "kept": ["float32", "bfloat16"],
        "hidden": ["float32", "bfloat16"],
        "wide": ["float64", "bfloat16"],
    }
    assert {model.kept.dtype, model.hidden.dtype, model.wide.dtype} == {torch.bfloat16}
    assert model.plain.dtype is torch.float32
    assert convert(with_tensors(torch.float64), CPU, torch.float32)["hidden"] == [
        "float64",
        "float32",
    ]


def test_buffers_of_a_candidate_follow_the_reference_s_whether_persistent_or_not() -> None:
    found = convert(with_tensors(torch.float32), CPU, torch.bfloat16)
    model = with_tensors(torch.float32)
    take_precision(model, found)
    assert {model.kept.dtype, model.hidden.dtype, model.wide.dtype} == {torch.bfloat16}
    assert model.plain.dtype is torch.float32
    finer = with_tensors(torch.float64)
    take_precision(finer, found)
    assert finer.hidden.dtype is torch.float64, "another type is the candidate's own affair"
    assert finer.wide.dtype is torch.bfloat16
