"""How loads and stores treat the caches: eviction policies and cache modifiers.

An access has one of them at most: ptxas 13 refuses each modifier beside `.L1::evict_first` or
`.L1::evict_last`, as the grammar of `ld` and `st` has it (NVIDIA, PTX ISA, "ld", "st").
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence

import numpy as np

from operators.rewrites.rewrite import Rewrite, Rewritten, pick
from operators.rewrites.source import Module, call_name, edited

__all__ = ["CACHE_MODIFIER", "EVICTION_POLICY"]

_EVICTION, _MODIFIER = "eviction_policy", "cache_modifier"
_POLICIES = ("", "evict_first", "evict_last")
_MODIFIERS = {
    "tl.load": ("", ".ca", ".cg"),
    "tl.store": ("", ".wb", ".cg", ".cs", ".wt"),
}


def _evict(module: Module, rng: np.random.Generator) -> Rewritten | None:
    """Change when a line is evicted: data that is read once should not push other data out."""
    return _set_keyword(module, rng, _EVICTION, dict.fromkeys(_MODIFIERS, _POLICIES))


def _cache(module: Module, rng: np.random.Generator) -> Rewritten | None:
    """Change which caches hold a line: `.cg` leaves the first level out."""
    return _set_keyword(module, rng, _MODIFIER, _MODIFIERS)


def _set_keyword(
    module: Module, rng: np.random.Generator, name: str, values: Mapping[str, Sequence[str]]
) -> Rewritten | None:
    """Set a keyword of one load or store to another value; one that is computed stays."""
    other = _MODIFIER if name == _EVICTION else _EVICTION
    places = [
        (kernel, call)
        for kernel in module.kernels
        for call in kernel.calls(*values)
        if _present(call, name) is not None
        and _present(call, other) == ""
        and not _present(call, "volatile")
    ]
    if not places:
        return None
    kernel, call = pick(places, rng)
    present = _present(call, name)
    value = pick([one for one in values[call_name(call)] if one != present], rng)
    source = edited(module, [module.keyword(call, name, repr(value))])
    where = f"{call_name(call)} in {kernel.node.name}, line {call.lineno}"
    return Rewritten(source=source, note=f"{name} {value or 'as by default'!s} of {where}")


def _present(call: ast.Call, name: str) -> str | None:
    """The literal value of a keyword; "" where it is not given, None where it is no literal."""
    for keyword in call.keywords:
        if keyword.arg == name:
            value = keyword.value
            if not isinstance(value, ast.Constant):
                return None
            return str(value.value) if value.value else ""
    return ""


EVICTION_POLICY = Rewrite(name="eviction_policy", apply=_evict)
CACHE_MODIFIER = Rewrite(name="cache_modifier", apply=_cache)
