"""Convolutions: every geometry and structure against torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from operators.sketches.cpp.convolution import DIRECT_CONVOLUTION
from operators.sketches.cpp.depthwise import DEPTHWISE_ROWS, DEPTHWISE_SEPARABLE
from operators.sketches.patterns.convolution import find_convolution
from operators.sketches.patterns.windows import Windows, merged
from operators.sketches.sketch import Sketch
from problems.catalogue import load_level
from problems.problem import Problem, Scale
from problems.trace import trace

Check = Callable[..., int]
Make = Callable[..., Problem]

FAMILY = [50, *range(54, 86), 87]


@pytest.mark.parametrize("problem", load_level(1, Scale.TINY, FAMILY), ids=lambda p: p.name)
def test_catalogue(problem: Problem, check_sketch: Check) -> None:
    check_sketch(DIRECT_CONVOLUTION, problem)


@pytest.mark.parametrize("problem", load_level(1, Scale.TINY, range(82, 86)), ids=lambda p: p.name)
def test_catalogue_depthwise(problem: Problem, check_sketch: Check) -> None:
    check_sketch(DEPTHWISE_ROWS, problem)


def test_catalogue_separable(check_sketch: Check) -> None:
    (problem,) = load_level(1, Scale.TINY, [86])
    check_sketch(DEPTHWISE_SEPARABLE, problem, {}, {"STAGED": True})


@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        ("Conv2d(6, 20, (3, 4), stride=(2, 3), padding=(1, 2), dilation=(2, 1))", (2, 6, 11, 40)),
        ("ConvTranspose3d(5, 18, 3, stride=(2, 1, 3), padding=1)", (1, 5, 3, 4, 9)),
    ],
)
def test_every_structure(
    layer: str, shape: tuple[int, ...], check_sketch: Check, make_problem: Make
) -> None:
    problem = make_problem("self.conv(x)", {"x": shape}, f"self.conv = nn.{layer}")
    small = {"OC_BLOCK": 2, "VECTORS": 2}  # what tiles take longest to compile
    assert check_sketch(DIRECT_CONVOLUTION, problem, small, each=True) > 9


@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        ("Conv1d(3, 5, 4, stride=3, dilation=4)", (2, 3, 50)),
        ("Conv2d(3, 4, 1)", (1, 3, 9, 7)),
        ("Conv2d(2, 3, (3, 1), padding=(1, 0))", (1, 2, 8, 8)),
        ("Conv3d(2, 3, (3, 3, 1))", (1, 2, 5, 6, 10)),
        ("ConvTranspose1d(4, 6, 5, dilation=3)", (1, 4, 40)),
        ("ConvTranspose2d(4, 6, 3, stride=5, padding=1, dilation=2)", (1, 4, 5, 6)),
        (
            "ConvTranspose3d(4, 4, 3, stride=2, padding=1, output_padding=1, groups=2)",
            (1, 4, 3, 4, 5),
        ),
        ("ConvTranspose2d(3, 3, 2, stride=2, groups=3)", (1, 3, 5, 5)),
        ("Conv3d(4, 8, 2, groups=2)", (1, 4, 4, 5, 6)),
        ("Conv2d(2, 2, 3, padding='same')", (1, 2, 5, 5)),
    ],
)
def test_odd_geometries(
    layer: str, shape: tuple[int, ...], check_sketch: Check, make_problem: Make
) -> None:
    problem = make_problem("self.conv(x)", {"x": shape}, f"self.conv = nn.{layer}")
    check_sketch(DIRECT_CONVOLUTION, problem, {"VECTORS": 1, "LANES": 8, "FLAT": 0})


@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        ("Conv2d(3, 3, 3, groups=3, bias=False)", (1, 3, 9, 40)),
        (
            "Conv2d(2, 6, (3, 5), groups=2, stride=(1, 2), padding=2, dilation=(2, 1))",
            (2, 2, 9, 21),
        ),
        ("Conv1d(4, 4, 3, groups=4)", (1, 4, 30)),
    ],
)
def test_depthwise_structures(
    layer: str, shape: tuple[int, ...], check_sketch: Check, make_problem: Make
) -> None:
    problem = make_problem("self.conv(x)", {"x": shape}, f"self.conv = nn.{layer}")
    check_sketch(DEPTHWISE_ROWS, problem, each="stride" in layer)


def test_separable_with_bias(check_sketch: Check, make_problem: Make) -> None:
    build = "self.a = nn.Conv2d(4, 8, 3, groups=4, padding=1)\nself.b = nn.Conv2d(8, 5, 1)"
    problem = make_problem("self.b(self.a(x))", {"x": (2, 4, 7, 19)}, build)
    check_sketch(DEPTHWISE_SEPARABLE, problem, {}, {"STAGED": True}, {"STRIP_ROWS": 2})


def test_weights_may_change_between_calls(
    check_sketch: Check, make_problem: Make, build_folder: object
) -> None:
    build = "self.conv = nn.Conv1d(2, 3, 3)"
    problem = make_problem("self.conv(x)", {"x": (1, 2, 20)}, build)
    check_sketch(DIRECT_CONVOLUTION, problem)
    source = DIRECT_CONVOLUTION.write(problem, trace(problem.source))
    assert source is not None
    namespace: dict[str, Any] = {}
    exec(source, namespace)
    model = namespace["ModelNew"]()
    x = torch.rand(1, 2, 20)
    with torch.no_grad():
        first = model(x)
        model.conv.weight.mul_(2)
        model.conv.bias.mul_(2)
        assert torch.allclose(model(x), 2 * first, rtol=1e-6)


@pytest.mark.parametrize("sketch", [DIRECT_CONVOLUTION, DEPTHWISE_ROWS, DEPTHWISE_SEPARABLE])
def test_other_graphs_are_left_alone(sketch: Sketch, make_problem: Make) -> None:
    build = "self.conv = nn.Conv2d(2, 2, 3, groups=2)"
    problem = make_problem("self.conv(x).relu()", {"x": (1, 2, 8, 8)}, build)
    graph = trace(problem.source)
    assert find_convolution(graph) is None
    assert sketch.write(problem, graph) is None


@pytest.mark.parametrize(
    ("forward", "point"),
    [
        ("self.point(self.conv(x).transpose(2, 3))", "nn.Conv2d(4, 6, 1)"),
        ("self.point(self.conv(x)[:, :, 1:-1, 1:-1])", "nn.Conv2d(4, 6, 1)"),
        ("self.point(self.conv(x))", "nn.ConvTranspose2d(4, 6, 1, dilation=2, output_padding=1)"),
    ],
)
def test_what_lies_between_two_convolutions_is_not_overlooked(
    forward: str, point: str, make_problem: Make
) -> None:
    build = f"self.conv = nn.Conv2d(4, 4, 3, groups=4); self.point = {point}"
    problem = make_problem(forward, {"x": (1, 4, 9, 9)}, build)
    assert DEPTHWISE_SEPARABLE.write(problem, trace(problem.source)) is None


def test_dimensions_without_windows_are_joined() -> None:
    columns = Windows.of(
        size=(8, 5, 10), out=(6, 5, 10), kernel=(3, 1, 1), stride=(1,), padding=(0,), dilation=(1,)
    )
    joined = merged(columns)
    assert joined.size == (1, 1, 400)
    assert joined.out == (1, 1, 300)
    assert joined.kernel == (1, 1, 3)
    assert joined.dilation == (1, 1, 50)
