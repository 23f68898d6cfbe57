"""Which products may be computed by programs that share tiles (see `matmul_stream_text`)."""

from __future__ import annotations

from operators.sketches.patterns.product import Product

__all__ = ["PROCESSORS", "stream_choices"]

PROCESSORS = 132
"""Multiprocessors of an H200; parameters hold other numbers for other devices."""
_MOST_WAVES = 8
"""Waves of tiles from which on they are not shared: after eight full waves the empty half of a last
one, which is half full on average, is a seventeenth of the time."""


def stream_choices(product: Product, tiles: int, block_k: int) -> dict[str, tuple[int, ...]]:
    """Return the values of STREAM, the number of programs that share tiles; the default, 0, first.

    Args:
        product: The product; where a triangle is known, tiles have depths of their own.
        tiles: Their number at the default configuration.
        block_k: Depth of a step at the default configuration; a single one cannot be shared.

    Returns:
        The parameter with one program for each multiprocessor and two; nothing where tiles are
        not to be shared.
    """
    if any(product.triangle) or product.sizes[3] <= block_k:
        return {}
    if tiles >= _MOST_WAVES * PROCESSORS:
        return {}
    return {"STREAM": (0, PROCESSORS, 2 * PROCESSORS)}
