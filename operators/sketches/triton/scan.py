"""Sketches of scans: running sums and products along a dimension."""

from __future__ import annotations

from math import prod

from archives.configuration import Configuration, Space
from operators.sketches.module import local_names
from operators.sketches.patterns.operands import FLOATS
from operators.sketches.patterns.scan import Scan, find_scan
from operators.sketches.sketch import Sketch
from operators.sketches.triton.calls import definitions, imports
from operators.sketches.triton.kernels import chosen, indented, launch
from operators.sketches.triton.program import TritonProgram, write_program
from operators.sketches.triton.scan_text import PARTS_KERNEL, SCAN_FUNCTIONS, SCAN_KERNEL
from problems.graph import OperatorGraph, TensorSpec
from problems.problem import Problem

__all__ = ["TRITON_SCAN", "has_few_rows", "inner_size", "scan_constants"]

_CALLED = ("processors", "portions")


def _write(problem: Problem, graph: OperatorGraph) -> str | None:
    scan = find_scan(graph, FLOATS)
    names = local_names(problem, graph)
    if scan is None or names is None or prod(scan.shape) >= 1 << 31:
        return None
    space, configuration = _space(scan)
    called = _CALLED if has_few_rows(scan) else ()
    pieces = [scan_constants(scan), SCAN_FUNCTIONS, SCAN_KERNEL]
    if called:
        pieces = [
            scan_constants(scan),
            definitions(called),
            SCAN_FUNCTIONS,
            PARTS_KERNEL,
            SCAN_KERNEL,
        ]
    program = TritonProgram(
        summary="Scan in tiles along the dimension, with a carry from tile to tile.",
        space=space,
        configuration=configuration,
        kernels="\n\n".join(piece.strip() + "\n" for piece in pieces),
        imports=imports(called),
        values=(scan.x, *((scan.mask,) if scan.mask else ())),
        body=tuple(_body(graph, scan, names[scan.x], names[scan.mask] if scan.mask else "None")),
    )
    return write_program(problem, graph, program)


def scan_constants(scan: Scan) -> str:
    """Return the module constants that the kernels' text is written for."""
    values = {
        "LENGTH": scan.shape[scan.dim],
        "INNER": prod(scan.shape[scan.dim + 1 :]),
        "PRODUCT": scan.product,
        "REVERSE": scan.reverse,
        "EXCLUSIVE": scan.exclusive,
        "MASKED": scan.mask is not None,
        "FIRST": 1.0 if scan.product else 0.0,
    }
    return "\n".join(f"{name} = tl.constexpr({value})" for name, value in values.items())


def _space(scan: Scan) -> tuple[Space, Configuration]:
    space: dict[str, tuple[int | bool | str, ...]]
    configuration: dict[str, int | bool | str]
    if inner_size(scan) == 1:
        space = {"BLOCK": (1024, 2048, 4096, 8192, 32768)}
        configuration = {"BLOCK": 2048 if scan.reverse or scan.exclusive else 4096}
    else:
        space = {"ROWS": (16, 32, 64, 128), "BLOCK": (16, 32, 64, 128)}
        configuration = {"ROWS": 64, "BLOCK": 32}
    if scan.exclusive:
        space["SHIFTED_LOADS"] = (True, False)
        configuration["SHIFTED_LOADS"] = False
    if has_few_rows(scan):
        space["WAVES"] = (2, 4, 8)
        configuration["WAVES"] = 4
    space |= {"STAGES": (1, 3), "CACHE": ("", ".cs"), "num_warps": (4, 8, 16)}
    small = configuration["BLOCK"] == 2048
    return space, configuration | {"STAGES": 1, "CACHE": "", "num_warps": 4 if small else 8}


def has_few_rows(scan: Scan) -> bool:
    """Tell whether there may be too few rows to fill a device with one program each."""
    return prod(scan.shape) // scan.shape[scan.dim] < 2048


def inner_size(scan: Scan) -> int:
    """Return how many elements lie between two neighbours along the dimension."""
    return prod(scan.shape[scan.dim + 1 :])


def _body(graph: OperatorGraph, scan: Scan, x: str, mask: str) -> list[str]:
    inner, length, outer = inner_size(scan), scan.shape[scan.dim], prod(scan.shape[: scan.dim])
    spec = graph.spec(graph.outputs[0])
    assert isinstance(spec, TensorSpec)
    split = has_few_rows(scan)
    rows = 'CONFIG["ROWS"]' if inner > 1 else "1"
    shared = chosen("BLOCK", "STAGES", "num_warps") | {
        "ROWS": rows,
        "PARTS": "parts" if split else "1",
        "SPAN": "span",
        "SHIFT": 'int(CONFIG["SHIFTED_LOADS"])' if scan.exclusive else "0",
    }
    more = {"PADDED": "triton.next_power_of_2(parts)" if split else "1"} | chosen("CACHE")
    parts = [
        'parts = portions(blocks, processors(out.device) * CONFIG["WAVES"] // tiles)',
        'span = triton.cdiv(blocks, parts) * CONFIG["BLOCK"]',
        f"parts_of_rows = torch.empty({outer * inner} * parts, device=out.device)",
        "if parts > 1:",
        *indented(launch("parts_kernel", "tiles * parts", [x, mask, "parts_of_rows"], shared)),
    ]
    grid, buffer = ("tiles * parts", "parts_of_rows") if split else ("tiles", "None")
    return [
        f"out = torch.empty({spec.shape}, dtype=torch.{spec.dtype}, device={x}.device)",
        f"tiles = {outer} * triton.cdiv({inner}, {rows})" if inner > 1 else f"tiles = {outer}",
        f'blocks = triton.cdiv({length}, CONFIG["BLOCK"])',
        *(parts if split else ['span = blocks * CONFIG["BLOCK"]']),
        *launch("scan_kernel", grid, [x, mask, buffer, "out"], shared | more),
        "return out",
    ]


TRITON_SCAN = Sketch(name="triton-scan", device="cuda", write=_write)
"""Running sums and products, many rows at once or few rows in parts."""
