"""What a problem cannot do without: bytes to move and operations to do, from its operator graph.

The graph is walked backwards, from what is returned to what had to be read for it. Each value is
followed by the share of its elements that are wanted, so that a crop, a window that skips, a head
that is never used or a triangle that is thrown away is not counted. Where a share cannot be
carried exactly the smaller one is taken: a bound that is too low is weak, one that is too high
would call honest kernels impossible.

Source: the pigeonhole principle: if every input element is used by as many output elements as any
other, a share f of the outputs cannot be had from less than a share f of the inputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from evaluator.referee.reach import Reach, op_name
from evaluator.referee.regions import Regions
from evaluator.referee.triangles import halved_products, with_zeros
from problems.graph import Node, OperatorGraph, TensorSpec
from problems.problem import Domain, DomainKind

__all__ = ["Work", "work_of"]

_ITEM_BYTES = {
    "float64": 8, "int64": 8, "complex64": 8, "float32": 4, "int32": 4, "float16": 2, "bfloat16": 2,
    "int16": 2, "int8": 1, "uint8": 1, "bool": 1, "float8_e4m3fn": 1, "float8_e5m2": 1,
    "complex128": 16,
}  # fmt: skip
_CONVOLUTIONS = ("convolution", "_convolution")
_TRIANGULAR = (DomainKind.UPPER_TRIANGULAR, DomainKind.LOWER_TRIANGULAR)
_HALVED = (*_TRIANGULAR, DomainKind.SYMMETRIC)
"""Domains of which one half says nothing that the other does not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What a problem cannot do without, whatever the device.

    Attributes:
        read_bytes: Inputs, parameters and buffers that have to be read, each storage once.
        avoidable_bytes: Part of `read_bytes` that some correct program may leave unread: zeros
            of a triangle, the mirrored half, parameters and buffers (a constructor may prepare
            them in another form), and what the data may make needless (masked, gathered, behind
            a zero of a running product).
        write_bytes: Outputs that have to be written, each storage once.
        flops: Matrix-product, convolution and attention operations, 2 per multiply-add, after
            the discount for triangular operands and causal attention.
        convolution_flops: Part of `flops`: operations of convolutions.
    """

    read_bytes: int
    avoidable_bytes: int
    write_bytes: int
    flops: int
    convolution_flops: int = 0

    @property
    def bytes(self) -> int:
        """All compulsory bytes."""
        return self.read_bytes + self.write_bytes


def work_of(graph: OperatorGraph, domains: Sequence[Domain] = ()) -> Work:
    """Return the compulsory bytes and FLOPs of a problem.

    Args:
        graph: The reference traced on meta tensors.
        domains: Domain of each input, where known; triangular and symmetric ones hold half. Of
            one that was inferred, strictly, no more than a diagonal has to be read: what two
            samples show may be a diagonal, or a band.
    """
    kinds = {f"input{i}": domain.kind for i, domain in enumerate(domains)}
    guessed = {f"input{i}" for i, domain in enumerate(domains) if domain.inferred}
    zeroed = with_zeros(graph, kinds)
    read, shares = _walk(graph, Reach(graph=graph, kinds=kinds))
    needed, _ = _walk(graph, Reach(graph=graph, kinds=kinds, strict=True, zeroed=zeroed))
    read_bytes = sum(_source_bytes(graph, read).values())
    strict = sum(
        _without_half(graph, name, size, kinds, is_guessed=name in guessed)
        for name, size in _source_bytes(graph, needed).items()
        if name.startswith("input")
    )
    halved = halved_products(graph)
    flops = [
        int(share * _flops(node, graph, kinds)) // (2 if number in halved else 1)
        for number, (node, share) in enumerate(zip(graph.nodes, shares, strict=True))
    ]
    return Work(
        read_bytes=read_bytes,
        avoidable_bytes=read_bytes - strict,
        write_bytes=_written_bytes(graph),
        flops=sum(flops),
        convolution_flops=sum(
            count
            for count, node in zip(flops, graph.nodes, strict=True)
            if op_name(node) in _CONVOLUTIONS
        ),
    )


def _walk(graph: OperatorGraph, reach: Reach) -> tuple[Regions, list[float]]:
    """Walk from the outputs back; return what is read and the share of each node's work."""
    wanted, read = Regions(), Regions()
    for source in _tensors([*graph.inputs, *graph.parameters.values(), *graph.buffers.values()]):
        wanted.declare(source)
        read.declare(source)
    for node in graph.nodes:
        for output in node.outputs:
            wanted.declare(output)
    for result in _tensors([graph.spec(value) for value in graph.outputs]):
        wanted.add(result, 1.0)
    shares = [0.0] * len(graph.nodes)
    for number in range(len(graph.nodes) - 1, -1, -1):
        node = graph.nodes[number]
        if _is_view(node, graph):
            continue
        share = max((wanted.share(output) for output in node.outputs), default=0.0)
        shares[number] = share
        if share == 0.0:
            continue
        for index, value in enumerate(node.inputs):
            spec = graph.spec(value)
            if isinstance(spec, TensorSpec) and spec.numel:
                place = reach.place(node, index, spec)
                passed = share if place is None else wanted.share(place)
                reached = reach.share(node, index, spec, passed)
                wanted.add(spec, reached)
                read.add(spec, reached)
    return read, shares


def _tensors(values: Sequence[object]) -> list[TensorSpec]:
    return [value for value in values if isinstance(value, TensorSpec)]


def _sources(graph: OperatorGraph) -> dict[str, TensorSpec]:
    """Inputs, parameters and buffers by name; of those that share a storage the first one."""
    named: dict[str, object] = {f"input{i}": spec for i, spec in enumerate(graph.inputs)}
    named |= {f"param:{name}": spec for name, spec in graph.parameters.items()}
    named |= {f"buffer:{name}": spec for name, spec in graph.buffers.items()}
    found: dict[int, tuple[str, TensorSpec]] = {}
    for name, spec in named.items():
        if isinstance(spec, TensorSpec):
            found.setdefault(spec.storage, (name, spec))
    return dict(found.values())


def _source_bytes(graph: OperatorGraph, read: Regions) -> dict[str, int]:
    return {
        name: int(read.elements(spec.storage) * _ITEM_BYTES[spec.dtype])
        for name, spec in _sources(graph).items()
    }


def _without_half(
    graph: OperatorGraph,
    name: str,
    size: int,
    kinds: dict[str, DomainKind],
    *,
    is_guessed: bool,
) -> int:
    """Bytes of an input that remain where its domain fixes one of its halves, or maybe more."""
    spec = graph.spec(name)
    if kinds.get(name) not in _HALVED or not isinstance(spec, TensorSpec):
        return size
    edge = spec.shape[-1]
    if is_guessed:
        return size // edge
    return size - int(size * (edge - 1) / (2 * edge))


def _written_bytes(graph: OperatorGraph) -> int:
    """Bytes of the outputs that some operation has to write; a view of an input is free."""
    written = Regions()
    sources = {spec.storage for spec in _sources(graph).values()}
    mutated = {
        output.storage
        for node in graph.nodes
        if op_name(node).endswith("_")
        for output in node.outputs
    }
    items: dict[int, int] = {}
    for spec in _tensors([graph.spec(value) for value in graph.outputs]):
        if spec.storage not in sources or spec.storage in mutated:
            written.declare(spec)
            written.add(spec, 1.0)
            items[spec.storage] = _ITEM_BYTES[spec.dtype]
    return sum(int(written.elements(storage) * item) for storage, item in items.items())


def _is_view(node: Node, graph: OperatorGraph) -> bool:
    """Tell whether a node moves no data: its outputs share storage with an input."""
    if op_name(node).endswith("_"):
        return False
    storages = {spec.storage for spec in _tensors([graph.spec(value) for value in node.inputs])}
    return bool(node.outputs) and all(out.storage in storages for out in node.outputs)


def _flops(node: Node, graph: OperatorGraph, kinds: dict[str, DomainKind]) -> int:
    name = op_name(node)
    shapes = [spec.shape for spec in _tensors([graph.spec(value) for value in node.inputs])]
    if name in ("mm", "bmm", "mv", "dot", "addmm", "baddbmm", "addmv"):
        left, right = shapes[-2:]
        product = 2 * prod(left) * (right[-1] if len(right) > 1 else 1)
        triangular = sum(kinds.get(value) in _TRIANGULAR for value in node.inputs[-2:])
        return product // {0: 1, 1: 2, 2: 6}[triangular]
    if name in _CONVOLUTIONS:
        image, weight = shapes[:2]
        spatial = image if node.arguments[6] else node.outputs[0].shape
        return 2 * spatial[0] * prod(spatial[2:]) * prod(weight)
    if name.startswith("_scaled_dot_product"):
        query, key, value = shapes[:3]
        causal = any(argument is True for argument in node.arguments)
        return 2 * prod(query[:-1]) * key[-2] * (query[-1] + value[-1]) // (2 if causal else 1)
    return 0
