"""How loops over memory are scheduled: software pipelining and unrolling."""

from __future__ import annotations

import ast

import numpy as np

from operators.rewrites.rewrite import Rewrite, Rewritten, pick
from operators.rewrites.source import Kernel, Module, call_name, edited

__all__ = ["PIPELINE", "UNROLL"]

_RANGES = ("range", "tl.range")
_STAGES = (1, 2, 3, 4)
_FACTORS = (2, 4)


def _pipeline(module: Module, rng: np.random.Generator) -> Rewritten | None:
    """Load this many rounds ahead in one loop, whatever `num_stages` says for the others."""
    return _set_of_loop(module, rng, "num_stages", _STAGES)


def _unroll(module: Module, rng: np.random.Generator) -> Rewritten | None:
    """Unroll a loop by a factor, so that more loads are under way at a time."""
    return _set_of_loop(module, rng, "loop_unroll_factor", _FACTORS)


def _set_of_loop(
    module: Module, rng: np.random.Generator, name: str, values: tuple[int, ...]
) -> Rewritten | None:
    places = [(kernel, call) for kernel in module.kernels for call in _ranges(kernel)]
    if not places:
        return None
    kernel, call = pick(places, rng)
    given = {keyword.arg: keyword.value for keyword in call.keywords}
    present = given.get(name)
    if present is not None and not isinstance(present, ast.Constant):
        return None
    known = present.value if isinstance(present, ast.Constant) else None
    value = pick([one for one in values if one != known], rng)
    edits = [module.keyword(call, name, str(value))]
    if call_name(call) == "range":
        edits.append(module.replace(call.func, "tl.range"))
    note = f"{name} {value} of the loop in {kernel.node.name}, line {call.lineno}"
    return Rewritten(source=edited(module, edits), note=note)


def _ranges(kernel: Kernel) -> list[ast.Call]:
    """The ranges of loops in which something is loaded."""
    return [
        node.iter
        for node in ast.walk(kernel.node)
        if isinstance(node, ast.For)
        and isinstance(node.iter, ast.Call)
        and call_name(node.iter) in _RANGES
        and any(
            isinstance(inner, ast.Call) and call_name(inner) == "tl.load"
            for inner in ast.walk(node)
        )
    ]


PIPELINE = Rewrite(name="pipeline", apply=_pipeline)
UNROLL = Rewrite(name="unroll", apply=_unroll)
