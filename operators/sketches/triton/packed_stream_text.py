"""Triton text of a product of planes whose last tiles are shared (see `matmul_stream_text`)."""

from __future__ import annotations

__all__ = ["PACKED_STREAM_TEXT"]

PACKED_STREAM_TEXT = '''
@triton.jit
def packed_stream(
    a,
    b,
    a8,
    b8,
    a_scale,
    b_scale,
    pieces,
    out,
    extras,
    SHARED: tl.constexpr,
    PROGRAMS: tl.constexpr,
    STEPS: tl.constexpr,
    STEP: tl.constexpr,
    M: tl.constexpr,
    N: tl.constexpr,
    K: tl.constexpr,
    A_BATCHES: tl.constexpr,
    B_BATCHES: tl.constexpr,
    PRECISION: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP: tl.constexpr,
    CHAIN: tl.constexpr,
):
    """A tile of the result, or pieces of one or two that are shared; all sums in registers."""
    number = tl.program_id(0)
    begin, end = share_of(number, SHARED, PROGRAMS, STEPS)
    for tile in range(begin // STEPS, tl.cdiv(end, STEPS)):
        first = tl.maximum(begin - tile * STEPS, 0)
        last = tl.minimum(end - tile * STEPS, STEPS)
        batch, row, column = place(tile, tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N), GROUP)
        total = packed_total(
            a, b, a8, b8, a_scale, b_scale, out, extras, batch, row, column, first * STEP,
            last * STEP, M, N, K, A_BATCHES, B_BATCHES, 0, PRECISION, BLOCK_M, BLOCK_N, BLOCK_K,
            CHAIN, "registers",
        )  # fmt: skip
        store_steps(
            pieces, out, extras, total, number, tile, last - first, batch, row, column, M, N,
            SHARED, PROGRAMS, STEPS, BLOCK_M, BLOCK_N,
        )  # fmt: skip


def multiply(a, b, out, extras):
    """Multiply two tensors into a third; where tiles are shared, PROGRAMS and SUMS do not count."""
    block_m, block_n = CONFIG["BLOCK_M"], CONFIG["BLOCK_N"]
    left, right = packed_operands(a, b)
    tiles = BATCH * triton.cdiv(SIZES["M"], block_m) * triton.cdiv(SIZES["N"], block_n)
    step = padded_depth(1)
    shares = shares_of(tiles, triton.cdiv(SIZES["K"], step))
    if not shares["PROGRAMS"]:
        multiply_planes(left, right, out, extras, SIZES)
        return
    a_planes, a8, a_scale, a_batches = described(left, block_m)
    b_planes, b8, b_scale, b_batches = described(right, block_n)
    pieces = room_for_pieces(out, shares)
    packed_stream[(shares["PROGRAMS"] + tiles - shares["SHARED"],)](
        a_planes,
        b_planes,
        a8,
        b8,
        a_scale,
        b_scale,
        pieces,
        out,
        extras,
        **shares,
        STEP=step,
        M=SIZES["M"],
        N=SIZES["N"],
        K=SIZES["K"],
        A_BATCHES=a_batches,
        B_BATCHES=b_batches,
        PRECISION=CONFIG["PRECISION"],
        BLOCK_M=block_m,
        BLOCK_N=block_n,
        BLOCK_K=CONFIG["BLOCK_K"],
        GROUP=CONFIG["GROUP"],
        CHAIN=CONFIG["CHAIN"],
        num_warps=CONFIG["num_warps"],
        num_stages=CONFIG["num_stages"],
    )
    join_all(pieces, out, extras, SIZES, shares)
'''
"""The kernel and `multiply`, of full matrices; needs `PACKED_TEXT` and `PIECES_TEXT`."""
