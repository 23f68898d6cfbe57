"""A sketch of convolutions to few channels, for which tiles of a product are mostly padding."""

from __future__ import annotations

from archives.configuration import Configuration, Space
from operators.sketches.module import local_names
from operators.sketches.patterns.convolution import Convolution, find_convolution
from operators.sketches.patterns.operands import FLOATS
from operators.sketches.sketch import Sketch
from operators.sketches.triton.convolution import block_from, constants, shared_values
from operators.sketches.triton.kept_text import KEPT_TEXT
from operators.sketches.triton.layout_text import NEIGHBOURS_TEXT
from operators.sketches.triton.program import TritonProgram, write_program
from operators.sketches.triton.tapwise_text import TAPWISE_TEXT
from problems.graph import OperatorGraph
from problems.problem import Problem

__all__ = ["TAPWISE_CONVOLUTION"]

_FEW = 16
"""Output channels of a group below which the tiles of a product, of 16 at least, have padding.

Few input channels are no reason: a product's depth is all of their taps."""


def _write(problem: Problem, graph: OperatorGraph) -> str | None:
    found = find_convolution(graph, FLOATS)
    names = local_names(problem, graph)
    if found is None or names is None or not _suits(found):
        return None
    space, configuration = _space(found)
    x = names[found.x]
    operands = (found.x, found.weight, found.bias)
    arguments = ", ".join(names[value] if value else "None" for value in operands)
    values = constants(shared_values(found) | _geometry(found))
    program = TritonProgram(
        summary="Convolution tap by tap, each input number for all output channels of a group.",
        space=space,
        configuration=configuration,
        kernels="\n".join((values, NEIGHBOURS_TEXT, KEPT_TEXT, TAPWISE_TEXT)),
        values=tuple(value for value in operands if value),
        body=(
            f"out = torch.empty({found.shape}, dtype={x}.dtype, device={x}.device)",
            f"convolve({arguments}, out)",
            "return out",
        ),
    )
    return write_program(problem, graph, program)


def _suits(found: Convolution) -> bool:
    """Few output channels, but not one of one, which is what depthwise sketches are for."""
    inputs, outputs = found.channels[0] // found.groups, found.channels[1] // found.groups
    return outputs < _FEW and max(inputs, outputs) > 1


def _geometry(found: Convolution) -> dict[str, int]:
    """Return the constants of the spatial dimensions.

    An output is `OUT_STRIDE * place + phase`; a tap finds the input at
    `MOVE * place + (phase + START + STEP * tap) / OUT_STRIDE` where that is whole.
    """
    values: dict[str, int] = {}
    windows = found.windows
    for at, letter in enumerate("DHW"):
        stride, padding = windows.stride[at], windows.padding[at]
        out_stride = stride if found.transposed else 1
        named = {
            "SIZE": windows.size[at],
            "OUT": windows.out[at],
            "KERNEL": windows.kernel[at],
            "OUT_STRIDE": out_stride,
            "GRID": -(-windows.out[at] // out_stride),
            "MOVE": 1 if found.transposed else stride,
            "START": padding if found.transposed else -padding,
            "STEP": -windows.dilation[at] if found.transposed else windows.dilation[at],
        }
        values |= {f"{name}_{letter}": value for name, value in named.items()}
    even = values["GRID_W"] % 2 == 0 and values["MOVE_W"] == values["OUT_STRIDE_W"] == 1
    return values | {"EVEN_GRID": int(even)}


def _space(found: Convolution) -> tuple[Space, Configuration]:
    channels = block_from(found.channels[1] // found.groups, 1, _FEW)
    space: Space = {
        "BLOCK_P": (128, 256, 512, 1024),
        "BLOCK_OC": tuple(block for block in (channels, channels // 2) if block),
        "UNROLL": (1, 4, 8),
        "num_warps": (2, 4, 8),
    }
    return space, {"BLOCK_P": 256, "BLOCK_OC": channels, "UNROLL": 8, "num_warps": 2}


TAPWISE_CONVOLUTION = Sketch(name="tapwise-convolution", device="cuda", write=_write)
"""Convolutions, transposed or not, to few channels a group, in float32 as it is."""
