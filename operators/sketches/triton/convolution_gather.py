"""Sketches of convolutions as one product whose input is gathered where it lies."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from math import prod

from archives.configuration import Configuration, Space
from operators.sketches.module import local_names
from operators.sketches.patterns.convolution import Convolution, find_convolution
from operators.sketches.patterns.operands import FLOATS
from operators.sketches.patterns.separable import find_separable
from operators.sketches.sketch import Sketch
from operators.sketches.triton.convolution import (
    block_from,
    constants,
    form_values,
    precisions,
    shared_values,
)
from operators.sketches.triton.convolution_form import Form, form_of
from operators.sketches.triton.convolution_gather_text import (
    GATHER_TEXT,
    GATHERED_FOLLOWED_TEXT,
    GATHERED_PRODUCTS_TEXT,
    POINTWISE_GATHER_TEXT,
    SEPARABLE_GATHER_TEXT,
)
from operators.sketches.triton.convolution_pack_text import PACK_TEXT, PACK_WEIGHT_TEXT
from operators.sketches.triton.depthwise import depthwise_text, depthwise_values
from operators.sketches.triton.layout_text import NEIGHBOURS_TEXT
from operators.sketches.triton.program import TritonProgram, write_program
from operators.sketches.triton.slides import (
    windows_configuration,
    windows_space,
    windows_values,
)
from problems.graph import OperatorGraph, TensorSpec
from problems.problem import Problem

__all__ = [
    "GATHERED_CONVOLUTION",
    "NARROW_GATHERED",
    "NARROW_SEPARABLE",
    "SEPARABLE_CONVOLUTION",
    "STAGED_SEPARABLE",
    "gathered_program",
]


def _write(problem: Problem, graph: OperatorGraph, *, narrow: bool = False) -> str | None:
    found = find_convolution(graph, FLOATS)
    program = gathered_program(graph, found, narrow=narrow) if found is not None else None
    if found is None or program is None:
        return None
    operands = (found.x, None, None, found.weight, found.bias)
    return _completed(problem, graph, program, operands, found.shape)


def gathered_program(
    graph: OperatorGraph, found: Convolution, *, narrow: bool, followed: bool = False
) -> TritonProgram | None:
    """Return the program of a convolution that gathers; its values and call are still to come.

    Args:
        graph: The graph.
        found: The convolution.
        narrow: Whether numbers of float32 are multiplied as numbers of 16 bits.
        followed: Whether tiles go through `store_tile`, which is still to come too.

    Returns:
        The program; None for a transposed convolution with strides, or where a narrow program
        would be the same again.
    """
    form = form_of(found, 3)
    chosen = _chosen(graph, found.x, narrow=narrow)
    if form is None or not chosen:
        return None
    depth = found.channels[0] // found.groups * form.folded
    values = shared_values(found) | form_values(found, form) | _places(found, form)
    values |= {"DEPTH": depth}
    text = "\n".join(
        (
            constants(values),
            'TAPS_INNER = tl.constexpr(CONFIG["TAPS_INNER"])',
            NEIGHBOURS_TEXT,
            PACK_TEXT,
            PACK_WEIGHT_TEXT,
            GATHER_TEXT,
            GATHERED_FOLLOWED_TEXT if followed else GATHERED_PRODUCTS_TEXT,
        )
    )
    many = form.folded > 1 and values["GROUP_IN"] > 1
    orders = {"TAPS_INNER": (False, True) if many else (False,)}
    first = {"TAPS_INNER": many and form.axes[2].stride > 1, "num_stages": 1 if many else 3}
    return TritonProgram(
        summary="Convolution as one matrix product; its input is gathered where it lies"
        + (", each number one of 16 bits." if narrow else "."),
        space={**_space(found, depth, chosen), **orders},
        configuration={**_configuration(found, depth, chosen), **first},
        kernels=text,
        values=(),
        body=(),
    )


def _write_separable(problem: Problem, graph: OperatorGraph) -> str | None:
    found = find_separable(graph, FLOATS)
    form = form_of(found.depthwise, 3) if found is not None else None
    if found is None or form is None:
        return None
    first, second = found.depthwise, found.pointwise
    depth = second.channels[0]
    values = shared_values(second) | form_values(first, form) | _places(first, form)
    values |= {
        "IN_CHANNELS": first.channels[0],
        "MULTIPLIER": first.channels[1] // first.channels[0],
        "DEPTH": depth,
        "FOLDED": 1,
        "CHANNEL_ROW": depth,
        "TAPS_INNER": 0,
    }
    text = "\n".join(
        (
            constants(values),
            NEIGHBOURS_TEXT,
            PACK_TEXT,
            PACK_WEIGHT_TEXT,
            SEPARABLE_GATHER_TEXT,
            GATHERED_PRODUCTS_TEXT,
        )
    )
    # Sums of the first convolution have no bound that a scale for float16 could rest on.
    chosen = tuple(p for p in _chosen(graph, first.x, narrow=False) if "fp16" not in p)
    program = TritonProgram(
        summary="Depthwise convolution of a tile, multiplied by the pointwise weights at once.",
        space=_space(second, depth, chosen),
        configuration={**_configuration(second, depth, chosen), "num_stages": 1},
        kernels=text,
        values=(),
        body=(),
    )
    operands = (first.x, first.weight, first.bias, second.weight, second.bias)
    return _completed(problem, graph, program, operands, second.shape)


def _write_staged(problem: Problem, graph: OperatorGraph, *, narrow: bool = False) -> str | None:
    found = find_separable(graph, FLOATS)
    form = form_of(found.depthwise, 3) if found is not None else None
    names = local_names(problem, graph)
    if found is None or form is None or names is None:
        return None
    first, second = found.depthwise, found.pointwise
    windows, depth = first.windows, second.channels[0]
    values = shared_values(second) | _places(first, form)
    values |= windows_values(windows) | depthwise_values(first)
    values |= {f"LEAD_{axis}": 0 for axis in "DHW"} | {f"GAP_{axis}": 0 for axis in "DHW"}
    values |= {"DEPTH": depth, "CHANNEL_ROW": depth, "FOLDED": 1, "MOVES": 1}
    values |= {"REVERSED": 0, "TAPS_INNER": 0}
    text = "\n".join(
        (
            constants(values),
            depthwise_text(windows, warps="SLIDE_WARPS"),
            PACK_TEXT,
            PACK_WEIGHT_TEXT,
            POINTWISE_GATHER_TEXT,
            GATHERED_PRODUCTS_TEXT,
        )
    )
    x, taps, weight = names[first.x], names[first.weight], names[second.weight]
    biases = [names[value] if value else "None" for value in (first.bias, second.bias)]
    precision = _chosen(graph, first.x, narrow=narrow)
    if not precision:
        return None
    slide_space, slide = windows_space(windows), windows_configuration(windows)
    space = {"SLIDE_WARPS" if k == "num_warps" else k: v for k, v in slide_space.items()}
    chosen = {"SLIDE_WARPS" if k == "num_warps" else k: v for k, v in slide.items()}
    operands = (first.x, first.weight, first.bias, second.weight, second.bias)
    return write_program(
        problem,
        graph,
        TritonProgram(
            summary="Depthwise convolution, then a matrix product over its channels"
            + (", each number one of 16 bits." if narrow else "."),
            space={**space, **_space(second, depth, precision)},
            configuration={**chosen, **_configuration(second, depth, precision)},
            kernels=text,
            values=tuple(value for value in operands if value),
            body=(
                f"middle = torch.empty({first.shape}, dtype={x}.dtype, device={x}.device)",
                f"slide({x}, {taps}, {biases[0]}, middle)",
                f"out = torch.empty({second.shape}, dtype={x}.dtype, device={x}.device)",
                f"convolve(middle, None, None, {weight}, {biases[1]}, out)",
                "return out",
            ),
        ),
    )


def _chosen(graph: OperatorGraph, value: str, *, narrow: bool) -> tuple[str, ...]:
    """Return the precisions for a value; none where a narrow program would be the same again."""
    spec = graph.spec(value)
    assert isinstance(spec, TensorSpec)
    return () if narrow and spec.dtype != "float32" else precisions(spec.dtype, narrow=narrow)


def _places(found: Convolution, form: Form) -> dict[str, int]:
    """Return the number of outputs of a channel, and whether taps reach into the padding."""
    width = form.axes[2]
    values = {
        "PLACES": found.batch * prod(axis.out for axis in form.axes),
        "EVEN_PLACES": int(width.out % 2 == 0 and width.stride == 1),
    }
    for letter, axis in zip("DHW", form.axes, strict=True):
        reach = (axis.folded - 1) * axis.step
        low = axis.lead - axis.gap + min(0, reach)
        high = (axis.out - 1) * axis.stride + axis.lead - axis.gap + max(0, reach)
        values[f"OUTSIDE_{letter}"] = int(low < 0 or high >= axis.size)
    return values


def _completed(
    problem: Problem,
    graph: OperatorGraph,
    program: TritonProgram,
    operands: tuple[str, str | None, str | None, str, str | None],
    shape: tuple[int, ...],
) -> str | None:
    """Complete a program by the call; operands are in the order of `convolve`."""
    names = local_names(problem, graph)
    if names is None:
        return None
    x = names[operands[0]]
    arguments = ", ".join(names[value] if value else "None" for value in operands)
    body = (
        f"out = torch.empty({shape}, dtype={x}.dtype, device={x}.device)",
        f"convolve({arguments}, out)",
        "return out",
    )
    values = tuple(value for value in operands if value)
    return write_program(problem, graph, replace(program, values=values, body=body))


def _depths(depth: int) -> tuple[int, ...]:
    """Blocks of the product's depth that need little padding, the default first."""
    if depth <= 16:
        return (16,)
    padded = {block: -(-depth // block) * block for block in (32, 64)}
    least = min(padded.values())
    return tuple(block for block, size in padded.items() if size <= 1.34 * least)


def _space(last: Convolution, depth: int, chosen: tuple[str, ...]) -> Space:
    channels = block_from(last.channels[1] // last.groups, 16, 256)
    return {
        "PRECISION": chosen,
        "BLOCK_P": (64, 128, 256),
        "BLOCK_OC": tuple(b for b in (channels, channels // 2) if b >= 16),
        "BLOCK_K": _depths(depth),
        "CHANNELS_FIRST": (False, True),
        "num_warps": (4, 8),
        "num_stages": (1, 2, 3),
    }


def _configuration(last: Convolution, depth: int, chosen: tuple[str, ...]) -> Configuration:
    channels = block_from(last.channels[1] // last.groups, 16, 128)
    return {
        "PRECISION": chosen[0],
        "BLOCK_P": 128,
        "BLOCK_OC": channels,
        "BLOCK_K": _depths(depth)[0],
        "CHANNELS_FIRST": channels >= 64,
        "num_warps": 4,
        "num_stages": 3,
    }


GATHERED_CONVOLUTION = Sketch(name="gathered-convolution", device="cuda", write=_write)
"""Any convolution but a transposed one with strides; pays where memory is what bounds."""

NARROW_GATHERED = Sketch(name="narrow-gathered", device="cuda", write=partial(_write, narrow=True))
"""The same with single products of 11 bits, which is the precision of TF32."""

SEPARABLE_CONVOLUTION = Sketch(name="separable-convolution", device="cuda", write=_write_separable)
"""A depthwise convolution and a pointwise one in one kernel."""

STAGED_SEPARABLE = Sketch(name="staged-separable", device="cuda", write=_write_staged)
"""The same in two kernels, with the depthwise result in memory."""

NARROW_SEPARABLE = Sketch(
    name="narrow-separable", device="cuda", write=partial(_write_staged, narrow=True)
)
"""That with single products of 11 bits."""
