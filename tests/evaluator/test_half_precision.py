"""Problems in half precision: who is as exact as the reference passes, who is less is found."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import nn

from archives.evaluation import Status
from evaluator.referee.correctness import Deviation, bound_of
from evaluator.referee.referee import Referee
from evaluator.worker.state import state_specs, take_precision
from tests.evaluator.referee_cases import judge, problem_of

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


@pytest.mark.parametrize("precision", ["fp16", "bf16"])
def test_the_problem_s_own_way_is_right_with_hidden_weights(
    referee: Referee, precision: str
) -> None:
    problem = replace(NORMED, precision=precision)
    verdict = judge(referee, problem, problem.source.replace("class Model(", "class ModelNew("))
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
    take_precision(model, state_specs(reference.to(torch.bfloat16)))
    assert model.linear.weight.dtype is torch.bfloat16
    assert model.packed.dtype is torch.float32
    assert model.count.dtype is torch.int64
    again = Packed()
    take_precision(again, state_specs(nn.Module()))
    assert again.linear.weight.dtype is torch.float32
