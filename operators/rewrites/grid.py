"""How many tiles a program works on: a persistent grid, and several tiles in a row.

Both turn the body of a kernel into a loop over tiles, and make the grid smaller.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from archives.configuration import (
    read_configuration,
    read_space,
    with_configuration,
    with_space,
)
from operators.rewrites.order import is_order_free, program_ids
from operators.rewrites.rewrite import Rewrite, Rewritten, shuffled
from operators.rewrites.source import Edit, Kernel, Module, edited

__all__ = ["PERSISTENT", "SEVERAL_TILES"]

_TILE = "tile"
_PROGRAMS = (132, 264, 528, 1056, 2112)
"""Multiples of the processors of a large GPU."""
_TILES = (2, 4, 8)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Loop:
    """How the tiles of a program are walked.

    Attributes:
        parameter: Name of the new parameter, in `CONFIG` where there is one.
        choices: Its values.
        first: The one to begin with.
        arguments: New arguments of the kernel.
        head: The loop's head.
        grid: The new grid; {tiles} is the old one's size, {value} the parameter.
        passed: What is passed for the new arguments.
        note: For people.
    """

    parameter: str
    choices: tuple[int, ...]
    first: int
    arguments: str
    head: str
    grid: str
    passed: str
    note: str


_PERSISTENT = _Loop(
    parameter="PROGRAMS",
    choices=_PROGRAMS,
    first=1056,
    arguments="TILES",
    head="for tile in range(tl.program_id(0), TILES, tl.num_programs(0)):",
    grid="(min({tiles}, {value}),)",
    passed="TILES={tiles}",
    note="persistent grid",
)
_SEVERAL = _Loop(
    parameter="TILES_EACH",
    choices=_TILES,
    first=2,
    arguments="TILES, TILES_EACH: tl.constexpr",
    head=(
        "for tile in range(tl.program_id(0) * TILES_EACH, "
        "tl.minimum(tl.program_id(0) * TILES_EACH + TILES_EACH, TILES)):"
    ),
    grid="(-(-({tiles}) // {value}),)",
    passed="TILES={tiles}, TILES_EACH={value}",
    note="several tiles for each program",
)


def _persist(module: Module, rng: np.random.Generator) -> Rewritten | None:
    """Launch as many programs as fit, each of which takes every so-many-th tile."""
    return _looped(module, rng, _PERSISTENT)


def _several(module: Module, rng: np.random.Generator) -> Rewritten | None:
    """Let each program take several tiles that follow each other."""
    return _looped(module, rng, _SEVERAL)


def _looped(module: Module, rng: np.random.Generator, loop: _Loop) -> Rewritten | None:
    for kernel in shuffled(module.kernels, rng):
        place = _place(kernel)
        if place is not None and _fits(module, kernel, place):
            name = _free_name(module.source, loop.parameter)
            source = edited(module, _edits(module, kernel, place, loop, name))
            note = f"{loop.note} of {kernel.node.name}"
            return Rewritten(source=_declared(source, loop, name), note=note)
    return None


def _free_name(source: str, wanted: str) -> str:
    name, number = wanted, 1
    while name in source:
        number += 1
        name = f"{wanted}_{number}"
    return name


def _place(kernel: Kernel) -> int | None:
    """Number of the body's statement that asks for the program's number, where only one does."""
    ids = program_ids(kernel)
    if len(ids) != 1 or ast.unparse(ids[0]) not in ("tl.program_id(0)", "tl.program_id(axis=0)"):
        return None
    for number, statement in enumerate(kernel.node.body):
        if isinstance(statement, ast.Assign) and ids[0] in ast.walk(statement):
            return number
    return None


def _fits(module: Module, kernel: Kernel, place: int) -> bool:
    """Whether the body from a place on may be a loop's, and every grid is one number."""
    node = kernel.node
    before = {argument.arg for argument in node.args.args} | _bound(node.body[:place])
    if before & _bound(node.body[place:]):
        return False  # It would be carried from tile to tile.
    text = module.text(node)
    leaves = any(isinstance(inner, ast.Return) for inner in ast.walk(node))
    counts = "num_programs" in text or "TILES" in text or _TILE in _names(node)
    grids = [launch.grid for launch in kernel.launches]
    flat = all(isinstance(grid, ast.Tuple) and len(grid.elts) == 1 for grid in grids)
    plain = not node.args.defaults and not node.args.kwonlyargs and bool(node.args.args)
    return (
        not leaves
        and not counts
        and bool(grids)
        and flat
        and plain
        and is_order_free(module, kernel)
    )


def _names(node: ast.AST) -> set[str]:
    return {child.id for child in ast.walk(node) if isinstance(child, ast.Name)}


def _bound(statements: Sequence[ast.stmt]) -> set[str]:
    return {
        node.id
        for statement in statements
        for node in ast.walk(statement)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }


def _edits(module: Module, kernel: Kernel, place: int, loop: _Loop, name: str) -> list[Edit]:
    statement = kernel.node.body[place]
    start, _ = module.span(statement)
    margin = " " * statement.col_offset
    edits = [
        Edit(start=start, end=start, text=f"{loop.head}\n{margin}    "),
        module.replace(program_ids(kernel)[0], _TILE),
        *_indented(module, kernel, statement),
    ]
    last = kernel.node.args.args[-1]
    end = module.span(last.annotation)[1] if last.annotation else _end_of_name(module, last)
    edits.append(Edit(start=end, end=end, text=f", {loop.arguments}"))
    value = _value(module.source, loop, name)
    for launch in kernel.launches:
        assert isinstance(launch.grid, ast.Tuple)
        tiles = module.text(launch.grid.elts[0])
        edits.append(module.replace(launch.grid, loop.grid.format(tiles=tiles, value=value)))
        passed = loop.passed.format(tiles=tiles, value=value)
        edits.append(module.appended(launch.call, passed))
    return edits


def _end_of_name(module: Module, argument: ast.arg) -> int:
    return module.starts[argument.lineno - 1] + argument.col_offset + len(argument.arg.encode())


def _indented(module: Module, kernel: Kernel, statement: ast.stmt) -> list[Edit]:
    """Move the lines after a statement's first one level in."""
    assert kernel.node.end_lineno is not None
    lines = module.source.split("\n")
    return [
        Edit(start=module.starts[number], end=module.starts[number], text="    ")
        for number in range(statement.lineno, kernel.node.end_lineno)
        if lines[number].strip()
    ]


def _value(source: str, loop: _Loop, name: str) -> str:
    """The text that reads the parameter: a number where the program declares none."""
    if read_space(source) and read_configuration(source):
        return f'CONFIG["{name}"]'
    return str(loop.first)


def _declared(source: str, loop: _Loop, name: str) -> str:
    """Declare the new parameter, where the program declares any."""
    space, point = read_space(source), read_configuration(source)
    if not space or not point:
        return source
    source = with_space(source, {**space, name: loop.choices})
    return with_configuration(source, {**point, name: loop.first})


PERSISTENT = Rewrite(name="persistent", apply=_persist)
SEVERAL_TILES = Rewrite(name="several_tiles", apply=_several)
