"""Convolutions in Triton: every geometry and structure against torch, in the interpreter."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from operators.sketches.patterns.convolution import find_convolution
from operators.sketches.sketch import Sketch
from operators.sketches.triton.convolution import NARROW_CONVOLUTION, SHIFTED_CONVOLUTION
from operators.sketches.triton.convolution_form import OVERLAP, form_of
from operators.sketches.triton.convolution_gather import (
    GATHERED_CONVOLUTION,
    NARROW_GATHERED,
    NARROW_SEPARABLE,
    SEPARABLE_CONVOLUTION,
    STAGED_SEPARABLE,
)
from problems.problem import Problem
from problems.trace import trace
from tests.operators.sketches.made import made_problem
from tests.operators.sketches.triton.interpreter import COARSE, Case, case_of, interpreted


def made(layers: str, shape: tuple[int, ...], forward: str = "self.conv(x)") -> Problem:
    """A problem of one layer, "conv", or of several: "conv = ...; point = ..."."""
    layers = layers if " = " in layers else f"conv = {layers}"
    each = (layer.split(" = ", 1) for layer in layers.split("; "))
    build = "\n".join(f"self.{name} = nn.{layer}" for name, layer in each)
    return made_problem(forward, {"x": f"torch.rand({shape})"}, build, name=layers)


ONCE = ((-2.0, 0.5),)
# Few large tiles: the interpreter's time goes by operations, not by elements.
SHIFTED: dict[str, int | str | bool] = {
    "BLOCK_P": 256,
    "BLOCK_K": 16,
    "PACK_ROWS": 256,
    "PACK_COLUMNS": 64,
}
GATHERED: dict[str, int | str | bool] = {"BLOCK_P": 256, "BLOCK_K": 32, "PRECISION": "fp16x3"}
STANDARD = {
    "Conv2d(16, 20, (2, 3), padding=(1, 2))": (2, 16, 5, 9),
    "Conv2d(17, 8, 3, stride=2, padding=1, dilation=2, bias=False)": (2, 17, 7, 8),
    "Conv1d(20, 5, 4, stride=3, dilation=4)": (2, 20, 30),
    "Conv3d(16, 8, (2, 3, 1), padding=(0, 1, 0), bias=False)": (1, 16, 4, 5, 6),
    "Conv2d(8, 6, 3, groups=2, padding='same')": (1, 8, 5, 6),
    "ConvTranspose1d(16, 6, 5, dilation=3)": (2, 16, 20),
    "ConvTranspose2d(16, 6, (2, 3), padding=(0, 3))": (1, 16, 5, 6),
    "Conv2d(16, 18, 1)": (2, 16, 5, 7),
}
STRIDED = {
    "ConvTranspose2d(16, 6, (3, 2), stride=(5, 3), padding=1, dilation=2)": (1, 16, 3, 4),
    "ConvTranspose3d(8, 8, 3, stride=2, padding=1, output_padding=1, groups=2)": (1, 8, 2, 3, 4),
}
NARROW = {
    "Conv2d(3, 8, (3, 4), stride=(2, 3), padding=(1, 2), dilation=(2, 1))": (1, 3, 7, 12),
    "Conv3d(3, 8, (2, 3, 2), padding=(1, 0, 1))": (1, 3, 4, 5, 6),
    "ConvTranspose2d(3, 8, 3, bias=False)": (2, 3, 5, 6),
}
SEPARABLE = {
    "conv = Conv2d(6, 12, 3, groups=6, padding=1); point = Conv2d(12, 17, 1)": (2, 6, 5, 7),
    "conv = Conv1d(5, 5, 3, groups=5, stride=2, bias=False); point = Conv1d(5, 7, 1)": (1, 5, 40),
}


def _once(
    sketch: Sketch,
    problem: Problem,
    changes: Mapping[str, Any],
    *,
    precision: str = "float32",
    tolerance: float = 16.0,
) -> Case:
    return case_of(
        sketch, problem, changes, precision=precision, variations=ONCE, tolerance=tolerance
    )


def _cases() -> dict[str, Case]:
    cases: dict[str, Case] = {}
    for layer, shape in (STANDARD | STRIDED | NARROW).items():
        cases[f"shifted {layer}"] = _once(SHIFTED_CONVOLUTION, made(layer, shape), SHIFTED)
    for layer, shape in (STANDARD | NARROW).items():
        cases[f"gathered {layer}"] = _once(GATHERED_CONVOLUTION, made(layer, shape), GATHERED)
    chained = "self.point(self.conv(x))"
    for layers, shape in SEPARABLE.items():
        problem = made(layers, shape, chained)
        cases[f"separable {layers}"] = _once(
            SEPARABLE_CONVOLUTION, problem, {**GATHERED, "PRECISION": "bf16x6"}
        )
        cases[f"staged {layers}"] = _once(STAGED_SEPARABLE, problem, GATHERED)
        narrow = {**GATHERED, "PRECISION": "fp16"}
        cases[f"narrow {layers}"] = _once(NARROW_SEPARABLE, problem, narrow, tolerance=COARSE)
    return cases | _layouts() | _precisions()


def _layouts() -> dict[str, Case]:
    cases: dict[str, Case] = {}
    layer, shape = next(iter(NARROW.items()))
    for fold in (0, 1, 2):
        changed = {**SHIFTED, "FOLD": fold, "CHANNELS_FIRST": True}
        cases[f"fold {fold}"] = _once(SHIFTED_CONVOLUTION, made(layer, shape), changed)
    for read in ("Conv2d(17, 5, (2, 3), padding=(0, 2))", "ConvTranspose2d(20, 5, (2, 3))"):
        cases[f"rows overlap {read}"] = _once(
            SHIFTED_CONVOLUTION, made(read, (2, int(read.split("(")[1][:2]), 4, 7)),
            {**SHIFTED, "FOLD": OVERLAP, "BLOCK_K": 32},
        )  # fmt: skip
    (apart, shape), *_ = STRIDED.items()
    cases["phases apart"] = _once(
        SHIFTED_CONVOLUTION, made(apart, shape), {**SHIFTED, "JOIN": False}
    )
    layer, shape = next(iter(STANDARD.items()))
    for channels_first in (False, True):
        persistent = {"PROGRAMS": 2, "PARTS": 2, "CHANNELS_FIRST": channels_first, "BLOCK_P": 32}
        cases[f"persistent {channels_first}"] = _once(
            SHIFTED_CONVOLUTION, made(layer, shape), {**SHIFTED, **persistent}
        )
    cases["taps inner"] = _once(
        GATHERED_CONVOLUTION, made(layer, shape), {**GATHERED, "TAPS_INNER": True}
    )
    return cases


def _precisions() -> dict[str, Case]:
    cases: dict[str, Case] = {}
    layer, shape = next(iter(STANDARD.items()))
    for sketch, base in ((SHIFTED_CONVOLUTION, SHIFTED), (GATHERED_CONVOLUTION, GATHERED)):
        for precision in ("bf16x3", "bf16x6"):
            # Three products of bfloat16 have 17 bits, torch's own float32 has 24.
            cases[f"{sketch.name} {precision}"] = _once(
                sketch,
                made(layer, shape),
                {**base, "PRECISION": precision},
                tolerance=1e3 if precision == "bf16x3" else 16.0,
            )
        for dtype in ("float16", "bfloat16"):
            cases[f"{sketch.name} {dtype}"] = _once(
                sketch, made(layer, shape), {**base, "PRECISION": "native"}, precision=dtype
            )
    for sketch, base in ((NARROW_CONVOLUTION, SHIFTED), (NARROW_GATHERED, GATHERED)):
        changed = {**base, "PRECISION": "fp16", "CHANNELS_FIRST": True}
        cases[sketch.name] = _once(sketch, made(layer, shape), changed, tolerance=COARSE)
    scales = ((1e6, 0.0), (1e-5, 0.0), (0.0, 0.0))
    cases["scaled shifted"] = case_of(
        SHIFTED_CONVOLUTION, made(layer, shape), SHIFTED, variations=scales
    )
    cases["scaled gathered"] = case_of(
        GATHERED_CONVOLUTION, made(layer, shape), GATHERED, variations=scales
    )
    return cases


CASES = _cases()


@pytest.fixture(scope="module")
def verdicts() -> dict[str, str]:
    return interpreted(CASES)


@pytest.mark.parametrize("name", CASES)
def test_programs(name: str, verdicts: dict[str, str]) -> None:
    assert verdicts[name] == ""


def test_gaps_between_rows_are_shared() -> None:
    problem = made("ConvTranspose2d(16, 6, 3)", (1, 16, 5, 6))
    found = find_convolution(trace(problem.source))
    assert found is not None
    form = form_of(found, 0)
    assert form is not None
    # Rows of the layout are those of the output: 5 + 2 and 6 + 2.
    assert [axis.rows for axis in form.axes] == [1, 7, 8]


def test_strided_transposed_taps_are_not_folded() -> None:
    problem = made("ConvTranspose2d(3, 6, 3, stride=2)", (1, 3, 5, 6))
    graph = trace(problem.source)
    found = find_convolution(graph)
    assert found is not None
    assert form_of(found, 1) is None
    assert GATHERED_CONVOLUTION.write(problem, graph) is None
