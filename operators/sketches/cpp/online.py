"""Peak and sum of exponentials in one sweep: each part has its own peak, and parts are joined.

Source: Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018, algorithm 3,
here over parts of a row instead of single elements.
"""

from __future__ import annotations

from operators.sketches.cpp.signature import Signature

__all__ = ["join_text", "online_lines"]


def join_text(pair: tuple[int, int]) -> str:
    """Return the C++ function that joins a part of a row to what went before it."""
    peak, total = f"peak{pair[0]}", f"sum{pair[1]}"
    return f"""
// Join a part whose largest value is `largest` to what went before it in the row.
INLINE void join(Row &s, const Row &part, float largest) {{
    const float before = s.{peak}, top = higher(before, largest);
    const float kept = before == -INF ? 0.0f : exponential(before - top);
    const float added = largest == -INF ? 1.0f : exponential(largest - top);
    s.{total} = s.{total} * kept + part.{total} * added;
    s.{peak} = top;
}}"""


def online_lines(pair: tuple[int, int], signature: Signature) -> list[str]:
    """Return the statements that sweep one row, its reductions in `s`."""
    peak = f"peak{pair[0]}"
    arguments = signature.arguments("row", "part", "t")
    return [
        "for (long part = 0; part < PARTS; part++) {",
        "    Row t;",
        f"    pass1({arguments});",
        f"    const float largest = t.{peak};",
        # NaN still shows in the sum of a part whose other values are all -infinity.
        f"    t.{peak} = largest == -INF ? 0.0f : largest;",
        f"    pass2({arguments});",
        "    join(s, t, largest);",
        "}",
    ]
