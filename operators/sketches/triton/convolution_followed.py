"""Sketches of convolutions whose outputs go through pointwise operations before they are written.

All of them hand their outputs to one `store_tile`, whatever the shape of their tiles: it takes
for each output the image, the channel and the place in the channel, and reads what else is needed
there. These numbers never lead outside of the result, so only what has all of its elements is read
under a mask.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import prod

from operators.sketches.module import local_names
from operators.sketches.patterns.convolution import Convolution
from operators.sketches.patterns.convolution_followed import (
    FollowedConvolution,
    find_followed_convolution,
)
from operators.sketches.patterns.operands import FLOATS
from operators.sketches.patterns.separable import find_followed_depthwise
from operators.sketches.sketch import Sketch
from operators.sketches.triton.calls import definitions
from operators.sketches.triton.convolution import shifted_program
from operators.sketches.triton.convolution_gather import gathered_program
from operators.sketches.triton.depthwise import SlideOf, depthwise_program
from operators.sketches.triton.emitter import Emitter
from operators.sketches.triton.program import TritonProgram
from operators.sketches.triton.rest import (
    called_functions,
    finished_program,
    other_values,
    result_loads,
)
from operators.sketches.triton.slides import by_fours, by_windows
from operators.sketches.triton.tiles import Place
from problems.graph import OperatorGraph
from problems.problem import Problem

__all__ = [
    "DEPTHWISE_FOLLOWED",
    "FOURS_FOLLOWED",
    "GATHERED_FOLLOWED",
    "NARROW_FOLLOWED",
    "NARROW_GATHERED_FOLLOWED",
    "SHIFTED_FOLLOWED",
]

_ProgramOf = Callable[[OperatorGraph, Convolution], TritonProgram | None]

_STORE = '''
@triton.jit
def store_tile(out, total, image, channel, inner, place, inside):
    """Write outputs, of which `place` tells where they lie, after what is done to each."""
    image = image.to(tl.int64)
'''


def _write(
    program_of: _ProgramOf,
    call: str,
    problem: Problem,
    graph: OperatorGraph,
    *,
    depthwise: bool = False,
) -> str | None:
    """Write the program of a convolution and of what follows it.

    Args:
        program_of: Gives the convolution's program.
        call: Text of the call, with {x}, {weight}, {bias} and {out}.
        problem: The problem.
        graph: Its graph.
        depthwise: Whether only depthwise convolutions count.
    """
    find = find_followed_depthwise if depthwise else find_followed_convolution
    found, names = find(graph, FLOATS), local_names(problem, graph)
    program = program_of(graph, found.convolution) if found is not None else None
    if found is None or program is None or names is None:
        return None
    convolution, rest = found.convolution, found.rest
    others = other_values(rest, found.value)
    operands = (convolution.x, convolution.weight, convolution.bias)
    x, weight, bias = (names[value] if value else "None" for value in operands)
    tensors = "".join(f", {names[value]}" for value in others) or ","
    called_with = call.format(x=x, weight=weight, bias=bias, out=f"(out{tensors})")
    called = definitions(called_functions(rest))
    program = replace(
        program,
        summary=f"{program.summary[:-1]}; outputs are finished before they are written.",
        kernels="\n".join((called, _store(found, names, others), program.kernels)),
    )
    values = (*operands, *others)
    return finished_program(problem, graph, rest, program, values, called_with, f"{x}.device")


def _store(found: FollowedConvolution, names: Mapping[str, str], others: list[str]) -> str:
    """The text of `store_tile`."""
    terms, root = found.rest.terms, found.rest.output.term
    emitter = Emitter(terms=terms, names=names, place=partial(_place, found))
    emitter.known.update(dict.fromkeys(result_loads(found.rest, found.value), "total"))
    lines = [f"{names[value]}_ptr = out[{index}]" for index, value in enumerate(others, 1)]
    lines += emitter.statements([root])
    value = f"{emitter.known[root]}.to(out[0].dtype.element_ty)"
    lines.append(f"tl.store(out[0] + place, {value}, mask=inside)")
    return _STORE + textwrap.indent("\n".join(lines), "    ") + "\n"


def _place(found: FollowedConvolution, axes: frozenset[int], strides: Mapping[int, int]) -> Place:
    """Where a value lies for a tile."""
    sizes = found.rest.sizes
    below = [prod(sizes[axis + 1 :]) for axis in range(len(sizes))]
    if all(strides.get(axis) == step for axis, step in enumerate(below)):
        return Place(offset="place", inside="inside", full="False")
    sides = [_side(found, step) for step in below]
    parts = []
    for first, last in _runs(sorted(axes), strides, sizes, sides):
        side, unit, count = sides[last]
        index = side if below[last] == unit else f"{side} // {below[last] // unit}"
        if below[first] * sizes[first] != unit * count:
            index += f" % {prod(sizes[first : last + 1])}"
        parts.append(f"{index} * {strides[last]}" if strides[last] != 1 else index)
    return Place(offset=" + ".join(parts) or "0", inside="None", full="True")


def _side(found: FollowedConvolution, below: int) -> tuple[str, int, int]:
    """The index of a tile that an axis is part of, elements below it, and its size."""
    convolution = found.convolution
    places, channels = prod(convolution.windows.out), convolution.channels[1]
    if below >= places * channels:
        return "image", places * channels, convolution.batch
    return ("channel", places, channels) if below >= places else ("inner", 1, places)


def _runs(
    axes: Sequence[int],
    strides: Mapping[int, int],
    sizes: Sequence[int],
    sides: Sequence[tuple[str, int, int]],
) -> list[tuple[int, int]]:
    """The first and last of axes that lie in a tensor as in the result, and on one side."""
    runs: list[tuple[int, int]] = []
    for axis in axes:
        if runs:
            first, last = runs[-1]
            dense = strides[last] == strides[axis] * sizes[axis]
            if last + 1 == axis and sides[last] == sides[axis] and dense:
                runs[-1] = (first, axis)
                continue
        runs.append((axis, axis))
    return runs


_SHIFTED_CALL = "convolve({x}, {weight}, {bias}, {out})"
_GATHERED_CALL = "convolve({x}, None, None, {weight}, {bias}, {out})"
_SLIDE_CALL = "slide({x}, {weight}, {bias}, {out})"


def _shifted(name: str, *, narrow: bool) -> Sketch:
    program_of = partial(shifted_program, narrow=narrow, followed=True)
    return Sketch(name=name, device="cuda", write=partial(_write, program_of, _SHIFTED_CALL))


def _gathered(name: str, *, narrow: bool) -> Sketch:
    program_of = partial(gathered_program, narrow=narrow, followed=True)
    return Sketch(name=name, device="cuda", write=partial(_write, program_of, _GATHERED_CALL))


def _depthwise(name: str, slide_of: SlideOf, summary: str) -> Sketch:
    write = partial(_write, partial(_depthwise_of, slide_of, summary), _SLIDE_CALL, depthwise=True)
    return Sketch(name=name, device="cuda", write=write)


def _depthwise_of(
    slide_of: SlideOf, summary: str, _: OperatorGraph, found: Convolution
) -> TritonProgram | None:
    return depthwise_program(found, slide_of, summary)


SHIFTED_FOLLOWED = _shifted("shifted-convolution-followed", narrow=False)
"""A sum of shifted products and pointwise operations."""

NARROW_FOLLOWED = _shifted("narrow-convolution-followed", narrow=True)
"""The same with single products of 11 bits."""

GATHERED_FOLLOWED = _gathered("gathered-convolution-followed", narrow=False)
"""A product whose input is gathered where it lies, and pointwise operations."""

NARROW_GATHERED_FOLLOWED = _gathered("narrow-gathered-followed", narrow=True)
"""The same with single products of 11 bits."""

DEPTHWISE_FOLLOWED = _depthwise(
    "depthwise-convolution-followed",
    partial(by_windows, followed=True),
    "each input row is loaded once for all its outputs.",
)
"""A convolution of each channel by itself and pointwise operations."""

FOURS_FOLLOWED = _depthwise(
    "depthwise-by-fours-followed",
    partial(by_fours, followed=True),
    "four neighbouring outputs are made from vector loads.",
)
"""The same where windows overlap by all but one element."""
