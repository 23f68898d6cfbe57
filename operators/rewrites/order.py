"""In which order programs take their tiles: reversed, or in groups that share what they read."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from operators.rewrites.rewrite import Rewrite, Rewritten, pick, shuffled
from operators.rewrites.source import Edit, Kernel, Module, call_name, edited

__all__ = ["REVERSED", "SWIZZLE", "is_order_free", "program_ids"]

_GROUPS = (4, 8, 16)
_TOGETHER = ("atomic", "lookback", "grid_barrier")
"""What functions are called through which programs wait for each other."""


def program_ids(kernel: Kernel) -> list[ast.Call]:
    """Return the calls that ask for a program's number, along any axis."""
    return kernel.calls("tl.program_id")


def is_order_free(module: Module, kernel: Kernel) -> bool:
    """Tell whether programs may run in any order, and take another one's place.

    None waits for another one's result, in the kernel or a function that it calls, and no such
    function asks for the program's number by itself.
    """
    helpers = _reached(module, kernel)
    if any(helper.calls("tl.program_id", "tl.num_programs") for helper in helpers):
        return False
    nodes = [node for one in (kernel, *helpers) for node in ast.walk(one.node)]
    names = [call_name(node) for node in nodes if isinstance(node, ast.Call)]
    waits = any(isinstance(node, ast.While) for node in nodes)
    return not waits and not any(word in name for name in names for word in _TOGETHER)


def _reached(module: Module, kernel: Kernel) -> list[Kernel]:
    """The module's other kernels that a kernel calls, and those that they call."""
    named = {one.node.name: one for one in module.kernels}
    found: dict[str, Kernel] = {}
    pending = [kernel]
    while pending:
        for node in ast.walk(pending.pop().node):
            name = call_name(node) if isinstance(node, ast.Call) else ""
            if name in named and name not in found and name != kernel.node.name:
                found[name] = named[name]
                pending.append(named[name])
    return list(found.values())


def _reverse(module: Module, rng: np.random.Generator) -> Rewritten | None:
    """Take the last tile first: the kernel before has just left it in the cache."""
    for kernel in shuffled(module.kernels, rng):
        ids = [call for call in program_ids(kernel) if _axis(call) == 0]
        if len(ids) == 1 and kernel.launches and is_order_free(module, kernel):
            new = "(tl.num_programs(0) - 1 - tl.program_id(0))"
            source = edited(module, [module.replace(ids[0], new)])
            return Rewritten(source=source, note=f"last tile first in {kernel.node.name}")
    return None


def _swizzle(module: Module, rng: np.random.Generator) -> Rewritten | None:
    """Walk a grid of tiles in groups of rows, so that neighbours in time share columns."""
    for kernel in shuffled(module.kernels, rng):
        found = next(_row_and_column(kernel), None)
        if found is None or kernel.calls("tl.num_programs", "tl.swizzle2d"):
            continue
        if not is_order_free(module, kernel):
            continue
        row, column, width, statement = found
        size = module.text(width)
        group = pick(_GROUPS, rng)
        _, end = module.span(statement)
        margin = " " * statement.col_offset
        text = (
            f"\n{margin}{row}, {column} = tl.swizzle2d("
            f"{row}, {column}, tl.num_programs(0) // ({size}), {size}, {group})"
        )
        source = edited(module, [Edit(start=end, end=end, text=text)])
        return Rewritten(source=source, note=f"tiles in groups of {group} in {kernel.node.name}")
    return None


def _row_and_column(kernel: Kernel) -> Iterator[tuple[str, str, ast.expr, ast.stmt]]:
    """Where a program's number is split into row and column: their names, the width, the place."""
    body = kernel.node.body
    ids = {
        name
        for statement in body
        if (name := _bound(statement))
        and isinstance(statement, ast.Assign)
        and isinstance(statement.value, ast.Call)
        and call_name(statement.value) == "tl.program_id"
        and _axis(statement.value) == 0
    }
    if len(program_ids(kernel)) != 1:
        return
    for first, second in pairwise(body):
        one, other = _split(first, ids), _split(second, ids)
        if one and other and one[0] in ids:
            continue  # The second statement reads what the first one made of the number.
        if one and other and ast.unparse(one[1]) == ast.unparse(other[1]):
            if (one[2], other[2]) == (ast.FloorDiv, ast.Mod):
                yield one[0], other[0], one[1], second
            elif (one[2], other[2]) == (ast.Mod, ast.FloorDiv):
                yield other[0], one[0], one[1], second


def _split(statement: ast.stmt, ids: set[str]) -> tuple[str, ast.expr, type[ast.operator]] | None:
    """Name, width and operator of `name = pid // width` or `name = pid % width`."""
    name = _bound(statement)
    value = statement.value if isinstance(statement, ast.Assign) else None
    if not name or not isinstance(value, ast.BinOp) or not isinstance(value.left, ast.Name):
        return None
    return (name, value.right, type(value.op)) if value.left.id in ids else None


def _bound(statement: ast.stmt) -> str:
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        target = statement.targets[0]
        return target.id if isinstance(target, ast.Name) else ""
    return ""


def _axis(call: ast.Call) -> int | None:
    values = [*call.args, *(k.value for k in call.keywords if k.arg == "axis")]
    value = values[0] if values else None
    return value.value if isinstance(value, ast.Constant) and type(value.value) is int else None


REVERSED = Rewrite(name="reversed", apply=_reverse)
SWIZZLE = Rewrite(name="swizzle", apply=_swizzle)
