"""The speed of light of level 1, against published shapes and a few sums done by hand."""

from __future__ import annotations

import json
from functools import cache
from math import prod
from pathlib import Path

import pytest

from evaluator.referee.hardware import find_device
from evaluator.referee.roofline import LAUNCH_FLOOR_MS, Light, Work, light, work_of
from problems.catalogue import load_level
from problems.problem import Domain, DomainKind, Scale
from problems.trace import trace

FACTS = json.loads((Path(__file__).parents[1] / "problems" / "level1_facts.json").read_text())


@cache
def official(problem_id: int) -> Light:
    (problem,) = load_level(1, Scale.OFFICIAL, [problem_id])
    return light(work_of(trace(problem.source), problem.domains), find_device("H200"))


def test_a_square_product_is_bound_by_the_tf32_unit() -> None:
    bounds = official(1)
    assert bounds.work.flops == 2 * 4096**3
    assert bounds.work.bytes == 3 * 4096 * 4096 * 4
    assert bounds.bound == "compute"
    assert bounds.sol_ms == pytest.approx(2 * 4096**3 / 494.7e9)


def test_an_activation_is_bound_by_reading_and_writing_once() -> None:
    bounds = official(19)
    assert bounds.bound == "memory"
    assert bounds.sol_ms == pytest.approx(2 * 4096 * 393216 * 4 / 4800e6)
    assert bounds.hard_ms < 0.97 * bounds.sol_ms


def test_triangular_operands_count_half_the_bytes_as_hard_and_a_sixth_of_the_flops() -> None:
    full, triangular = official(1).work, official(14).work
    assert triangular.bytes == full.bytes
    # Half of the product is thrown away too: strictly, half of the operands' halves.
    assert triangular.avoidable_bytes == pytest.approx(0.75 * triangular.read_bytes, rel=1e-3)
    assert triangular.flops == pytest.approx(full.flops / 6, rel=1e-3)


def test_a_loss_reads_its_inputs_and_writes_one_number() -> None:
    work = official(94).work
    assert work.read_bytes == 2 * 32768 * 32768 * 4
    assert work.write_bytes == 4


def test_a_transposed_convolution_counts_the_input_positions() -> None:
    work = official(57).work
    assert work.flops == 2 * 8 * 1024 * 1024 * 64 * 64 * 9


def test_work_too_small_to_see_is_bound_by_a_launch() -> None:
    tiny = Work(read_bytes=64, avoidable_bytes=0, write_bytes=64, flops=0)
    bounds = light(tiny, find_device("H200"))
    assert bounds.bound == "launch"
    assert bounds.sol_ms == bounds.hard_ms == LAUNCH_FLOOR_MS


def test_strict_16_bit_products_are_faster_than_float32_ones() -> None:
    work = official(1).work
    device = find_device("H200")
    assert light(work, device, "bf16").compute_ms < light(work, device, "fp32").compute_ms


def test_a_symmetric_operand_says_everything_in_one_half() -> None:
    work = official(13).work
    assert work.avoidable_bytes == pytest.approx(work.read_bytes / 2, rel=1e-3)


def test_a_running_product_may_stop_at_a_zero_and_a_mask_hides_what_it_covers() -> None:
    product, masked = official(90).work, official(93).work
    assert product.avoidable_bytes == product.read_bytes
    assert masked.avoidable_bytes == 32768 * 32768 * 4


SUMS = """
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("kept", torch.ones(512, 512).tril())

    def forward(self, x, L):
        return {body}


def get_inputs():
    return [torch.rand(512, 512), torch.rand(512, 512).tril()]


def get_init_inputs():
    return []
"""
MATRIX = 4 * 512 * 512
HALF = MATRIX * 513 // (2 * 512)


def certain(body: str, kind: DomainKind = DomainKind.LOWER_TRIANGULAR) -> int:
    """Bytes that every program has to read of x and L."""
    graph = trace(SUMS.format(body=body))
    work = work_of(graph, [Domain(kind=DomainKind.REAL), Domain(kind=kind)])
    return work.read_bytes - work.avoidable_bytes


@pytest.mark.parametrize(
    "body",
    [
        "(x * L).sum()",
        "(L * x).sum()",
        "(x * L.t()).sum()",
        "(x * (2 * L.unsqueeze(0)).abs()).sum()",
        "(L / (x + 1)).sum()",
        "torch.dot(x.flatten(), L.flatten())",
        "torch.einsum('ij,ij->', x, L)",
    ],
)
def test_what_a_triangle_multiplies_need_not_be_read_where_its_zeros_are(body: str) -> None:
    assert certain(body) == pytest.approx(HALF, abs=4)
    assert certain(body, DomainKind.REAL) == 2 * MATRIX


@pytest.mark.parametrize(
    "body", ["(x * x.new_ones(512, 512).tril()).sum()", "(x * self.kept).sum()"]
)
def test_nor_what_a_constant_with_zeros_multiplies(body: str) -> None:
    assert certain(body) == 0


@pytest.mark.parametrize("body", ["x @ L", "L @ x", "x + L", "(x / L).sum()", "torch.mv(L, x[0])"])
def test_what_a_triangle_meets_otherwise_is_read(body: str) -> None:
    read = MATRIX // 512 if "mv" in body else MATRIX
    assert certain(body) == pytest.approx(read + HALF, abs=4)


def test_a_dilated_pooling_leaves_the_edges_out() -> None:
    work = official(43).work
    # Positions 0 and 126 are in no window; along the innermost dimension they move with others.
    assert work.read_bytes == 16 * 32 * 126 * 126 * 128 * 4


@pytest.mark.parametrize("problem_id", sorted({*range(1, 101)} - {43}))
def test_compulsory_bytes_are_inputs_weights_and_outputs_once(problem_id: int) -> None:
    bounds = official(problem_id)
    assert bounds.work.bytes == pytest.approx(_facts_bytes(problem_id), rel=0.01)
    assert 0 < bounds.hard_ms <= bounds.sol_ms


def _facts_bytes(problem_id: int) -> int:
    (record,) = (record for record in FACTS if record["id"] == problem_id)
    item = {"float32": 4, "int64": 8, "bool": 1}
    tensors = [spec for spec in [*record["inputs"], *record["outputs"]] if "shape" in spec]
    values = sum(prod(spec["shape"]) * item[spec["dtype"]] for spec in tensors)
    return int(values + 4 * record["parameters"])
