"""Zeros that a program may know of: triangles and masks, and what is made of them.

Products of which a triangle is masked away, as causal attention does it, are half of their work: a
mask is a constant made by tril or triu, what it is applied to is computed in vain on one side, and
what follows multiplies zeros there. And whatever is multiplied by a value with such zeros need not
be read where they are.
"""

from __future__ import annotations

from collections.abc import Mapping

from evaluator.referee.reach import op_name
from problems.graph import Node, OperatorGraph, TensorSpec
from problems.problem import DomainKind

__all__ = ["halved_products", "with_zeros"]

_PRODUCTS = ("mm", "bmm", "addmm", "baddbmm")
_MASKING = ("add", "add_", "mul", "mul_", "where", "masked_fill", "masked_fill_")
_PASSING = (
    "view", "_unsafe_view", "reshape", "expand", "clone", "_to_copy", "unsqueeze", "squeeze",
    "mul", "div", "_softmax", "_safe_softmax", "native_dropout", "where", "masked_fill", "alias",
)  # fmt: skip
"""Operations behind which a masked value is still masked, and before which it will be."""

_ZEROED = (DomainKind.UPPER_TRIANGULAR, DomainKind.LOWER_TRIANGULAR, DomainKind.MASK)
_ZEROING = ("tril", "triu", "tril_", "triu_", "diag_embed", "eye")
_KEEPING_ZEROS = (
    "view", "_unsafe_view", "reshape", "expand", "clone", "_to_copy", "unsqueeze", "squeeze",
    "alias", "t", "transpose", "permute", "slice", "select", "repeat", "detach", "lift_fresh",
    "mul", "mul_", "div", "div_", "neg", "abs", "relu", "sqrt", "sin", "tanh", "rsub",
)  # fmt: skip
"""Operations whose result is zero where their first operand is, or at known places all the same.

Of one less a mask, too, the places of the zeros are as well known as those of the mask's.
"""


def with_zeros(graph: OperatorGraph, kinds: Mapping[str, DomainKind]) -> frozenset[str]:
    """Name the values that are zero in places which a program may know before it reads others.

    Buffers in the form of a square matrix are among them: a constructor knows their values, and
    nobody else does. Those of other forms are scales and statistics.

    Args:
        graph: The graph.
        kinds: Domains of inputs by name, where known.
    """
    found = {name for name, kind in kinds.items() if kind in _ZEROED}
    found |= {
        f"buffer:{name}"
        for name, spec in graph.buffers.items()
        if len(spec.shape) > 1 and spec.shape[-1] == spec.shape[-2] > 1
    }
    for number, node in enumerate(graph.nodes):
        name = op_name(node)
        is_product = name in ("mul", "mul_")
        sources = node.inputs if is_product else node.inputs[:1]
        is_kept = name in _KEEPING_ZEROS and any(source in found for source in sources)
        if name in _ZEROING or is_kept:
            found.add(f"node{number}")
    return frozenset(found)


def halved_products(graph: OperatorGraph) -> frozenset[int]:
    """Return the numbers of the products whose work a constant triangle halves."""
    masks, masked, masking = _follow_masks(graph)
    doomed = _doomed(graph, masks, masking)
    return frozenset(
        number
        for number, node in enumerate(graph.nodes)
        if op_name(node) in _PRODUCTS
        and (f"node{number}" in doomed or any(value in masked for value in node.inputs))
    )


def _follow_masks(graph: OperatorGraph) -> tuple[set[str], set[str], set[int]]:
    """Follow triangles forward: constant masks, masked values, and the nodes that mask."""
    constants: set[str] = set()
    masks: set[str] = set()
    masked: set[str] = set()
    masking: set[int] = set()
    for number, node in enumerate(graph.nodes):
        name, output = op_name(node), f"node{number}"
        has_mask = any(value in masks for value in node.inputs)
        if all(value in constants for value in node.inputs):
            constants.add(output)
            if has_mask or name in ("tril", "triu"):
                masks.add(output)
        elif has_mask and name in _MASKING:
            masked.add(output)
            masking.add(number)
        elif name in _PASSING and node.inputs[0] in masked:
            masked.add(output)
    return masks, masked, masking


def _doomed(graph: OperatorGraph, masks: set[str], masking: set[int]) -> set[str]:
    """Values that are used for nothing but to be masked."""
    uses: dict[str, list[int]] = {}
    for number, node in enumerate(graph.nodes):
        for value in node.inputs:
            uses.setdefault(value, []).append(number)
    doomed: set[str] = set()
    for number in range(len(graph.nodes) - 1, -1, -1):
        value = f"node{number}"
        used = uses.get(value, [])
        if not used or value in masks or value in graph.outputs:
            continue
        if all(
            user in masking or (f"node{user}" in doomed and _passes(graph, user)) for user in used
        ):
            doomed.add(value)
    return doomed


def _passes(graph: OperatorGraph, number: int) -> bool:
    """Tell whether a node hands its first input on, element by element."""
    node: Node = graph.nodes[number]
    first = graph.spec(node.inputs[0]) if node.inputs else None
    is_softmax = "softmax" in op_name(node)
    return op_name(node) in _PASSING and isinstance(first, TensorSpec) and not is_softmax
