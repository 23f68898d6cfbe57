"""Triton text that tells the compiler which elements lie side by side."""

from __future__ import annotations

__all__ = ["NEIGHBOURS_TEXT"]

NEIGHBOURS_TEXT = '''
@triton.jit
def neighbours(at, KNOWN: tl.constexpr):
    """Return offsets as they are, known to the compiler as those of neighbours in memory.

    Lanes are dealt out along the dimension that is contiguous. Where divisions hide that from the
    compiler, it is told; the second program number is 0, which it cannot know, so that it relies on
    no alignment and joins no accesses.
    """
    if KNOWN:
        return at
    else:
        return tl.max_contiguous(at + tl.program_id(1), 2)
'''
"""`neighbours`."""
