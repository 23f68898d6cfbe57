"""Operations in place that only replace a value which nothing else looks at."""

from __future__ import annotations

from problems.graph import Node, OperatorGraph, TensorSpec

__all__ = ["operation_of", "writes_in_place"]


def operation_of(graph: OperatorGraph, number: int) -> str:
    """Return what a node computes, by its name in torch.

    Args:
        graph: The graph.
        number: Number of the node.

    Returns:
        "add" for `aten.add.Tensor`, and for `aten.add_.Tensor` too where that writes into a
        computed value whose former content, or any view of it, is not read afterwards; "add_"
        for others.
    """
    node = graph.nodes[number]
    name = node.op.split(".")[1]
    return name[:-1] if writes_in_place(node) and _replaces(graph, number) else name


def writes_in_place(node: Node) -> bool:
    """Tell whether an operation writes into its operand, as torch's names say."""
    return node.op.split(".")[1].endswith("_")


def _replaces(graph: OperatorGraph, number: int) -> bool:
    node = graph.nodes[number]
    if not node.outputs:
        return False
    storage = node.outputs[0].storage
    kept = (*graph.inputs, *graph.parameters.values(), *graph.buffers.values())
    if any(isinstance(spec, TensorSpec) and spec.storage == storage for spec in kept):
        return False
    later = [value for node in graph.nodes[number + 1 :] for value in node.inputs]
    for value in (*later, *graph.outputs):
        spec = graph.spec(value)
        if isinstance(spec, TensorSpec) and spec.storage == storage and _made_by(value) < number:
            return False
    return True


def _made_by(value: str) -> int:
    """Number of the node that gave a value of which no input shares the storage."""
    return int(value.removeprefix("node").partition(".")[0])
