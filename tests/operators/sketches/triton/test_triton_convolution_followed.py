"""Convolutions with pointwise operations after them, in one kernel, in the interpreter."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from operators.sketches.registry import SKETCHES
from operators.sketches.sketch import Sketch
from operators.sketches.triton.convolution_followed import (
    DEPTHWISE_FOLLOWED,
    FOURS_FOLLOWED,
    GATHERED_FOLLOWED,
    NARROW_FOLLOWED,
    NARROW_GATHERED_FOLLOWED,
    SHIFTED_FOLLOWED,
)
from problems.problem import Problem
from problems.trace import trace
from tests.operators.sketches.made import made_problem
from tests.operators.sketches.triton.interpreter import COARSE, Case, case_of, interpreted

Made = tuple[str, str, tuple[int, ...], tuple[int, ...]]
"""The layer, what is returned, and the shapes of x and of y."""


def _made(layer: str, forward: str, shape: tuple[int, ...], other: tuple[int, ...]) -> Problem:
    build = (
        f"self.conv = nn.{layer}\nself.gain = nn.Parameter(torch.ones(()))\n"
        "self.plane = nn.Parameter(torch.ones(6, 20))"
    )
    inputs = {"x": f"torch.rand({shape})", "y": f"torch.rand({other})"}
    return made_problem(forward, inputs, build, name=forward)


SHIFTED = {"BLOCK_P": 256, "BLOCK_K": 16, "PACK_ROWS": 256, "PACK_COLUMNS": 64}
GATHERED = {"BLOCK_P": 256, "BLOCK_K": 32}
SLIDING = {"BLOCK_C": 2, "BLOCK_H": 4, "BLOCK_W": 16}
PLAIN = "Conv2d(8, 6, 3, padding=1)"
BIASED: Made = (PLAIN, "torch.relu(self.conv(x) + y)", (2, 8, 5, 6), (6, 1, 1))
SCALED: Made = (
    "Conv2d(8, 6, (2, 3), bias=False)",
    "torch.clamp(self.conv(x) * 2 + 1, -1.0, 1.0) * self.gain - y",
    (2, 8, 5, 6),
    (4, 4),
)
# Three ways to lie: as the result does, the same for all channels, and the same for all images.
RESIDUAL: Made = (PLAIN, "self.conv(x) + y", (2, 8, 5, 6), (2, 6, 5, 6))
MASKED: Made = (PLAIN, "torch.sigmoid(self.conv(x)) * y", (2, 8, 5, 6), (2, 1, 5, 6))
REPEATED: Made = (PLAIN, "(self.conv(x) * y).flatten(1)", (2, 8, 5, 6), (6, 5, 6))
# Axes that are parts of an index: halves of the channels, and columns.
PARTED: Made = (
    PLAIN,
    "torch.tanh(self.conv(x).view(2, 2, 3, 5, 6) - y)",
    (2, 8, 5, 6),
    (2, 1, 1, 6),
)
SKIPPED: Made = (
    "Conv2d(8, 8, 3, padding=1)",
    "nn.functional.hardswish(self.conv(x)) + x * y",
    (2, 8, 5, 6),
    (1,),
)
LINE: Made = ("Conv1d(8, 5, 3, dilation=2)", "torch.relu(self.conv(x)) / y", (1, 8, 20), (5, 1))
VOLUME: Made = ("Conv3d(8, 4, 2)", "self.conv(x).abs()", (1, 8, 3, 4, 5), (1,))
TRANSPOSED: Made = (
    "ConvTranspose2d(16, 6, 3, bias=False)",
    "torch.relu(self.conv(x)) + y",
    (1, 16, 3, 4),
    (1, 6, 1, 1),
)
STRIDED: Made = (
    "ConvTranspose2d(16, 6, (3, 2), stride=(2, 3), padding=1)",
    "torch.relu(self.conv(x) - y)",
    (2, 16, 3, 4),
    (6, 5, 9),
)
DEPTHWISE: Made = (
    "Conv2d(3, 6, 3, groups=3, padding=1)",
    "torch.relu(self.conv(x) + y) * self.plane",
    (2, 3, 6, 20),
    (2, 6, 1, 1),
)
GRAPHS = (
    (SHIFTED_FOLLOWED, (BIASED, SCALED, RESIDUAL, VOLUME, STRIDED)),
    (GATHERED_FOLLOWED, (MASKED, REPEATED, PARTED, SKIPPED, LINE, TRANSPOSED)),
    (DEPTHWISE_FOLLOWED, (DEPTHWISE,)),
    (FOURS_FOLLOWED, (DEPTHWISE,)),
)
BASE: dict[str, dict[str, Any]] = {
    SHIFTED_FOLLOWED.name: SHIFTED,
    GATHERED_FOLLOWED.name: GATHERED,
    DEPTHWISE_FOLLOWED.name: SLIDING,
    FOURS_FOLLOWED.name: SLIDING,
}
OTHERS: tuple[Made, ...] = (
    (PLAIN, "torch.relu(self.conv(x)).mean((2, 3)) + y", (2, 8, 5, 6), (6,)),
    (PLAIN, "torch.softmax(self.conv(x), 1) + y", (2, 8, 5, 6), (6, 1, 1)),
    ("Conv2d(8, 8, 3, padding=1)", "self.conv(self.conv(x)) + y", (2, 8, 5, 6), (8, 1, 1)),
    (PLAIN, "torch.relu(self.conv(x * 2) + y)", (2, 8, 5, 6), (6, 1, 1)),
    (PLAIN, "torch.relu(self.conv(x).permute(0, 2, 3, 1) + y)", (2, 8, 5, 6), (6,)),
    (PLAIN, "self.conv(x).view(12, 30)", (2, 8, 5, 6), (1,)),
    # What `forward` makes itself is no attribute that a program could read.
    (PLAIN, "torch.minimum(self.conv(x), torch.tensor([0.5])) + 0.0 * y", (2, 8, 5, 6), (1,)),
)


def _case(sketch: Sketch, made: Made, changes: dict[str, Any], precision: str = "float32") -> Case:
    return case_of(sketch, _made(*made), changes, precision=precision, variations=((-2.0, 0.5),))


def _cases() -> dict[str, Case]:
    cases = {
        f"{sketch.name} {made[1]}": _case(sketch, made, BASE[sketch.name])
        for sketch, graphs in GRAPHS
        for made in graphs
    }
    apart = {**SHIFTED, "PARTS": 2, "PROGRAMS": 2, "BLOCK_P": 32}
    cases["persistent"] = _case(SHIFTED_FOLLOWED, RESIDUAL, apart)
    cases["at once"] = _case(DEPTHWISE_FOLLOWED, DEPTHWISE, {**SLIDING, "ROLLING": False})
    for sketch, precision in (
        (SHIFTED_FOLLOWED, "bfloat16"),
        (GATHERED_FOLLOWED, "float16"),
        (FOURS_FOLLOWED, "float16"),
    ):
        made = DEPTHWISE if sketch is FOURS_FOLLOWED else RESIDUAL
        cases[f"{sketch.name} {precision}"] = _case(sketch, made, BASE[sketch.name], precision)
    for sketch, base in ((NARROW_FOLLOWED, SHIFTED), (NARROW_GATHERED_FOLLOWED, GATHERED)):
        for made in (BIASED, RESIDUAL):
            narrow = _case(sketch, made, {**base, "PRECISION": "fp16"})
            cases[f"{sketch.name} {made[1]}"] = replace(narrow, tolerance=COARSE)
    return cases


CASES = _cases()


@pytest.fixture(scope="module")
def verdicts() -> dict[str, str]:
    return interpreted(CASES)


@pytest.mark.parametrize("name", CASES)
def test_programs(name: str, verdicts: dict[str, str]) -> None:
    assert verdicts[name] == ""


@pytest.mark.parametrize("made", OTHERS, ids=lambda made: made[1])
def test_other_graphs_are_left_alone(made: Made) -> None:
    problem = _made(*made)
    graph = trace(problem.source)
    followed = [sketch for sketch in SKETCHES if sketch.name.endswith("-followed")]
    assert not [sketch.name for sketch in followed if sketch.write(problem, graph) is not None]


def test_narrow_programs_multiply_numbers_of_sixteen_bits() -> None:
    problem = _made(*BIASED)
    for sketch in (NARROW_FOLLOWED, NARROW_GATHERED_FOLLOWED):
        source = sketch.write(problem, trace(problem.source))
        assert source is not None
        assert "'PRECISION': ['fp16']" in source
        assert "store_tile(" in source
        assert sketch.write(problem, trace(problem.source, "fp16")) is None


def test_a_convolution_of_all_channels_is_no_depthwise_one() -> None:
    problem = _made(*BIASED)
    assert DEPTHWISE_FOLLOWED.write(problem, trace(problem.source)) is None
