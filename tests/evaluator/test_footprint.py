"""What judging a problem takes is known from its graph, before anything is drawn."""

from __future__ import annotations

import pytest

from evaluator.referee.footprint import needed_bytes, plan_of, require_fit, stock_sets
from evaluator.referee.inputs import CHECK_PLAN, MemoryPlan
from problems.errors import ProblemError
from problems.graph import OperatorGraph
from problems.trace import trace

GIB = 1 << 30
MODULE = """
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x)


def get_inputs():
    return [torch.randn(ROWS, 1 << 17)]


def get_init_inputs():
    return []
"""


def relu(rows: int) -> OperatorGraph:
    return trace(MODULE.replace("ROWS", str(rows)))


def test_a_small_problem_has_all_its_sets_side_by_side() -> None:
    plan = plan_of(relu(8), 2 * GIB)
    assert not plan.in_turn
    bases = [plan.check_base(number) for number in range(2 * len(CHECK_PLAN))]
    assert len(set(bases)) == len(bases)
    assert plan.total_bytes < GIB


def test_a_large_problem_takes_a_few_times_its_own_size() -> None:
    graph = relu(1024)  # half a GiB in, half a GiB out
    plan = plan_of(graph, 2 * GIB)
    assert plan.in_turn
    roomy = plan_of(graph, 1 << 60)
    assert roomy.total_bytes > 25 * GIB
    assert plan.total_bytes < 6 * GIB
    assert 10 * GIB < needed_bytes(graph, plan) < 24 * GIB < needed_bytes(graph, roomy)
    assert stock_sets(plan) < stock_sets(roomy)


@pytest.mark.parametrize("room", [1, 1 << 60])
def test_regions_do_not_overlap_and_fit(room: int) -> None:
    plan = plan_of(relu(4), room)
    last = plan.num_places - 1
    exact_at, own_at = plan.expected_at(last)
    assert own_at - exact_at == plan.exact_bytes
    assert own_at + plan.own_bytes == plan.timed_expected_at
    assert plan.timed_expected_at + plan.own_bytes == plan.expected_bytes
    assert plan.check_base(last) + plan.set_bytes <= plan.inputs_bytes


def test_a_view_counts_as_what_it_will_be_written_out_to() -> None:
    wide = trace(MODULE.replace("torch.randn(ROWS, 1 << 17)", "torch.zeros(1).expand(9, 1000)"))
    plan = plan_of(wide, GIB)
    assert isinstance(plan, MemoryPlan)
    assert plan.set_bytes >= 36_000


def test_the_sentence_names_both_numbers() -> None:
    with pytest.raises(ProblemError, match=r"Big needs \d+ bytes of memory, \d+ are available"):
        require_fit("Big", 1 << 60)
    require_fit("Small", 1)
