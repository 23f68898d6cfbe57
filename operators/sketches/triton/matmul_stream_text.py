"""Triton text of products whose last tiles are shared by many programs: stream-K.

Of all tiles a device does so many at once, and the last of these waves is seldom full. Here as
many programs as are at work at once share what does not fill a wave, step by step of the depth,
each as much as any other, and do so first; every other tile has a program of its own. A program
that does some steps of a tile leaves their sum as a piece, and a second kernel adds the pieces. No
program waits for another, and sums have the same order in every run.

Source: M. Osama et al., "Stream-K: Work-centric Parallel Decomposition for Dense Matrix-Matrix
Multiplication on the GPU", PPoPP 2023, of which this is the hybrid of section 5 without waiting.
"""

from __future__ import annotations

__all__ = ["PIECES_TEXT", "STREAM_TEXT"]

PIECES_TEXT = '''
STRIP = 8
"""Rows of a tile that one program joins: few, since few tiles may have many pieces."""


@triton.jit
def begin_of(number, SHARED: tl.constexpr, PROGRAMS: tl.constexpr, STEPS: tl.constexpr):
    """Return where a program begins, in steps of the depth of all tiles one after the other.

    PROGRAMS share the SHARED first tiles of STEPS each; each program after them has a tile. As
    there are no fewer of them than of tiles, a share is no longer than a tile.
    """
    least: tl.constexpr = SHARED * STEPS // PROGRAMS
    more: tl.constexpr = SHARED * STEPS % PROGRAMS
    share = number * least + tl.minimum(number, more)
    return tl.where(number < PROGRAMS, share, (SHARED + number - PROGRAMS) * STEPS)


@triton.jit
def owner_of(step, SHARED: tl.constexpr, PROGRAMS: tl.constexpr, STEPS: tl.constexpr):
    """Return which program does a step of the shared tiles."""
    least: tl.constexpr = SHARED * STEPS // PROGRAMS
    more: tl.constexpr = SHARED * STEPS % PROGRAMS
    return tl.maximum(step // (least + 1), (step - more) // least)


@triton.jit
def share_of(number, SHARED: tl.constexpr, PROGRAMS: tl.constexpr, STEPS: tl.constexpr):
    """Return where a program begins and ends."""
    begin = begin_of(number, SHARED, PROGRAMS, STEPS)
    return begin, begin_of(number + 1, SHARED, PROGRAMS, STEPS)


@triton.jit
def piece_of(
    pieces,
    number,
    tile,
    SHARED: tl.constexpr,
    PROGRAMS: tl.constexpr,
    STEPS: tl.constexpr,
    SIZE: tl.constexpr,
):
    """Return where a program's piece of a tile lies: it has two, of a tile and of the next one."""
    second = tile - begin_of(number, SHARED, PROGRAMS, STEPS) // STEPS
    return pieces + (2 * number + second).to(tl.int64) * SIZE


@triton.jit
def store_steps(
    pieces,
    out,
    extras,
    total,
    number,
    tile,
    steps,
    batch,
    row,
    column,
    M: tl.constexpr,
    N: tl.constexpr,
    SHARED: tl.constexpr,
    PROGRAMS: tl.constexpr,
    STEPS: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    """Write what a program summed of a tile: all of it to the result, less as a piece."""
    if steps == STEPS:
        store_tile(out, extras, total, batch, row, column, M, N, 0, BLOCK_M, BLOCK_N)
    else:
        inside = tl.arange(0, BLOCK_M)[:, None] * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
        piece = piece_of(pieces, number, tile, SHARED, PROGRAMS, STEPS, BLOCK_M * BLOCK_N)
        tl.store(piece + inside, total)


@triton.jit
def join_pieces(
    pieces,
    out,
    extras,
    M: tl.constexpr,
    N: tl.constexpr,
    SHARED: tl.constexpr,
    PROGRAMS: tl.constexpr,
    STEPS: tl.constexpr,
    STRIP: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    GROUP: tl.constexpr,
):
    """Add the pieces of a strip of a shared tile, always in the order of the depth; write it."""
    tile = tl.program_id(0)
    first = owner_of(tile * STEPS, SHARED, PROGRAMS, STEPS)
    last = owner_of(tile * STEPS + STEPS - 1, SHARED, PROGRAMS, STEPS)
    batch, row, column = place(tile, tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N), GROUP)
    strip = row * (BLOCK_M // STRIP) + tl.program_id(1)
    # What a single program has done is written; whole strips of the last tile may lie outside.
    if (first < last) & (strip * STRIP < M):
        rows = tl.program_id(1) * STRIP + tl.arange(0, STRIP)[:, None]
        inside = rows * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
        total = tl.zeros((STRIP, BLOCK_N), tl.float32)
        for number in range(first, last + 1):
            piece = piece_of(pieces, number, tile, SHARED, PROGRAMS, STEPS, BLOCK_M * BLOCK_N)
            total += tl.load(piece + inside)
        store_tile(out, extras, total, batch, strip, column, M, N, 0, STRIP, BLOCK_N)


def shares_of(tiles, steps):
    """Return how many tiles are shared, and by how many programs: none without a step."""
    shared = tiles % CONFIG["STREAM"] if CONFIG["STREAM"] else 0
    return {"SHARED": shared, "PROGRAMS": min(CONFIG["STREAM"], shared * steps), "STEPS": steps}


def room_for_pieces(out, shares):
    """Return memory for two pieces of each program."""
    shape = (2 * shares["PROGRAMS"], CONFIG["BLOCK_M"], CONFIG["BLOCK_N"])
    return torch.empty(shape, dtype=torch.float32, device=out.device)


def join_all(pieces, out, extras, sizes, shares):
    """Write the tiles that several programs had a part of; there are none of equal numbers."""
    if shares["PROGRAMS"] > shares["SHARED"]:
        join_pieces[(shares["SHARED"], CONFIG["BLOCK_M"] // STRIP)](
            pieces, out, extras, M=sizes["M"], N=sizes["N"], **shares, STRIP=STRIP,
            BLOCK_M=CONFIG["BLOCK_M"], BLOCK_N=CONFIG["BLOCK_N"], GROUP=CONFIG["GROUP"],
        )  # fmt: skip
'''
"""Who does which steps, and how they are joined; needs `PLACE_TEXT` and `store_tile`."""

STREAM_TEXT = '''
@triton.jit
def stream_product(
    a,
    b,
    a_peaks,
    b_peaks,
    pieces,
    out,
    extras,
    SHARED: tl.constexpr,
    PROGRAMS: tl.constexpr,
    STEPS: tl.constexpr,
    M: tl.constexpr,
    N: tl.constexpr,
    K: tl.constexpr,
    A_OFFSET: tl.constexpr,
    A_BATCH: tl.constexpr,
    A_ROW: tl.constexpr,
    A_COLUMN: tl.constexpr,
    B_OFFSET: tl.constexpr,
    B_BATCH: tl.constexpr,
    B_ROW: tl.constexpr,
    B_COLUMN: tl.constexpr,
    PEAKS: tl.constexpr,
    PRECISION: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP: tl.constexpr,
    CHAIN: tl.constexpr,
):
    """A tile of the result, or pieces of one or two that are shared."""
    number = tl.program_id(0)
    begin, end = share_of(number, SHARED, PROGRAMS, STEPS)
    for tile in range(begin // STEPS, tl.cdiv(end, STEPS)):
        first = tl.maximum(begin - tile * STEPS, 0)
        last = tl.minimum(end - tile * STEPS, STEPS)
        batch, row, column = place(tile, tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N), GROUP)
        total = tile_total(
            a, b, a_peaks, b_peaks, batch, row, column, first, last, M, N, K, A_OFFSET, A_BATCH,
            A_ROW, A_COLUMN, B_OFFSET, B_BATCH, B_ROW, B_COLUMN, PEAKS, PRECISION, BLOCK_M,
            BLOCK_N, BLOCK_K, CHAIN,
        )  # fmt: skip
        store_steps(
            pieces, out, extras, total, number, tile, last - first, batch, row, column, M, N,
            SHARED, PROGRAMS, STEPS, BLOCK_M, BLOCK_N,
        )  # fmt: skip


def multiply(a, b, out, extras):
    """Multiply two tensors into a third; the depth is not split where tiles are shared."""
    down = triton.cdiv(SIZES["M"], CONFIG["BLOCK_M"])
    tiles = BATCH * down * triton.cdiv(SIZES["N"], CONFIG["BLOCK_N"])
    shares = shares_of(tiles, triton.cdiv(SIZES["K"], CONFIG["BLOCK_K"]))
    if not shares["PROGRAMS"]:
        multiply_tiles(a, b, out, extras, BATCH, SIZES, A_VIEW, B_VIEW)
        return
    a_peaks, b_peaks = a, b
    if CONFIG["PRECISION"] == "fp16x3":
        a_peaks, b_peaks = peaks_of(a, A_VIEW), peaks_of(b, B_VIEW)
    pieces = room_for_pieces(out, shares)
    full = {name: size for name, size in SIZES.items() if not name.endswith("TRIANGLE")}
    stream_product[(shares["PROGRAMS"] + tiles - shares["SHARED"],)](
        a, b, a_peaks, b_peaks, pieces, out, extras, **shares, **full, PEAKS=PEAKS,
        **tile_choices(),
    )  # fmt: skip
    join_all(pieces, out, extras, SIZES, shares)
'''
"""The kernel and `multiply`, of full matrices; needs `TILED_TEXT` and `PIECES_TEXT`."""
