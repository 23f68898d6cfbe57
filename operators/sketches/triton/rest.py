"""What kernels that go on with a result have in common: what else they read, and where it lies."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from operators.sketches.patterns.computation import Computation
from operators.sketches.patterns.expressions import Load
from operators.sketches.patterns.followed import Followed
from operators.sketches.triton.calls import functions, imports
from operators.sketches.triton.program import TritonProgram, write_program
from operators.sketches.triton.tiles import Place
from problems.graph import OperatorGraph
from problems.problem import Problem

__all__ = [
    "called_functions",
    "finished_product",
    "finished_program",
    "other_values",
    "product_place",
    "result_loads",
]

_CHECKS = {"line": "(rows < M)", "columns": "(columns < N)"}


def other_values(rest: Computation, result: str) -> list[str]:
    """Return the tensors that are read besides a result, by its name."""
    loads = [rest.terms[number].payload for number in rest.terms.needed([rest.output.term])]
    read = [load.value for load in loads if isinstance(load, Load) and load.value != result]
    return list(dict.fromkeys(read))


def result_loads(rest: Computation, result: str) -> list[int]:
    """Return the terms that load a result, by its name."""
    loads = [(n, rest.terms[n].payload) for n in rest.terms.needed([rest.output.term])]
    return [n for n, load in loads if isinstance(load, Load) and load.value == result]


def product_place(
    sizes: Sequence[int], columns: int
) -> Callable[[frozenset[int], Mapping[int, int]], Place] | None:
    """Return what tells where a value lies for a tile of a product.

    Kernels have `line`, the row among those of all batches, `rows` and `columns`, which are not
    inside from M and N on.

    Args:
        sizes: Sizes of the axes, outermost first.
        columns: Columns of the product.

    Returns:
        The function, as `Emitter` takes it; None where an axis is both of rows and of columns.
    """
    inner = [1]
    for size in reversed(sizes):
        inner.append(inner[-1] * size)
    if columns not in inner:
        return None

    def place(axes: frozenset[int], strides: Mapping[int, int]) -> Place:
        parts, sides = [], set()
        for axis in sorted(axes):
            below = inner[len(sizes) - 1 - axis]
            side, below = ("line", below // columns) if below >= columns else ("columns", below)
            sides.add(side)
            index = f"{side} // {below}" if below > 1 else side
            limit = columns if side == "columns" else inner[-1] // columns
            if below * sizes[axis] != limit:
                index = f"{index} % {sizes[axis]}"
            parts.append(f"({index}) * {strides[axis]}")
        checks = [text for side, text in _CHECKS.items() if side in sides]
        offset = " + ".join(parts) or "0"
        return Place(offset=offset, inside=" & ".join(checks) or "None", full="False")

    return place


def called_functions(rest: Computation) -> set[str]:
    """Return the functions of `calls.definitions` that kernels call for what comes after."""
    return {"fetch", *functions(rest.terms, rest.terms.needed([rest.output.term]))}


def finished_product(
    problem: Problem,
    graph: OperatorGraph,
    found: Followed,
    program: TritonProgram,
    names: Mapping[str, str],
    others: Sequence[str],
) -> str | None:
    """Complete the program of a product and of what comes after it.

    Args:
        problem: The problem.
        graph: Its graph.
        found: The product and what comes after it.
        program: Its `multiply` takes both operands, the output and the others.
        names: Local variable in `forward` of each value.
        others: What it reads besides the operands.

    Returns:
        The text; None where it cannot be written.
    """
    values = (found.product.a.value, found.product.b.value, *others)
    a, b = names[values[0]], names[values[1]]
    extras = "".join(f"{names[value]}, " for value in others).rstrip() or "out"
    call = f"multiply({a}, {b}, out, ({extras}))"
    return finished_program(problem, graph, found.rest, program, values, call, f"{a}.device")


def finished_program(
    problem: Problem,
    graph: OperatorGraph,
    rest: Computation,
    program: TritonProgram,
    values: Iterable[str | None],
    call: str,
    device: str,
) -> str | None:
    """Complete a program that goes on with a result by the call that writes the output.

    Args:
        problem: The problem.
        graph: Its graph.
        rest: What comes after the result.
        program: All but its values and the lines of `forward`.
        values: What it reads; None stands for an operand that there is not.
        call: Text of the call; it writes `out`.
        device: Text of the device of the output.

    Returns:
        The text; None where it cannot be written.
    """
    output = f"torch.empty({rest.shape}, dtype=torch.{rest.dtype}, device={device})"
    completed = replace(
        program,
        values=tuple(dict.fromkeys(value for value in values if value)),
        body=(f"out = {output}", call, "return out"),
        imports=tuple(dict.fromkeys((*program.imports, *imports(called_functions(rest))))),
    )
    return write_program(problem, graph, completed)
