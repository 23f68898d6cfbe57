"""Sketches of convolutions: sums of shifted matrix products, and products gathered in place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from operators.sketches.module import local_names
from operators.sketches.patterns.convolution import Convolution, find_convolution
from operators.sketches.patterns.operands import FLOATS
from operators.sketches.sketch import Sketch
from operators.sketches.triton.convolution_form import OVERLAP, Form, form_of
from operators.sketches.triton.convolution_pack_text import (
    PACK_INPUT_TEXT,
    PACK_TEXT,
    PACK_WEIGHT_TEXT,
)
from operators.sketches.triton.convolution_text import CONVOLUTION_FOLLOWED_TEXT, CONVOLUTION_TEXT
from operators.sketches.triton.layout_text import NEIGHBOURS_TEXT
from operators.sketches.triton.program import TritonProgram, write_program
from problems.graph import OperatorGraph, TensorSpec
from problems.problem import Problem

__all__ = [
    "NARROW_CONVOLUTION",
    "SHIFTED_CONVOLUTION",
    "block_from",
    "constants",
    "form_values",
    "precisions",
    "shared_values",
    "shifted_program",
]

_DESCRIPTOR_IMPORT = "from triton.tools.tensor_descriptor import TensorDescriptor"
_PROCESSORS = 132
"""Programs of the persistent form."""
_NARROW = 32
"""Channels below which taps may be folded: two depths of a matrix instruction."""
_MOST_JOINED = 8
"""Phases whose sums fit into the registers of one program."""
_WIDE = 64
"""Channels from which on the row of one tap is long enough."""
_LARGEST_LAYOUT = 2**32
"""Elements of the largest layout that folding may make."""


def precisions(dtype: str, *, narrow: bool) -> tuple[str, ...]:
    """Return how numbers of a dtype may be multiplied, the default first.

    Args:
        dtype: Of inputs and weights.
        narrow: In float32, whether one product of 11 bits is enough, as TF32 has it. Programs
            are narrow or not: a search that looks at time alone would leave the accurate ones.
    """
    if dtype != "float32":
        return ("native",)
    return ("fp16",) if narrow else ("fp16x3", "bf16x3", "bf16x6")


def block_from(size: int, least: int, most: int) -> int:
    """Return the smallest power of two that holds a size, between two of them."""
    return min(max(1 << (size - 1).bit_length(), least), most)


def constants(values: Mapping[str, int]) -> str:
    """Return the text of compile-time constants."""
    return "\n".join(f"{name} = tl.constexpr({value})" for name, value in values.items())


def shared_values(found: Convolution) -> dict[str, int]:
    """Return the constants that do not depend on the layout."""
    return {
        "BATCH": found.batch,
        "IN_CHANNELS": found.channels[0],
        "OUT_CHANNELS": found.channels[1],
        "GROUPS": found.groups,
        "GROUP_IN": found.channels[0] // found.groups,
        "GROUP_OUT": found.channels[1] // found.groups,
        "TRANSPOSED": int(found.transposed),
    }


def form_values(found: Convolution, form: Form) -> dict[str, int]:
    """Return the constants of a layout."""
    positions, width = found.batch * form.rows, form.axes[2]
    channels = found.channels[0] // found.groups
    return form.values() | {
        "MOVES": form.taps,
        "FOLDED": form.folded * form.along,
        "LAID_OUT": form.folded,
        "ALONG": form.along,
        "CHANNEL_ROW": _padded(found, form) if form.along > 1 else channels,
        "REVERSED": int(found.transposed and form.along > 1),
        "POSITIONS": positions,
        "ALL_ROWS": positions * form.phases,
        "EVEN_ROWS": int(width.rows % 2 == 0 and width.stride == 1),
        "EVEN_OUT": int(width.rows % 2 == 0 and width.out_stride == 1),
    }


def _forms(found: Convolution) -> dict[int, Form]:
    """Layouts by how many dimensions are folded, the most promising first."""
    channels = found.channels[0] // found.groups
    folds = [0, 1, 2, 3] if channels < _NARROW else [0]
    folds += [OVERLAP] if 16 <= channels < _WIDE else []
    forms: dict[int, Form] = {}
    for fold in folds:
        form = form_of(found, fold)
        known = {(each.folded, each.along) for each in forms.values()}
        if (
            form is not None
            and (form.folded, form.along) not in known
            and _elements(found, form) < _LARGEST_LAYOUT
        ):
            forms[fold] = form
    return dict(sorted(forms.items(), key=lambda item: _cost(found, item[1])))


def _padded(found: Convolution, form: Form) -> int:
    depth = found.channels[0] // found.groups * form.folded
    return -(-depth // 16) * 16


def _elements(found: Convolution, form: Form) -> int:
    return found.batch * form.rows * form.phases * found.groups * _padded(found, form)


def _cost(found: Convolution, form: Form) -> float:
    """Rough seconds of the products and of writing and reading the layout."""
    products = (
        _elements(found, form)
        // form.phases
        * form.taps
        * form.along
        * (found.channels[1] // found.groups)
    )
    return products / 1e14 + _elements(found, form) * 8 / 3e12


def _blocks(found: Convolution, forms: Mapping[int, Form]) -> tuple[int, ...]:
    """Blocks of channels that need little padding, that for the best layout first."""
    blocks: dict[int, None] = {}
    for form in forms.values():
        depth = found.channels[0] // found.groups * form.folded
        depth = _padded(found, form) * form.along if form.along > 1 else depth
        padded = {block: -(-depth // block) * block for block in (64, 32, 128, 16)}
        least = min(padded.values())
        blocks |= {block: None for block, size in padded.items() if size <= 1.34 * least}
    return tuple(block for block in blocks if block > 16 or len(blocks) == 1)


def _write(problem: Problem, graph: OperatorGraph, *, narrow: bool = False) -> str | None:
    found = find_convolution(graph, FLOATS)
    names = local_names(problem, graph)
    if found is None or names is None:
        return None
    program = shifted_program(graph, found, narrow=narrow)
    if program is None:
        return None
    x, weight = names[found.x], names[found.weight]
    bias = names[found.bias] if found.bias else "None"
    completed = replace(
        program,
        values=tuple(v for v in (found.x, found.weight, found.bias) if v),
        body=(
            f"out = torch.empty({found.shape}, dtype={x}.dtype, device={x}.device)",
            f"convolve({x}, {weight}, {bias}, out)",
            "return out",
        ),
    )
    return write_program(problem, graph, completed)


def shifted_program(
    graph: OperatorGraph, found: Convolution, *, narrow: bool, followed: bool = False
) -> TritonProgram | None:
    """Return the program of a convolution by shifts; its values and call are still to come.

    Args:
        graph: The graph.
        found: The convolution.
        narrow: Whether numbers of float32 are multiplied as numbers of 16 bits.
        followed: Whether tiles go through `store_tile`, which is still to come too.

    Returns:
        The program; None where there is no layout, or a narrow one would be the same again.
    """
    spec = graph.spec(found.x)
    assert isinstance(spec, TensorSpec)
    forms = _forms(found)
    if not forms or (narrow and spec.dtype != "float32"):
        return None
    numbers = {fold: form_values(found, form) for fold, form in forms.items()}
    layouts = "\n".join(f"    {fold}: {values}," for fold, values in numbers.items())
    names_of_form = next(iter(numbers.values()))
    lines = [
        constants(shared_values(found) | {"TAPS_INNER": 0}),
        f"FORMS = {{\n{layouts}\n}}",
        'FORM = FORMS[CONFIG["FOLD"]]',
        *(f'{name} = tl.constexpr(FORM["{name}"])' for name in names_of_form),
    ]
    space = _space(found, forms) | {"PRECISION": precisions(spec.dtype, narrow=narrow)}
    start = _narrow(found, forms) if narrow else _configuration(found, forms)
    sums = CONVOLUTION_FOLLOWED_TEXT if followed else CONVOLUTION_TEXT
    text = "\n".join((*lines, NEIGHBOURS_TEXT, PACK_TEXT, PACK_WEIGHT_TEXT, PACK_INPUT_TEXT, sums))
    return TritonProgram(
        summary="Convolution as a sum of shifted matrix products"
        + (", each number one of 16 bits." if narrow else " over channels laid out last."),
        space=space,
        configuration=start | {"PRECISION": space["PRECISION"][0]},
        kernels=text,
        values=(),
        body=(),
        imports=(_DESCRIPTOR_IMPORT,),
    )


def _is_strided(forms: Mapping[int, Form]) -> bool:
    """Tell whether outputs come in phases."""
    return any(axis.out_stride > 1 for form in forms.values() for axis in form.axes)


def _joins(forms: Mapping[int, Form]) -> bool:
    """Tell whether phases along the width are few enough to be held side by side."""
    return all(1 < form.axes[2].out_stride <= _MOST_JOINED for form in forms.values())


def _space(found: Convolution, forms: Mapping[int, Form]) -> dict[str, Sequence[bool | int | str]]:
    channels = block_from(found.channels[1] // found.groups, 16, 256)
    strided = _is_strided(forms)
    joins = _joins(forms)
    return {
        "FOLD": tuple(forms),
        "BLOCK_P": (64, 128, 256),
        "BLOCK_OC": tuple(b for b in (channels, channels // 2) if b >= 16),
        "BLOCK_K": _blocks(found, forms),
        "CHANNELS_FIRST": (False, True),
        "JOIN": (True, False) if joins else (False,),
        "PROGRAMS": (0,) if strided else (0, _PROCESSORS),
        "PARTS": (1,) if strided else (1, 2, 4),
        "PACK_ROWS": (64, 128),
        "PACK_COLUMNS": (64,),
        "num_warps": (4, 8),
        "num_stages": (2, 3, 4),
    }


def _configuration(
    found: Convolution, forms: Mapping[int, Form]
) -> dict[str, bool | int | float | str]:
    channels = block_from(found.channels[1] // found.groups, 16, 128)
    return {
        "FOLD": next(iter(forms)),
        "BLOCK_P": 64 if _joins(forms) else 128,
        "BLOCK_OC": channels,
        "BLOCK_K": _blocks(found, forms)[0],
        "CHANNELS_FIRST": channels >= 64,
        "JOIN": _joins(forms),
        "PROGRAMS": 0,
        "PARTS": 1,
        "PACK_ROWS": 64,
        "PACK_COLUMNS": 64,
        "num_warps": 8 if channels >= 128 else 4,
        "num_stages": 3,
    }


def _narrow(found: Convolution, forms: Mapping[int, Form]) -> dict[str, bool | int | float | str]:
    """Where to start with single products: they wait for memory more, so tiles are larger."""
    configuration = _configuration(found, forms)
    if _is_strided(forms):
        few = all(form.axes[2].out_stride <= 4 for form in forms.values())
        return configuration | {"BLOCK_P": 128 if few else 64}
    wide: dict[str, bool | int | float | str] = {"BLOCK_P": 256, "num_warps": 8}
    if configuration["BLOCK_OC"] in (16, 32):
        return configuration | wide
    return configuration | wide | {"PROGRAMS": _PROCESSORS, "PARTS": 4, "num_stages": 4}


SHIFTED_CONVOLUTION = Sketch(name="shifted-convolution", device="cuda", write=_write)
"""Any convolution but a depthwise one, by tensor descriptors over a layout made in each call."""

NARROW_CONVOLUTION = Sketch(
    name="narrow-convolution", device="cuda", write=partial(_write, narrow=True)
)
"""The same with single products of 11 bits, which is the precision of TF32."""
