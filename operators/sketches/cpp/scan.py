"""Sketches of scans: running sums and products along a dimension, in one sweep."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from archives.configuration import Space
from operators.sketches.cpp.lanes import LANES_TEXT, defines
from operators.sketches.cpp.program import CppProgram, write_program
from operators.sketches.cpp.scan_text import COLUMN_SCAN, ROW_SCAN
from operators.sketches.module import local_names
from operators.sketches.patterns.scan import Scan, find_scan
from operators.sketches.sketch import Sketch
from problems.graph import OperatorGraph, TensorSpec
from problems.problem import Problem

__all__ = ["SCAN_COLUMNS", "SCAN_ROWS"]


def _values(graph: OperatorGraph, scan: Scan) -> dict[str, int]:
    mask = graph.spec(scan.mask) if scan.mask else None
    boolean = isinstance(mask, TensorSpec) and mask.dtype == "bool"
    return {
        "OUTER": prod(scan.shape[: scan.dim]),
        "LENGTH": scan.shape[scan.dim],
        "INNER": prod(scan.shape[scan.dim + 1 :]),
        "PRODUCT": int(scan.product),
        "REVERSE": int(scan.reverse),
        "EXCLUSIVE": int(scan.exclusive),
        "MASKED": 0 if mask is None else 1 if boolean else 2,
    }


def _program(problem: Problem, graph: OperatorGraph, scan: Scan, program: CppProgram) -> str | None:
    names = local_names(problem, graph)
    if names is None:
        return None
    x = f"{names[scan.x]}.data_ptr()"
    mask = f"{names[scan.mask]}.data_ptr()" if scan.mask else "None"
    body = [f"out = torch.empty({scan.shape})"]
    if scan.mask:
        body += [
            'if CONFIG["STAGED"]:',
            f"    KERNELS.select({x}, {mask}, out.data_ptr())",
            "    KERNELS.scan(out.data_ptr(), None, out.data_ptr())",
            "else:",
            f"    KERNELS.scan({x}, {mask}, out.data_ptr())",
        ]
    else:
        body.append(f"KERNELS.scan({x}, None, out.data_ptr())")
    configuration = dict(program.configuration) | ({"STAGED": False} if scan.mask else {})
    return write_program(
        problem,
        graph,
        replace(
            program,
            space={**program.space, **({"STAGED": (False, True)} if scan.mask else {})},
            configuration=configuration,
            cpp="\n".join((defines(_values(graph, scan)), LANES_TEXT, program.cpp)),
            functions={"scan": "ppp"} | ({"select": "ppp"} if scan.mask else {}),
            values=(scan.x, *((scan.mask,) if scan.mask else ())),
            body=(*body, "return out"),
        ),
    )


_ROW_SPACE: Space = {
    "LANES": (4, 8, 16),
    "ROWS": (1, 2, 4, 8),
    "BLOCKS": (1, 2, 4),
    "IN_REGISTERS": (False, True),
}

_COLUMN_SPACE: Space = {"LANES": (4, 8, 16), "VECTORS": (1, 2, 4), "CHUNK": (16, 64, 256, 1024)}


def _write_rows(problem: Problem, graph: OperatorGraph) -> str | None:
    scan = find_scan(graph)
    if scan is None or prod(scan.shape[scan.dim + 1 :]) != 1:
        return None
    program = CppProgram(
        summary="Scan along rows: prefixes of a register in log steps, a carry in double.",
        space=_ROW_SPACE,
        configuration={"LANES": 16, "ROWS": 1, "BLOCKS": 2, "IN_REGISTERS": True},
        cpp=ROW_SCAN,
        functions={},
        values=(),
        body=(),
    )
    return _program(problem, graph, scan, program)


def _write_columns(problem: Problem, graph: OperatorGraph) -> str | None:
    scan = find_scan(graph)
    if scan is None or (prod(scan.shape[scan.dim + 1 :]) == 1 and scan.shape[0] == 1):
        return None
    program = CppProgram(
        summary="Scan of many columns or rows at once, one in each lane, carries in double.",
        space=_COLUMN_SPACE,
        configuration={"LANES": 16, "VECTORS": 1, "CHUNK": 64},
        cpp=COLUMN_SCAN,
        functions={},
        values=(),
        body=(),
    )
    return _program(problem, graph, scan, program)


SCAN_ROWS = Sketch(name="row-scan", device="cpu", write=_write_rows)
SCAN_COLUMNS = Sketch(name="column-scan", device="cpu", write=_write_columns)
