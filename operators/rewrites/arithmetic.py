"""Cheaper arithmetic of nearly the same result: the referee judges what it costs in accuracy."""

from __future__ import annotations

import ast
import math

import numpy as np

from operators.rewrites.rewrite import Rewrite, Rewritten, pick, shuffled
from operators.rewrites.source import Kernel, Module, call_name, edited

__all__ = ["DOT_PRECISION", "EXP2", "RECIPROCAL"]

_EXPONENTIALS = ("tl.exp", "tl.math.exp", "tl_math.exp", "libdevice.exp")
_LOG2_E = 1.4426950408889634
_PRECISIONS = ("ieee", "tf32", "tf32x3")


def _exp2(module: Module, rng: np.random.Generator) -> Rewritten | None:
    """Raise 2 instead of e: the hardware knows only powers of 2."""
    for kernel in shuffled(module.kernels, rng):
        calls = _outermost([c for c in kernel.calls(*_EXPONENTIALS) if len(c.args) == 1])
        if calls:
            edits = [
                module.replace(call, f"tl.exp2(({module.text(call.args[0])}) * {_LOG2_E})")
                for call in calls
            ]
            note = f"exp as a power of 2 in {kernel.node.name}"
            return Rewritten(source=edited(module, edits), note=note)
    return None


def _outermost(calls: list[ast.Call]) -> list[ast.Call]:
    """Those that lie in no other one: their edits would overlap."""
    inner = {id(node) for call in calls for node in ast.walk(call) if node is not call}
    return [call for call in calls if id(call) not in inner]


def _reciprocal(module: Module, rng: np.random.Generator) -> Rewritten | None:
    """Multiply by a reciprocal: one division a row instead of one an element."""
    places = [(kernel, node) for kernel in module.kernels for node in _divisions(kernel)]
    if not places:
        return None
    kernel, node = pick(places, rng)
    top, bottom = module.text(node.left), module.text(node.right)
    if isinstance(node.right, ast.Constant):
        inverse = repr(1.0 / float(node.right.value))  # type: ignore[arg-type] # _divisions saw it
    else:
        inverse = f"(1.0 / ({bottom}))"
    source = edited(module, [module.replace(node, f"(({top}) * {inverse})")])
    note = f"division as a product in {kernel.node.name}, line {node.lineno}"
    return Rewritten(source=source, note=note)


def _divisions(kernel: Kernel) -> list[ast.BinOp]:
    """Divisions whose numerator is computed, and whose denominator is not a zero."""
    return [
        node
        for node in ast.walk(kernel.node)
        if isinstance(node, ast.BinOp)
        and isinstance(node.op, ast.Div)
        and not isinstance(node.left, ast.Constant)
        and (not isinstance(node.right, ast.Constant) or _is_divisor(node.right.value))
    ]


def _is_divisor(value: object) -> bool:
    return isinstance(value, int | float) and math.isfinite(value) and value != 0


def _dot_precision(module: Module, rng: np.random.Generator) -> Rewritten | None:
    """Compute a product in another precision, where the text states one or none."""
    places = []
    for kernel in module.kernels:
        for call in kernel.calls("tl.dot"):
            given = {keyword.arg: keyword.value for keyword in call.keywords}
            if "allow_tf32" not in given and _is_literal(given.get("input_precision")):
                places.append((kernel, call, given.get("input_precision")))
    if not places:
        return None
    kernel, call, present = pick(places, rng)
    known = present.value if isinstance(present, ast.Constant) else None
    value = pick([one for one in _PRECISIONS if one != known], rng)
    source = edited(module, [module.keyword(call, "input_precision", repr(value))])
    return Rewritten(source=source, note=f"{call_name(call)} in {value}, {kernel.node.name}")


def _is_literal(node: ast.expr | None) -> bool:
    return node is None or isinstance(node, ast.Constant)


EXP2 = Rewrite(name="exp2", apply=_exp2)
RECIPROCAL = Rewrite(name="reciprocal", apply=_reciprocal)
DOT_PRECISION = Rewrite(name="dot_precision", apply=_dot_precision)
