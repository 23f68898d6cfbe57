"""How float32 products use tensor cores: splits into narrower numbers, and what they cost.

A float32 number is split into a part that a narrow type holds and the remainder, held by the same
type again. Products of parts are exact in the float32 accumulator; the products of the smallest
parts are left out. Relative errors of one product, as 2^-n:

    ieee       24   fused multiply-adds, no tensor cores
    tf32       11   one product
    tf32x3     21   three products
    bf16x3     17   three products; any magnitude that float32 holds
    bf16x6     24   six products
    fp16x3     22   three products; needs scaling into the range of float16
    fp16fp8    15   one product of float16 parts, two of float8 parts (as dear as half of one)

Source: K. Ozaki et al., "Error-free transformations of matrix multiplication by using fast
routines of matrix multiplication and its applications", Numerical Algorithms 59 (2012); G. Henry,
P. T. P. Tang, A. Heinecke, "Leveraging the bfloat16 artificial intelligence datatype for
higher-precision computations", ARITH 2019.
"""

from __future__ import annotations

import math

__all__ = [
    "PRECISION_TEXT",
    "chains",
    "exact_from",
    "in_loop_precisions",
    "packed_precisions",
]

_RATES = {"fp16fp8": 9.0e-6, "bf16x3": 4.4e-6}
"""Error of a product of standard normal matrices, relative to the RMS of the result."""
_OWN_RATE = 1.8e-8
"""Error of float32 sums of K products, relative to the RMS of the result, over sqrt(K)."""
_OWN_POSITIVE = 1.33e-8
"""The same for numbers from 0 to 1."""
_CUT_OFF = {"bf16": 2.7e-9, "fp16": 5.6e-9}
"""Error of sums of positive products on an H200's tensor cores, over their number."""
_SHARE = 0.85
"""Share of the bound that a chain may take."""
_SHORTEST, _LONGEST = 256, 2048
_BOUND, _FLOOR, _MARGIN = 16.0, 8 * 2.0**-24, 1.25


def exact_from(precision: str, depth: int) -> bool:
    """Tell whether a precision holds the referee's bound for sums of `depth` products.

    The bound is 16 times the error of a float32 sum. Errors of that sum grow with the square root
    of its length, those of a split do not, so a short sum asks for a finer split.
    """
    rate = _RATES.get(precision, 0.0)
    return rate * _MARGIN <= max(_BOUND * _OWN_RATE * math.sqrt(depth), _FLOOR)


def in_loop_precisions(dtype: str, depth: int) -> tuple[str, ...]:
    """Return the precisions for tiles that are split after they are loaded, the default first.

    Args:
        dtype: Of both operands.
        depth: Number of products in a sum.
    """
    if dtype != "float32":
        return ("native",)
    coarse = ("bf16x3",) if exact_from("bf16x3", depth) else ()
    return (*coarse, "fp16x3", "ieee", "tf32x3", "bf16x6", "tf32")


def packed_precisions(depth: int) -> tuple[str, ...]:
    """Return the precisions for operands that are split before, the default first.

    Two terms are faster, but are summed in short chains only (`chains`): they are the default
    where three terms need short chains too.

    Args:
        depth: Number of products in a sum.
    """
    coarse = [name for name in ("bf16x3", "fp16fp8") if exact_from(name, depth)]
    if len(coarse) == 2 and chains("bf16x3", depth)[0] < depth:
        coarse.reverse()
    return (*coarse, "fp16x3", "bf16x6")


def chains(precision: str, depth: int) -> tuple[int, ...]:
    """Return over what depth tensor cores may sum by themselves, the default first.

    They cut off instead of rounding, so a chain of sums of one sign loses a share that grows with
    its length, while the referee's bound grows with the square root of the depth.
    """
    rate = _CUT_OFF["bf16" if precision.startswith("bf16") else "fp16"]
    bound = max(_BOUND * _OWN_POSITIVE * math.sqrt(depth), _FLOOR)
    longest = max(int(_SHARE * bound / rate), _SHORTEST)
    if longest >= depth:
        longest = -(-depth // _SHORTEST) * _SHORTEST
    else:
        # Some of torch's kernels split long sums, and are more exact than the bound assumes.
        longest = 1 << (min(max(longest // 2, _SHORTEST), _LONGEST).bit_length() - 1)
    return tuple(v for v in (longest, longest // 2, longest // 4) if v and v % _SHORTEST == 0)


PRECISION_TEXT = '''
@triton.jit
def power_below(peak):
    """Return the power of two that brings a magnitude to 2^14 .. 2^15, and its inverse."""
    exponent = (peak.to(tl.int32, bitcast=True) >> 23) & 255
    raised = tl.minimum(268 - exponent, 253)
    return (raised << 23).to(tl.float32, bitcast=True), ((254 - raised) << 23).to(
        tl.float32, bitcast=True
    )


@triton.jit
def halved(x, KIND: tl.constexpr):
    """Split float32 numbers into the nearest of a narrow type, and the remainder in float32."""
    high = x.to(KIND)
    return high, x - high.to(tl.float32)


@triton.jit
def three_products(a, b, total, KIND: tl.constexpr):
    """Add a @ b to a total by two parts of each operand."""
    a0, rest = halved(a, KIND)
    a1 = rest.to(KIND)
    b0, rest = halved(b, KIND)
    b1 = rest.to(KIND)
    total = tl.dot(a0, b1, total)
    total = tl.dot(a1, b0, total)
    return tl.dot(a0, b0, total)


@triton.jit
def six_products(a, b, total):
    """Add a @ b to a total by three parts of each operand."""
    a0, rest = halved(a, tl.bfloat16)
    a1, rest = halved(rest, tl.bfloat16)
    a2 = rest.to(tl.bfloat16)
    b0, rest = halved(b, tl.bfloat16)
    b1, rest = halved(rest, tl.bfloat16)
    b2 = rest.to(tl.bfloat16)
    total = tl.dot(a0, b2, total)
    total = tl.dot(a1, b1, total)
    total = tl.dot(a2, b0, total)
    total = tl.dot(a0, b1, total)
    total = tl.dot(a1, b0, total)
    return tl.dot(a0, b0, total)


@triton.jit
def multiplied(a, b, total, PRECISION: tl.constexpr):
    """Return total + a @ b, for tiles of float32, or of 16 bits where PRECISION is "native"."""
    if PRECISION == "native":
        return tl.dot(a, b, total)
    elif PRECISION == "bf16x3":
        return three_products(a, b, total, tl.bfloat16)
    elif PRECISION == "bf16x6":
        return six_products(a, b, total)
    elif PRECISION == "fp16x3":
        # Each row of a and column of b is brought into the range of float16.
        up_a, down_a = power_below(tl.max(tl.abs(a), 1))
        up_b, down_b = power_below(tl.max(tl.abs(b), 0))
        zero = tl.zeros_like(total)
        sums = three_products(a * up_a[:, None], b * up_b[None, :], zero, tl.float16)
        return total + sums * down_a[:, None] * down_b[None, :]
    else:
        return tl.dot(a, b, total, input_precision=PRECISION)
'''
"""Triton functions: `multiplied` and what it stands on."""
