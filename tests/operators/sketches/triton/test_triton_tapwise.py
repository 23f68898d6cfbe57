"""Convolutions to few channels in Triton, tap by tap, against torch."""

from __future__ import annotations

import pytest

from operators.sketches.triton.tapwise import TAPWISE_CONVOLUTION
from problems.problem import Problem
from problems.trace import trace
from tests.operators.sketches.made import made_problem
from tests.operators.sketches.triton.interpreter import Case, case_of, interpreted, on_device

LAYERS = {
    "Conv1d(3, 5, 4, stride=3, dilation=4)": (2, 3, 30),
    "Conv2d(3, 8, (3, 4), stride=(2, 3), padding=(1, 2), dilation=(2, 1))": (1, 3, 7, 12),
    "Conv2d(8, 6, 3, groups=2, padding='same', bias=False)": (2, 8, 5, 6),
    "Conv3d(2, 4, (2, 3, 2), padding=(1, 0, 1))": (1, 2, 4, 5, 6),
    "ConvTranspose1d(4, 6, 5, dilation=3, padding=2)": (2, 4, 20),
    "ConvTranspose2d(4, 6, (3, 2), stride=(5, 3), padding=1, dilation=2)": (1, 4, 3, 4),
    "ConvTranspose2d(4, 6, 2, stride=(2, 3), groups=2, bias=False)": (2, 4, 3, 4),
    "ConvTranspose3d(8, 8, 3, stride=2, padding=1, output_padding=1, groups=4)": (1, 8, 2, 3, 4),
    "ConvTranspose2d(4, 4, 4, stride=2, dilation=2)": (1, 4, 3, 4),
}


def made(layer: str, shape: tuple[int, ...]) -> Problem:
    inputs = {"x": f"torch.rand({shape})"}
    return made_problem("self.conv(x)", inputs, f"self.conv = nn.{layer}", name=layer)


def _cases() -> dict[str, Case]:
    cases = {}
    for layer, shape in LAYERS.items():
        changes = {"BLOCK_P": 64}
        cases[layer] = case_of(
            TAPWISE_CONVOLUTION, made(layer, shape), changes, variations=((-2.0, 0.5),)
        )
    layer, shape = "Conv2d(3, 12, 3, padding=1)", (1, 3, 6, 7)
    for precision in ("float32", "float16", "bfloat16"):
        cases[f"channels in parts, {precision}"] = case_of(
            TAPWISE_CONVOLUTION,
            made(layer, shape),
            {"BLOCK_P": 16, "BLOCK_OC": 8},
            precision=precision,
            variations=((-2.0, 0.5),),
        )
    given = made_problem(
        "torch.nn.functional.conv2d(x, y)",
        {"x": "torch.rand(1, 3, 5, 6)", "y": "torch.rand(4, 3, 2, 2)"},
        name="weights that are an input",
    )
    cases[given.name] = case_of(TAPWISE_CONVOLUTION, given, {"BLOCK_P": 16})
    return cases


CASES = _cases()


@pytest.fixture(scope="module")
def verdicts() -> dict[str, str]:
    return interpreted(CASES)


@pytest.mark.parametrize("name", CASES)
def test_programs_do_what_their_references_do(name: str, verdicts: dict[str, str]) -> None:
    assert verdicts[name] == ""


@pytest.mark.gpu
def test_the_device_agrees() -> None:
    verdicts = on_device(CASES)
    assert {name: wrong for name, wrong in verdicts.items() if wrong} == {}


@pytest.mark.parametrize(
    ("layer", "shape"),
    [("Conv2d(3, 16, 3)", (1, 3, 5, 6)), ("Conv2d(8, 8, 3, groups=8)", (1, 8, 5, 6))],
    ids=["many channels", "depthwise"],
)
def test_others_are_for_other_sketches(layer: str, shape: tuple[int, ...]) -> None:
    one = made(layer, shape)
    assert TAPWISE_CONVOLUTION.write(one, trace(one.source)) is None
