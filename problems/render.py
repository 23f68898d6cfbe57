"""Render a catalogue entry at a scale: the text of a module in KernelBench's form."""

from __future__ import annotations

from textwrap import indent

from problems.entry import DRAWS, Entry, InputEntry, Size
from problems.problem import Scale

__all__ = ["render"]

_WIDTH = 88
_STEP = "    "


def render(entry: Entry, scale: Scale) -> str:
    """Return the source of a problem's module.

    Args:
        entry: The problem as data.
        scale: Which of its sizes to write.

    Returns:
        A module with sizes as constants, `Model`, `get_inputs` and `get_init_inputs`, laid out
        as a formatter would.

    Raises:
        ProblemError: The catalogue has no such scale.
    """
    sizes = entry.sizes_at(scale)
    blocks = [
        "\n".join(f"{name} = {_literal(value)}" for name, value in sizes.items()),
        _model(entry, sizes),
        _get_inputs(entry),
        _list_function("get_init_inputs", list(entry.init)),
    ]
    body = "\n\n\n".join(block for block in blocks if block)
    return f"{_imports(body)}\n\n{body}\n"


def _imports(body: str) -> str:
    lines = ["import torch", "from torch import nn"]
    if "math." in body:
        lines[:0] = ["import math", ""]
    if "F." in body:
        lines.append("from torch.nn import functional as F")
    return "\n".join(lines)


def _model(entry: Entry, sizes: dict[str, Size]) -> str:
    parts = ["class Model(nn.Module):", f'{_STEP}"""{entry.doc}"""', ""]
    if entry.init or entry.options or entry.build:
        parameters = [f"{name}: {_annotation(sizes[name], sizes)}" for name in entry.init]
        parameters += [
            f"{name}: {_annotation(value, sizes)} = {_literal(value)}"
            for name, value in entry.options.items()
        ]
        head = _call("def __init__", ["self", *parameters], ":")
        body = "super().__init__()\n" + entry.build.strip("\n")
        parts += [indent(head, _STEP), indent(body.rstrip("\n"), 2 * _STEP), ""]
    arguments = [f"{each.name}: {DRAWS[each.draw].type}" for each in entry.inputs]
    head = _call("def forward", ["self", *arguments], " -> torch.Tensor:")
    parts += [indent(head, _STEP), indent(entry.forward.strip("\n"), 2 * _STEP)]
    return "\n".join(parts)


def _get_inputs(entry: Entry) -> str:
    lines = [line for each in entry.inputs for line in _draw(each)]
    returned = _list_function("get_inputs", [each.name for each in entry.inputs])
    head, _, tail = returned.partition("\n")
    return "\n".join([head, *(_STEP + line for line in lines), tail])


def _draw(each: InputEntry) -> list[str]:
    shape = ", ".join(each.shape)
    lines = DRAWS[each.draw].lines
    return [line.format(name=each.name, shape=shape, upper=each.upper) for line in lines]


def _list_function(name: str, items: list[str]) -> str:
    line = f"{_STEP}return [{', '.join(items)}]"
    if len(line) > _WIDTH:
        rows = "".join(f"{2 * _STEP}{item},\n" for item in items)
        line = f"{_STEP}return [\n{rows}{_STEP}]"
    return f"def {name}() -> list:\n{line}"


def _call(head: str, items: list[str], tail: str) -> str:
    """Lay out a signature: one line where it fits, else one parameter a line."""
    line = f"{head}({', '.join(items)}){tail}"
    if len(_STEP + line) <= _WIDTH:
        return line
    rows = "".join(f"{_STEP}{item},\n" for item in items)
    return f"{head}(\n{rows}){tail}"


def _literal(value: Size) -> str:
    """Write a constant; a string is an expression over the constants before it."""
    return value if isinstance(value, str) else repr(value)


def _annotation(value: Size, sizes: dict[str, Size]) -> str:
    if isinstance(value, tuple) or (isinstance(value, str) and value.startswith("(")):
        return "tuple[int, ...]"
    if isinstance(value, str):
        return _annotation(sizes[value], sizes) if value in sizes else "int"
    return type(value).__name__
