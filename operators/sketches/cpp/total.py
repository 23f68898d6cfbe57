"""C++ text of what reduces over rows: the last step of a loss."""

from __future__ import annotations

from collections.abc import Callable

from operators.sketches.cpp.emitter import EXTREMES, FIRSTS, Emitter
from operators.sketches.cpp.signature import Signature
from operators.sketches.patterns.expressions import Load
from operators.sketches.patterns.schedule import Level, Schedule

__all__ = ["total_text"]


def total_text(schedule: Schedule, signature: Signature, count: str) -> str:
    """Return the function `total`, which reduces the values of `rows` and writes the output.

    Args:
        schedule: What is computed.
        signature: What its C functions take.
        count: C++ text of the number of rows.

    Returns:
        The text; "" where nothing is reduced over rows.
    """
    if schedule.level is not Level.TOTAL:
        return ""
    lines = []
    known = {}
    for position, number in enumerate(schedule.totals):
        kind = str(schedule.terms[number].payload)
        name = f"{kind}{number}"
        known[number] = f"(float){name}"
        value = f"rows[{position} * {count} + row]"
        step = f"{name} += {value};"
        if kind in EXTREMES:
            step = f"{name} = {EXTREMES[kind]}({name}, {value});"
        lines.append(f"double {name} = {FIRSTS[kind]};")
        lines.append(f"for (long row = 0; row < {count}; row++) {step}")
    emitter = Emitter(
        terms=schedule.terms, names=signature.names, address=_constant(signature), known=known
    )
    root = schedule.computation.output.term
    lines += emitter.statements([root])
    lines.append(f"out[0] = {emitter.known[root]};")
    return "\n".join(
        [
            "// Reduce over rows.",
            f"INLINE void total({signature.parameters('Out *out', 'const double *rows')}) {{",
            *(f"    {line}" for line in lines),
            "}",
        ]
    )


def _constant(signature: Signature) -> Callable[[int, Load, str], str]:
    """The address of a value that depends on no axis."""
    return lambda number, load, picked: f"in_{signature.names[load.value]}[0]"
