"""Poisoned memory: a kernel that does not write all of its output shows it.

What `torch.empty` returns is whatever an earlier call left there, which may well be the right
answer. While poisoned, the C library fills every block that it hands out, and blocks of the
outputs' sizes are filled and freed beforehand, for the small ones that it keeps in a cache.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch

__all__ = ["poisoned"]

_PERTURB, _PERTURB_BYTE = -6, 0x01
"""malloc.h's M_PERTURB; new blocks are filled with the byte's complement: -1.7e38 in float32."""
_BLOCKS = 4
_CACHED_BYTES = 1 << 20
"""Larger blocks than this the C library does not keep apart."""
_POISON_BYTE = 0xFF
"""Every floating-point format reads as NaN, every integer as -1."""


@contextmanager
def poisoned(sizes: Sequence[int]) -> Iterator[None]:
    """Poison memory that is allocated meanwhile.

    Args:
        sizes: Bytes of the outputs that are about to be allocated.
    """
    blocks = []
    for size in sizes:
        for _ in range(_BLOCKS if size <= _CACHED_BYTES else 0):
            block = torch.empty(size, dtype=torch.uint8)
            blocks.append(block.fill_(_POISON_BYTE))
    blocks.clear()
    libc = ctypes.CDLL(None)
    libc.mallopt(_PERTURB, _PERTURB_BYTE)
    try:
        yield
    finally:
        libc.mallopt(_PERTURB, 0)
