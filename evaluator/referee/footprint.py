"""Does a problem fit? What judging it takes, from its operator graph, before anything is drawn.

Covered: the sets in shared memory; inputs, weights and outputs in the workers' own memory; the
largest intermediate value. Not covered: work space inside operations, and what a candidate takes
beyond inputs, weights and outputs.
"""

from __future__ import annotations

from collections.abc import Iterable

from evaluator.referee.device import memory_bytes
from evaluator.referee.inputs import MemoryPlan
from evaluator.wire import ITEM_BYTES, ValueSpec
from problems.errors import ProblemError
from problems.footprint import tensor_bytes
from problems.graph import OperatorGraph, TensorSpec

__all__ = ["largest_intermediate", "needed_bytes", "plan_of", "require_fit", "stock_sets"]

STOCK_SETS = 4
"""Sets in the reservoir that timed contents are mixed from."""
LARGE_STOCK_SETS = 2
PROCESS_BYTES = 128 << 20
"""A worker's own copy of interpreter and libraries."""


def stock_sets(plan: MemoryPlan) -> int:
    """Return how many sets timed contents are mixed from: fewer where a set is large."""
    return LARGE_STOCK_SETS if plan.in_turn else STOCK_SETS


def plan_of(graph: OperatorGraph, room_bytes: int) -> MemoryPlan:
    """Plan a problem's memory as its reference worker will see it.

    Args:
        graph: The traced reference.
        room_bytes: See `MemoryPlan.of`.
    """
    outputs = (graph.spec(name) for name in graph.outputs)
    return MemoryPlan.of(_row_major(graph.inputs), _row_major(outputs), room_bytes)


def needed_bytes(graph: OperatorGraph, plan: MemoryPlan) -> int:
    """Return about how much memory judging a problem takes, all processes together.

    The multiples were read off the processes of an elementwise problem with inputs of 64 MB.

    Args:
        graph: The traced reference.
        plan: Where its sets lie.
    """
    inputs, outputs, state = plan.set_bytes, plan.own_bytes, _state_bytes(graph)
    # The model, its state as constructed, and its float64 copy.
    reference = 6 * inputs + 2 * outputs + 2 * plan.exact_bytes + 4 * state
    reference += 2 * largest_intermediate(graph)
    # The reservoir lies there twice while it is being made.
    mixer = (2 * stock_sets(plan) + 3) * inputs + outputs + 2 * state
    # One process that builds and checks, and one that is timed.
    candidate = 2 * (2 * inputs + 4 * outputs + state)
    workers = reference + mixer + plan.num_candidates * candidate
    return plan.total_bytes + workers + (2 + 2 * plan.num_candidates) * PROCESS_BYTES


def require_fit(label: str, needed: int) -> None:
    """Require memory for a problem.

    Args:
        label: Of the problem.
        needed: Bytes.

    Raises:
        ProblemError: There is less.
    """
    available = memory_bytes()
    if needed > available:
        raise ProblemError(
            f"problem {label} needs {needed} bytes of memory, {available} are available: "
            "use a smaller scale"
        )


def _row_major(values: Iterable[object]) -> list[ValueSpec]:
    """Specs of tensors as they are written out, row after row; a plain number takes 8 bytes."""
    specs = []
    for value in values:
        dtype, numel = "int64", 1
        if isinstance(value, TensorSpec):
            dtype, numel = value.dtype if value.dtype in ITEM_BYTES else dtype, value.numel
        specs.append(ValueSpec(dtype=dtype, shape=(numel,), stride=(1,)))
    return specs


def _state_bytes(graph: OperatorGraph) -> int:
    alone = OperatorGraph(
        inputs=(), parameters=graph.parameters, buffers=graph.buffers, nodes=(), outputs=()
    )
    return tensor_bytes(alone)


def largest_intermediate(graph: OperatorGraph) -> int:
    """Return the bytes of the largest value that is neither returned nor somebody else's memory."""
    known = {spec.storage for spec in graph.inputs if isinstance(spec, TensorSpec)}
    known |= {spec.storage for spec in (*graph.parameters.values(), *graph.buffers.values())}
    for name in graph.outputs:
        spec = graph.spec(name)
        if isinstance(spec, TensorSpec):
            known.add(spec.storage)
    made = (spec for node in graph.nodes for spec in node.outputs if spec.storage not in known)
    return max((spec.numel * ITEM_BYTES.get(spec.dtype, 8) for spec in made), default=0)
