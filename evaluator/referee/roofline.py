"""The speed of light of a problem: no hardware can be faster than this.

Light is max(compulsory bytes / bandwidth, matrix FLOPs / rate of the fastest permitted unit,
launch floor), from the operator graph alone. Bytes are hard: a time under 0.97 of them is
impossible. FLOPs are soft: algebra and sparsity may beat them, so a time under them asks for deeper
verification and never rejects on its own.

Source: Williams, Waterman, Patterson, "Roofline: an insightful visual performance model", CACM
2009.
The hard slack of 0.97 covers clock and bandwidth tolerance: over 992 published H100 timings the
smallest measured-over-bound ratio of honest code was 1.03.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from evaluator.referee.hardware import Device
from problems.graph import Node, OperatorGraph, TensorSpec
from problems.problem import Domain, DomainKind

__all__ = ["HARD_SLACK", "LAUNCH_FLOOR_MS", "Light", "Work", "light", "work_of"]

HARD_SLACK = 0.97
LAUNCH_FLOOR_MS = 0.002
"""Shortest time between two device events around one empty kernel, ms."""

_ITEM_BYTES = {
    "float64": 8, "int64": 8, "complex64": 8, "float32": 4, "int32": 4, "float16": 2, "bfloat16": 2,
    "int16": 2, "int8": 1, "uint8": 1, "bool": 1, "float8_e4m3fn": 1, "float8_e5m2": 1,
}  # fmt: skip
_GATHERS = ("embedding", "index", "index_select", "gather", "nll_loss_forward")
_TRIANGULAR = (DomainKind.UPPER_TRIANGULAR, DomainKind.LOWER_TRIANGULAR)


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What a problem cannot do without, whatever the device.

    Attributes:
        read_bytes: Inputs, parameters and buffers that must be read, each storage once.
        invariant_bytes: Part of `read_bytes` whose value never changes (a triangle of zeros).
        write_bytes: Outputs that must be written, each storage once.
        flops: Matrix-product, convolution and attention operations, 2 per multiply-add, after
            the discount for triangular operands.
    """

    read_bytes: int
    invariant_bytes: int
    write_bytes: int
    flops: int

    @property
    def bytes(self) -> int:
        """All compulsory bytes."""
        return self.read_bytes + self.write_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Light:
    """The bounds of one problem on one device, all times in ms.

    Attributes:
        work: What must be done.
        memory_ms: Time to move the compulsory bytes.
        compute_ms: Time of the matrix FLOPs on the fastest permitted unit.
        sol_ms: The speed of light: the largest of the two and the launch floor.
        hard_ms: A measured time below this is impossible.
        bound: What sets `sol_ms`: "memory", "compute" or "launch".
    """

    work: Work
    memory_ms: float
    compute_ms: float
    sol_ms: float
    hard_ms: float
    bound: str


def light(work: Work, device: Device, precision: str = "fp32") -> Light:
    """Return the bounds of a problem's work on a device.

    The hard bound leaves out what never changes and what may still sit in the last-level cache when
    the clock stops.
    """
    per_ms = device.bandwidth_gbps * 1e6
    memory_ms = work.bytes / per_ms
    compute_ms = work.flops / (device.matrix_tflops(precision) * 1e9)
    hard_bytes = work.bytes - work.invariant_bytes - min(work.write_bytes, int(device.l2_mb * 1e6))
    times = {"memory": memory_ms, "compute": compute_ms, "launch": LAUNCH_FLOOR_MS}
    bound = max(times, key=lambda name: times[name])
    return Light(
        work=work,
        memory_ms=memory_ms,
        compute_ms=compute_ms,
        sol_ms=times[bound],
        hard_ms=max(HARD_SLACK * hard_bytes / per_ms, LAUNCH_FLOOR_MS),
        bound=bound,
    )


def work_of(graph: OperatorGraph, domains: Sequence[Domain] = ()) -> Work:
    """Return the compulsory bytes and FLOPs of a problem.

    Args:
        graph: The reference traced on meta tensors.
        domains: Domain of each input, where known; triangular inputs count half.
    """
    read: dict[int, int] = {}
    invariant: dict[int, int] = {}
    kinds = {f"input{i}": domain.kind for i, domain in enumerate(domains)}
    sources = _sources(graph)
    for node in graph.nodes:
        if _is_view(node, graph):
            continue
        for value in node.inputs:
            spec = graph.spec(value)
            if not isinstance(spec, TensorSpec) or spec.storage not in sources:
                continue
            touched = _touched_bytes(spec)
            if _op_name(node) in _GATHERS and value == node.inputs[0]:
                touched = min(touched, sum(_touched_bytes(out) for out in node.outputs))
            read[spec.storage] = max(read.get(spec.storage, 0), touched)
            if kinds.get(sources[spec.storage]) in _TRIANGULAR:
                size = spec.shape[-1]
                invariant[spec.storage] = int(read[spec.storage] * (size - 1) / (2 * size))
    return Work(
        read_bytes=sum(read.values()),
        invariant_bytes=sum(invariant.values()),
        write_bytes=_written_bytes(graph, set(sources)),
        flops=sum(_flops(node, graph, kinds) for node in graph.nodes),
    )


def _sources(graph: OperatorGraph) -> dict[int, str]:
    """Storage number -> name of the input, parameter or buffer that owns it."""
    named: dict[str, object] = {f"input{i}": spec for i, spec in enumerate(graph.inputs)}
    named |= {f"param:{name}": spec for name, spec in graph.parameters.items()}
    named |= {f"buffer:{name}": spec for name, spec in graph.buffers.items()}
    return {spec.storage: name for name, spec in named.items() if isinstance(spec, TensorSpec)}


def _written_bytes(graph: OperatorGraph, sources: set[int]) -> int:
    """Bytes of the outputs that some operation has to write; a view of an input is free."""
    sizes: dict[int, int] = {}
    for value in graph.outputs:
        spec = graph.spec(value)
        if isinstance(spec, TensorSpec) and spec.storage not in sources:
            sizes[spec.storage] = max(sizes.get(spec.storage, 0), _touched_bytes(spec))
    return sum(sizes.values())


def _is_view(node: Node, graph: OperatorGraph) -> bool:
    """Tell whether a node moves no data: its outputs share storage with an input."""
    if _op_name(node).endswith("_"):
        return False
    specs = [graph.spec(value) for value in node.inputs]
    storages = {spec.storage for spec in specs if isinstance(spec, TensorSpec)}
    return bool(node.outputs) and all(out.storage in storages for out in node.outputs)


def _touched_bytes(spec: TensorSpec) -> int:
    """Bytes of distinct elements: dimensions of stride 0 repeat one element."""
    sizes = zip(spec.shape, spec.stride, strict=True)
    return (
        prod(size for size, stride in sizes if stride != 0 or size == 0) * _ITEM_BYTES[spec.dtype]
    )


def _op_name(node: Node) -> str:
    """Name without namespace and overload: "relu" of "aten.relu.default"."""
    return node.op.split(".")[1] if "." in node.op else node.op


def _flops(node: Node, graph: OperatorGraph, kinds: dict[str, DomainKind]) -> int:
    name = _op_name(node)
    specs = [graph.spec(value) for value in node.inputs]
    shapes = [spec.shape for spec in specs if isinstance(spec, TensorSpec)]
    if name in ("mm", "bmm", "mv", "dot", "addmm", "baddbmm", "addmv"):
        left, right = shapes[-2:]
        product = 2 * prod(left) * (right[-1] if len(right) > 1 else 1)
        triangular = sum(kinds.get(value) in _TRIANGULAR for value in node.inputs[-2:])
        return product // {0: 1, 1: 2, 2: 6}[triangular]
    if name in ("convolution", "_convolution"):
        image, weight = shapes[:2]
        spatial = image if node.arguments[6] else node.outputs[0].shape
        return 2 * spatial[0] * prod(spatial[2:]) * prod(weight)
    if name.startswith("_scaled_dot_product"):
        query, key, value = shapes[:3]
        causal = any(argument is True for argument in node.arguments)
        return 2 * prod(query[:-1]) * key[-2] * (query[-1] + value[-1]) // (2 if causal else 1)
    return 0
