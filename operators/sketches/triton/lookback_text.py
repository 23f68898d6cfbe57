"""Triton text of scans of few rows in one pass, by decoupled look-back."""

from __future__ import annotations

__all__ = ["LOOKBACK_KERNEL"]

LOOKBACK_KERNEL = '''
NOTHING = tl.constexpr(0)
OWN = tl.constexpr(1)
ALL = tl.constexpr(2)


@triton.jit
def announce(word_ptr, value, state: tl.constexpr):
    """Let the programs behind see a value and what it is, in one word of 64 bits."""
    bits = value.to(tl.int32, bitcast=True).to(tl.int64) & 0xFFFFFFFF
    tl.atomic_xchg(word_ptr, bits | (state << 32), sem="relaxed")


@triton.jit
def before(word_ptr, step, ROWS: tl.constexpr, WINDOW: tl.constexpr):
    """What all tiles before one come to: WINDOW words at a time, back to one that says ALL."""
    back = tl.arange(0, WINDOW)[None, :]
    carry = tl.full((ROWS, 1), FIRST, tl.float32)
    waiting = tl.full((ROWS, 1), 1, tl.int32)
    nearest = step - 1
    while tl.max(waiting) > 0:
        at = nearest - back
        # By an atomic operation: copies of a word that warps load for themselves may differ.
        words = tl.atomic_add(word_ptr + at * ROWS, 0, mask=at >= 0, sem="relaxed")
        words = tl.where(at >= 0, words, ALL << 32)
        state = (words >> 32).to(tl.int32)
        if tl.min(state) > NOTHING:
            value = (words & 0xFFFFFFFF).to(tl.int32).to(tl.float32, bitcast=True)
            last = tl.min(tl.where(state == ALL, back, WINDOW), 1, keep_dims=True)
            used = (waiting > 0) & (back <= last) & (at >= 0)
            carry = joined(carry, whole(tl.where(used, value, FIRST)))
            waiting = tl.where(last < WINDOW, 0, waiting)
            nearest -= WINDOW
    return carry


@triton.jit
def lookback_kernel(
    x_ptr, mask_ptr, words_ptr, out_ptr, TILES: tl.constexpr, ROWS: tl.constexpr,
    BLOCK: tl.constexpr, WINDOW: tl.constexpr, SHIFT: tl.constexpr, CACHE: tl.constexpr,
):
    """Scan one tile. A program takes the next ticket, so whom it waits for has begun before."""
    FULL: tl.constexpr = INNER % ROWS == 0 and LENGTH % BLOCK == 0
    BLOCKS: tl.constexpr = (LENGTH + BLOCK - 1) // BLOCK
    ticket = tl.atomic_add(words_ptr + TILES * BLOCKS * ROWS, 1, sem="relaxed").to(tl.int32)
    tile = ticket % TILES
    step = ticket // TILES
    strips = (INNER + ROWS - 1) // ROWS
    row = tl.arange(0, ROWS)[:, None]
    inner = (tile % strips) * ROWS + row
    row_inside = inner < INNER
    base = (tile // strips).to(tl.int64) * (LENGTH * INNER) + inner
    start = (BLOCKS - 1 - step if REVERSE else step) * BLOCK
    column = start + tl.arange(0, BLOCK)[None, :]
    x = taken(x_ptr, mask_ptr, base, column, row_inside, SHIFT, FULL)
    own = whole(x)
    first_ptr = words_ptr + tile * (BLOCKS * ROWS) + row
    carry = tl.full((ROWS, 1), FIRST, tl.float32)
    if step > 0:
        announce(first_ptr + step * ROWS, own, OWN)
        carry = before(first_ptr, step, ROWS, WINDOW)
    announce(first_ptr + step * ROWS, joined(carry, own), ALL)
    put(out_ptr, base, column, row_inside, start, carry, x, SHIFT, FULL, CACHE)
'''
"""After `scan_text.SCAN_FUNCTIONS`. `words_ptr` has zeros: a word for each row of each tile, and
one for tickets. A word holds a float32 and what it stands for: nothing yet, its tile, or all tiles
up to it (Merrill and Garland, "Single-pass Parallel Prefix Scan with Decoupled Look-back")."""
