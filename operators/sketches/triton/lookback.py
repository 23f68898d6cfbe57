"""A sketch of scans in one pass: running sums and products of few, long rows."""

from __future__ import annotations

from math import prod

from archives.configuration import Configuration, Space
from operators.sketches.module import local_names
from operators.sketches.patterns.operands import FLOATS
from operators.sketches.patterns.scan import Scan, find_scan
from operators.sketches.sketch import Sketch
from operators.sketches.triton.kernels import chosen, launch
from operators.sketches.triton.lookback_text import LOOKBACK_KERNEL
from operators.sketches.triton.matmul import power_from
from operators.sketches.triton.program import TritonProgram, write_program
from operators.sketches.triton.scan import has_few_rows, inner_size, scan_constants
from operators.sketches.triton.scan_text import SCAN_FUNCTIONS
from problems.graph import OperatorGraph, TensorSpec
from problems.problem import Problem

__all__ = ["TRITON_SCAN_ONE_PASS"]

_ONE_TILE = 1024
"""Rows up to this length are no matter of passes."""


def _write(problem: Problem, graph: OperatorGraph) -> str | None:
    scan = find_scan(graph, FLOATS)
    names = local_names(problem, graph)
    if scan is None or names is None or prod(scan.shape) >= 1 << 31 or not has_few_rows(scan):
        return None
    if scan.shape[scan.dim] <= _ONE_TILE:
        return None
    space, configuration = _space(scan)
    program = TritonProgram(
        summary="Scan in one pass; each tile looks back at what the tiles before it have.",
        space=space,
        configuration=configuration,
        kernels="\n\n".join(
            piece.strip() + "\n"
            for piece in (scan_constants(scan), SCAN_FUNCTIONS, LOOKBACK_KERNEL)
        ),
        values=(scan.x, *((scan.mask,) if scan.mask else ())),
        body=tuple(_body(graph, scan, names[scan.x], names[scan.mask] if scan.mask else "None")),
    )
    return write_program(problem, graph, program)


def _space(scan: Scan) -> tuple[Space, Configuration]:
    space: dict[str, tuple[int | bool | str, ...]]
    configuration: dict[str, int | bool | str]
    if inner_size(scan) == 1:
        space = {"BLOCK": (1024, 2048, 4096, 8192, 16384)}
        configuration = {"BLOCK": 4096}
    else:
        most = power_from(inner_size(scan), 2, 128)
        rows = tuple(count for count in (most // 4, most // 2, most) if count > 1)
        space = {"ROWS": rows, "BLOCK": (32, 64, 128, 256)}
        configuration = {"ROWS": rows[-1], "BLOCK": 128}
    if scan.exclusive:
        space["SHIFTED_LOADS"] = (True, False)
        configuration["SHIFTED_LOADS"] = False
    space |= {"WINDOW": (8, 16, 32), "CACHE": ("", ".cs"), "num_warps": (4, 8)}
    return space, configuration | {"WINDOW": 8, "CACHE": "", "num_warps": 4}


def _body(graph: OperatorGraph, scan: Scan, x: str, mask: str) -> list[str]:
    inner, length, outer = inner_size(scan), scan.shape[scan.dim], prod(scan.shape[: scan.dim])
    spec = graph.spec(graph.outputs[0])
    assert isinstance(spec, TensorSpec)
    rows = 'CONFIG["ROWS"]' if inner > 1 else "1"
    shared = chosen("BLOCK", "WINDOW", "CACHE", "num_warps") | {
        "TILES": "tiles",
        "ROWS": rows,
        "SHIFT": 'int(CONFIG["SHIFTED_LOADS"])' if scan.exclusive else "0",
    }
    count = f"tiles * blocks * {rows}" if inner > 1 else "tiles * blocks"
    return [
        f"out = torch.empty({spec.shape}, dtype=torch.{spec.dtype}, device={x}.device)",
        f"tiles = {outer} * triton.cdiv({inner}, {rows})" if inner > 1 else f"tiles = {outer}",
        f'blocks = triton.cdiv({length}, CONFIG["BLOCK"])',
        f"words = torch.zeros({count} + 1, dtype=torch.int64, device=out.device)",
        *launch("lookback_kernel", "tiles * blocks", [x, mask, "words", "out"], shared),
        "return out",
    ]


TRITON_SCAN_ONE_PASS = Sketch(name="one-pass-scan", device="cuda", write=_write)
"""Running sums and products of few long rows: read once, by decoupled look-back.

In which order tiles are added depends on when they are done: last bits differ from run to run."""
