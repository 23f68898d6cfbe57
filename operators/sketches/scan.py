"""Sketches of scans: running sums and products along a dimension, in one sweep."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from archives.configuration import Space
from operators.sketches.lanes import LANES_TEXT, defines
from operators.sketches.module import Program, local_names, write_module
from operators.sketches.operands import computing, is_result, operand, producer, whole_operand
from operators.sketches.scan_text import COLUMN_SCAN, ROW_SCAN
from operators.sketches.sketch import Sketch
from problems.graph import Node, OperatorGraph, TensorSpec
from problems.problem import Problem

__all__ = ["SCAN_COLUMNS", "SCAN_ROWS", "Scan", "find_scan"]

_ZEROS = ("aten.zeros_like.default", "aten.zeros.default")
_SCANS = {"aten.cumsum.default": False, "aten.cumprod.default": True}


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """A running sum or product of a dense tensor along one dimension.

    Attributes:
        x: Value name of the input.
        mask: Value name of a boolean or float factor of the same shape, or None.
        product: Whether it multiplies; otherwise it adds.
        reverse: Whether it runs from the end.
        exclusive: Whether an element's own value is left out.
        shape: Shape of input and output.
        dim: The dimension, from 0.
    """

    x: str
    mask: str | None = None
    product: bool
    reverse: bool = False
    exclusive: bool = False
    shape: tuple[int, ...]
    dim: int


def find_scan(graph: OperatorGraph) -> Scan | None:
    """Return the scan that the whole graph is, or None.

    Known forms: the scan itself; flipped before and after; of an input times a mask; of the input
    moved by one, a zero in front.
    """
    nodes = computing(graph)
    scans = [(index, node) for index, node in nodes.items() if node.op in _SCANS]
    if len(scans) != 1 or not is_result(graph, max(nodes)):
        return None
    index, node = scans[0]
    shape = node.outputs[0].shape
    returned = graph.spec(graph.outputs[0])
    dim = int(node.arguments[1])
    if not isinstance(returned, TensorSpec) or returned.shape != shape or not prod(shape):
        return None
    scan = Scan(x="", product=_SCANS[node.op], shape=shape, dim=dim % len(shape))
    flipped = max(nodes) != index
    if flipped and not _flips(nodes[max(nodes)], f"node{index}", scan.dim):
        return None
    found, used = _source(graph, scan, node.inputs[0])
    if found is None or found.reverse != flipped or used + 1 + flipped != len(nodes):
        return None
    return found


def _source(graph: OperatorGraph, scan: Scan, value: str) -> tuple[Scan | None, int]:
    """What is scanned, and how many computing nodes prepare it."""
    x = whole_operand(graph, value)
    if x is not None:
        spec = graph.spec(value)
        same = isinstance(spec, TensorSpec) and spec.shape == scan.shape
        return (replace(scan, x=x), 0) if same else (None, 0)
    if not value.startswith("node"):
        return None, 0
    node = graph.nodes[int(value.removeprefix("node").partition(".")[0])]
    if node.op == "aten.flip.default" and not scan.reverse and _flips(node, None, scan.dim):
        found, used = _source(graph, replace(scan, reverse=True), node.inputs[0])
        return found, used + 1
    if node.op == "aten.mul.Tensor":
        return _masked(graph, scan, node), 1
    if node.op == "aten.cat.default":
        return _exclusive(graph, scan, node), 2
    return None, 0


def _flips(node: Node, source: str | None, dim: int) -> bool:
    if node.op != "aten.flip.default" or source not in (None, node.inputs[0]):
        return False
    rank = len(node.outputs[0].shape)
    return [int(d) % rank for d in node.arguments[1]] == [dim]


def _masked(graph: OperatorGraph, scan: Scan, node: Node) -> Scan | None:
    x = whole_operand(graph, node.inputs[0])
    mask = graph.spec(node.inputs[1]) if len(node.inputs) == 2 else None
    if x is None or not isinstance(mask, TensorSpec) or mask.shape != scan.shape:
        return None
    spec = graph.spec(node.inputs[0])
    if not isinstance(spec, TensorSpec) or spec.shape != scan.shape:
        return None
    name = node.inputs[1]
    if name.startswith("node") or mask.dtype not in ("bool", "float32"):
        return None
    return replace(scan, x=x, mask=name)


def _exclusive(graph: OperatorGraph, scan: Scan, node: Node) -> Scan | None:
    """Zeros of length 1, then all but the last element of an input."""
    dim = int(node.arguments[1]) if len(node.arguments) > 1 else 0
    if len(node.inputs) != 2 or dim % len(scan.shape) != scan.dim or scan.product or scan.reverse:
        return None
    zeros = producer(graph, node.inputs[0])
    moved = operand(graph, node.inputs[1])
    if zeros is None or moved is None or graph.nodes[zeros].op not in _ZEROS:
        return None
    base = graph.spec(moved.value)
    expected = list(scan.shape)
    expected[scan.dim] -= 1
    whole = isinstance(base, TensorSpec) and base.shape == scan.shape
    if not whole or moved.offset or moved.shape != tuple(expected):
        return None
    assert isinstance(base, TensorSpec)
    return replace(scan, x=moved.value, exclusive=True) if moved.stride == base.stride else None


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


def _program(problem: Problem, graph: OperatorGraph, scan: Scan, program: Program) -> str | None:
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
    return write_module(
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
    program = Program(
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
    program = Program(
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
