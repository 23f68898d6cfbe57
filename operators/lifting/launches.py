"""How a kernel is launched: its grid as text, and the parameters that a search may choose."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from operators.lifting.kernels import TritonKernel, Unliftable
from problems.lifted import Kernel

__all__ = ["FOLDED_GRID", "Parameters", "grid_of", "parameters_of"]

FOLDED_GRID = '''
def folded_grid(columns, rows):
    """Spread more rows of programs than a grid's second dimension holds over its third."""
    layers = triton.cdiv(rows, 65535)
    return (columns, triton.cdiv(rows, layers), layers)
'''
_MOST_BLOCK = {"XBLOCK": 4096, "YBLOCK": 1024, "ZBLOCK": 1024, "RSPLIT": 64, "num_warps": 16}
"""Inductor leaves a mask out, and sizes workspaces, for values up to these.

Source: `TRITON_MAX_BLOCK` and `TRITON_MAX_RSPLIT` in torch/_inductor/runtime/hints.py.
"""
_MOST_DEPTH = 8192
"""Of a reduction's block; Inductor permits 32,768 and more."""
_LEAST_SCAN_BLOCK = 256
"""Of a scan split over programs, whose workspace is sized for it (`min_split_scan_rblock`)."""
_LEAST_TEMPLATE_BLOCK, _MOST_TEMPLATE_BLOCK = 16, 256
_MOST_TILE = 8192
"""Elements of a program at a time, beyond what Inductor tries itself. Tiles of 65,536 and more with
four warps took the compiler minutes, and were slow (level 1, problem 49, on an H200)."""

Value = int | bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """What a kernel is launched with besides its arguments.

    Attributes:
        names: The name of each in `CONFIG`, by its name at the launch.
        space: Permitted values by name at the launch.
        point: The value of each to begin with.
    """

    names: Mapping[str, str]
    space: Mapping[str, tuple[Value, ...]]
    point: Mapping[str, Value]

    def read(self, name: str) -> str:
        """Return the text that reads a parameter, or its value where it has no name."""
        if name in self.names:
            return f'CONFIG["{self.names[name]}"]'
        return repr(self.point[name])


def parameters_of(kernel: TritonKernel, known: Kernel | None, suffix: str) -> Parameters:
    """Return what a kernel may be launched with.

    Args:
        kernel: The kernel.
        known: What Inductor chose, and from what.
        suffix: Follows each name in `CONFIG`, such as "_2"; None of a single kernel: "".

    Raises:
        Unliftable: Nothing is known of a parameter.
    """
    picked: dict[str, Value] = dict(known.picked) if known else {}
    if kernel.template:
        picked = {
            **picked,
            **kernel.template,
            "num_warps": picked.get("num_warps", kernel.warps),
            "num_stages": picked.get("num_stages", kernel.stages),
        }
    names = [*kernel.constants, "num_warps", "num_stages"]
    missing = [name for name in names if name not in picked]
    if missing:
        raise Unliftable("no_launch_parameters", f"{kernel.name}: {', '.join(missing)}")
    point = {name: picked[name] for name in names}
    tried: dict[str, set[Value]] = {name: {value} for name, value in point.items()}
    for other in known.tried if known else ():
        for name in names:
            if name in other:
                tried[name].add(other[name])
    space = {name: _choices(name, point, tried[name], kernel) for name in names}
    return Parameters(names={name: name + suffix for name in names}, space=space, point=point)


def _choices(
    name: str, point: Mapping[str, Value], tried: set[Value], kernel: TritonKernel
) -> tuple[Value, ...]:
    """Values that Inductor knows, and those near the one it chose that its text permits."""
    value = point[name]
    if isinstance(value, bool):
        return (False, True)
    found = set(tried)
    if name == "num_stages":
        wide = bool(kernel.template) or "R0_BLOCK" in kernel.constants
        found |= {1, 2, 3, 4} if wide else {1}
    elif name == "GROUP_M":
        found |= {1, 4, 8, 16}
    elif name == "num_warps":
        found |= {value // 2, value * 2}
    elif name.endswith("BLOCK") or name == "RSPLIT" or name in kernel.template:
        near = {value // 4, value // 2, value * 2, value * 4}
        beside = (
            math.prod(size for other, size in point.items() if other.endswith("BLOCK")) // value
        )
        found |= {one for one in near if one < value or one * beside <= _MOST_TILE}
    permitted = {one for one in found if one == value or _is_permitted(name, one, kernel)}
    return tuple(sorted(permitted))


def _is_permitted(name: str, value: Value, kernel: TritonKernel) -> bool:
    """Tell whether the kernel's text is right for a value."""
    if name == "BLOCK_K" and kernel.is_even and kernel.sizes.get("K", 1) % max(value, 1):
        return False  # It reads without a mask.
    if kernel.grid == "SplitScanGrid" and name in ("XBLOCK", "R0_BLOCK"):
        return name == "R0_BLOCK" and _LEAST_SCAN_BLOCK <= value <= _MOST_DEPTH
    if name in kernel.template and name.startswith("BLOCK"):
        return _LEAST_TEMPLATE_BLOCK <= value <= _MOST_TEMPLATE_BLOCK
    if kernel.grid == "MixOrderReductionGrid" and name in ("XBLOCK", "RSPLIT_SIZE"):
        return False  # The workspace is sized for one, which the other divides.
    return 1 <= value <= _MOST_BLOCK.get(name, _MOST_DEPTH)


def grid_of(kernel: TritonKernel, arguments: Sequence[str], parameters: Parameters) -> str:
    """Return the text of a launch's grid.

    Args:
        kernel: The kernel.
        arguments: Texts of what it is called with, one for each of its `arguments`.
        parameters: What it is launched with.

    Raises:
        Unliftable: Its way of computing a grid is not known.
    """
    given = dict(zip(kernel.arguments, arguments, strict=True))

    def blocks(size: str, block: str) -> str:
        if block not in kernel.constants:
            return given[size]
        return f"triton.cdiv({given[size]}, {parameters.read(block)})"

    grid = kernel.grid
    if grid == "Grid1D":
        return f"({blocks('xnumel', 'XBLOCK')},)"
    if grid in ("Grid2D", "Grid3D"):
        sizes = [blocks(f"{axis}numel", f"{axis.upper()}BLOCK") for axis in "xyz"[: int(grid[4])]]
        return f"({', '.join(sizes)})"
    if grid == "Grid2DWithYZOverflow":
        return f"folded_grid({blocks('xnumel', 'XBLOCK')}, {blocks('ynumel', 'YBLOCK')})"
    if grid == "CooperativeReductionGrid":
        return f"({parameters.read('RSPLIT')}, {blocks('xnumel', 'XBLOCK')})"
    if grid == "SplitScanGrid":
        return f"({blocks('r0_numel', 'R0_BLOCK')}, {given['xnumel']})"
    if grid == "MixOrderReductionGrid":
        return f"(triton.cdiv({given['xnumel']}, {parameters.read('RSPLIT_SIZE')}),)"
    if grid == "FixedGrid":
        return _template_grid(kernel, given, parameters)
    raise Unliftable("unknown_grid", f"{kernel.name}: {grid or 'none stated'}")


def _template_grid(kernel: TritonKernel, given: Mapping[str, str], parameters: Parameters) -> str:
    """The grid of a template, in terms of its block sizes.

    Inductor states numbers. The formula is found among the known ones by its value at the block
    sizes that Inductor wrote down.
    """
    fixed = [given[f"_grid_{axis}"] for axis in range(3)]
    if not kernel.template:
        return f"({', '.join(fixed)})"
    sizes = kernel.sizes
    rows, columns = sizes.get("M"), sizes.get("N")
    if rows is not None and columns is not None:
        tiles = _cdiv(rows, kernel.template["BLOCK_M"]) * _cdiv(columns, kernel.template["BLOCK_N"])
        if fixed[0] == str(tiles):
            left = f"triton.cdiv({rows}, {parameters.read('BLOCK_M')})"
            right = f"triton.cdiv({columns}, {parameters.read('BLOCK_N')})"
            return f"({left} * {right}, {fixed[1]}, {fixed[2]})"
    found = _convolution_grid(kernel, fixed, parameters)
    if found is None:
        raise Unliftable("unknown_grid", f"{kernel.name}: a template with the grid {fixed}")
    return found


def _convolution_grid(
    kernel: TritonKernel, fixed: Sequence[str], parameters: Parameters
) -> str | None:
    """Of a convolution: places in blocks of BLOCK_M, output channels in blocks of BLOCK_N."""
    sizes = kernel.sizes
    names = [name for name in ("BATCH", "OUT_D", "OUT_H", "OUT_W") if name in sizes]
    channels, groups = sizes.get("OUT_C"), sizes.get("GROUPS", 1)
    if channels is None or len(names) < 2:
        return None
    places = math.prod(sizes[name] for name in names)
    columns = channels // groups
    expected = [
        str(_cdiv(places, kernel.template["BLOCK_M"])),
        str(_cdiv(columns, kernel.template["BLOCK_N"])),
        str(groups),
    ]
    if list(fixed) != expected:
        return None
    left = f"triton.cdiv({places}, {parameters.read('BLOCK_M')})"
    right = f"triton.cdiv({columns}, {parameters.read('BLOCK_N')})"
    return f"({left}, {right}, {groups})"


def _cdiv(size: int, block: int) -> int:
    return -(-size // block)
