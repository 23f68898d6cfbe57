"""Triton text of the pointwise functions, and of the small functions that they call."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from operators.sketches.patterns.expressions import Terms

__all__ = ["CALLS", "Call", "definitions", "functions", "imports", "literal"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A pointwise function in Triton.

    Attributes:
        text: Its text, operands as {0}, {1}, {2}.
        needs: The function of `definitions` it calls, or "".
    """

    text: str
    needs: str = ""


def _function(name: str) -> Call:
    return Call(text=f"{name}({{0}})", needs=name)


def _language(name: str) -> Call:
    return Call(text=f"tl.{name}({{0}})")


def _operator(sign: str) -> Call:
    return Call(text=f"({{0}} {sign} {{1}})")


def _extreme(name: str) -> Call:
    return Call(text=f"tl.{name}({{0}}, {{1}}, propagate_nan=tl.PropagateNan.ALL)")


CALLS: Mapping[str, Call] = {
    "add": _operator("+"),
    "subtract": _operator("-"),
    "product": _operator("*"),
    "quotient": _operator("/"),
    "negative": Call(text="(-{0})"),
    "absolute": _language("abs"),
    "root": _language("sqrt_rn"),
    "floor": _language("floor"),
    "ceiling": _language("ceil"),
    "rounded": _function("rounded"),
    "truncated": Call(text="tl.where({0} < 0, tl.ceil({0}), tl.floor({0}))"),
    "exponential": _language("exp"),
    "exponential_minus_1": _function("exponential_minus_1"),
    "logarithm": _language("log"),
    "logarithm_of_1_plus": _function("logarithm_of_1_plus"),
    "hyperbolic_tangent": _function("hyperbolic_tangent"),
    "error_function": _language("erf"),
    "logistic": Call(text="(1.0 / (1.0 + tl.exp(-{0})))"),
    "sine": _language("sin"),
    "cosine": _language("cos"),
    "power": Call(text="power({0}, {1})", needs="power"),
    "larger": _extreme("maximum"),
    "lesser": _extreme("minimum"),
    "at_least": Call(text="tl.where({0} < {1}, {1}, {0})"),
    "at_most": Call(text="tl.where({0} > {1}, {1}, {0})"),
    "less": _operator("<"),
    "less_equal": _operator("<="),
    "greater": _operator(">"),
    "greater_equal": _operator(">="),
    "equal": _operator("=="),
    "unequal": _operator("!="),
    "both": _operator("&"),
    "either": _operator("|"),
    "neither": Call(text="({0} == 0)"),
    "select": Call(text="tl.where({0}, {1}, {2})"),
    "number": Call(text="{0}.to(tl.float32)"),
    "truth": Call(text="({0} != 0)"),
}
"""Pointwise functions by name. NaN passes through all of them as in torch."""

_TEXTS = {
    "fetch": '''
@triton.jit
def fetch(pointer, inside, FULL: tl.constexpr, POLICY: tl.constexpr):
    """Load a tile, with a mask only where it may reach outside; 0 stands for what is outside."""
    if FULL:
        return tl.load(pointer, eviction_policy=POLICY)
    else:
        return tl.load(pointer, mask=inside, other=0, eviction_policy=POLICY)
''',
    "put": '''
@triton.jit
def put(pointer, value, inside, FULL: tl.constexpr, CACHE: tl.constexpr):
    """Store a tile, with a mask only where it may reach outside."""
    if FULL:
        tl.store(pointer, value, cache_modifier=CACHE)
    else:
        tl.store(pointer, value, mask=inside, cache_modifier=CACHE)
''',
    "only": '''
@triton.jit
def only(value, inside, neutral: tl.constexpr, FULL: tl.constexpr):
    """Put a neutral value in place of what lies outside."""
    if FULL:
        return value
    else:
        return tl.where(inside, value, neutral)
''',
    "rounded": '''
@triton.jit
def rounded(x):
    """The nearest integer, the even one of two: from 2^22 on the sum drops the fraction."""
    moved = (x + 12582912.0) - 12582912.0
    return tl.where(tl.abs(x) < 4194304.0, moved, x)
''',
    "exponential_minus_1": '''
@triton.jit
def exponential_minus_1(x):
    """exp(x) - 1, by its series around 0."""
    series = 1.0 / 5040.0 + x * (1.0 / 40320.0)
    series = 1.0 / 120.0 + x * (1.0 / 720.0 + x * series)
    series = x * (1.0 + x * (0.5 + x * (1.0 / 6.0 + x * (1.0 / 24.0 + x * series))))
    return tl.where(tl.abs(x) < 0.5, series, tl.exp(x) - 1.0)
''',
    "logarithm_of_1_plus": '''
@triton.jit
def logarithm_of_1_plus(x):
    """log(1 + x), corrected by what the sum lost."""
    total = 1.0 + x
    lost = (x - (total - 1.0)) / total
    return tl.log(total) + tl.where((total > 0) & (total < float("inf")), lost, 0.0)
''',
    "hyperbolic_tangent": '''
@triton.jit
def hyperbolic_tangent(x):
    """tanh(x), exact near 0 too."""
    power = exponential_minus_1(-2.0 * tl.abs(x))
    size = -power / (2.0 + power)
    return tl.where(x < 0, -size, size)
''',
    "power": '''
@triton.jit
def power(x, exponent):
    """x to the power of an exponent of any kind."""
    return libdevice.pow(x, exponent)
''',
    "largest": '''
@triton.jit
def largest(lanes, AXIS: tl.constexpr):
    """The maximum along an axis; NaN wins."""
    broken = tl.max((lanes != lanes).to(tl.int32), AXIS, keep_dims=True)
    return tl.where(broken > 0, float("nan"), tl.max(lanes, AXIS, keep_dims=True))
''',
    "smallest": '''
@triton.jit
def smallest(lanes, AXIS: tl.constexpr):
    """The minimum along an axis; NaN wins."""
    broken = tl.max((lanes != lanes).to(tl.int32), AXIS, keep_dims=True)
    return tl.where(broken > 0, float("nan"), tl.min(lanes, AXIS, keep_dims=True))
''',
    "first_place": '''
@triton.jit
def first_place(lanes, best, places, AXIS: tl.constexpr):
    """The first place where a lane has the best value; NaN is equal to NaN."""
    equal = (lanes == best) | ((lanes != lanes) & (best != best))
    return tl.min(tl.where(equal, places, 2147483647), AXIS, keep_dims=True)
''',
    "raised": '''
@triton.jit
def raised(peaks, value):
    """Peaks that take a value in, and what sums of exponentials are to be scaled by."""
    top = tl.maximum(peaks, value)
    calm = tl.where(top == float("-inf"), 0.0, top)
    return top, tl.exp(peaks - calm), tl.exp(value - calm)
''',
    "joined": '''
@triton.jit
def joined(peaks, sums, AXIS: tl.constexpr):
    """The highest of some peaks, and the sum of exponentials relative to it."""
    top = tl.max(peaks, AXIS, keep_dims=True)
    calm = tl.where(top == float("-inf"), 0.0, top)
    return top, tl.sum(sums * tl.exp(peaks - calm), AXIS, keep_dims=True)
''',
    "calmed": '''
@triton.jit
def calmed(peaks):
    """What exponentials are taken relative to: peaks, and 0 where they are infinite."""
    return tl.where(tl.abs(peaks) == float("inf"), 0.0, peaks)
''',
    "give": '''
@triton.jit
def give(words, member, value):
    """Give a value of 32 bits to the other programs of a group.

    The low half of a word is the value, and its high half is 1 once it is written: whoever sees
    the 1 has the value too, in whatever order memory changes for him. Words start as 0.
    """
    low = value.to(tl.int32, bitcast=True).to(tl.int64) & 0xFFFFFFFF
    tl.store(words + (member + tl.zeros((1, 1), tl.int32)), low | 0x100000000)
''',
    "take": '''
@triton.jit
def take(words, neutral, LIKE: tl.constexpr, MEMBERS: tl.constexpr, PADDED: tl.constexpr):
    """Wait for the values that all programs of a group give; return them."""
    other = tl.arange(0, PADDED)
    places = words + tl.minimum(other, MEMBERS - 1)
    seen = tl.load(places, volatile=True)
    while tl.min(seen) < 0x100000000:
        seen = tl.load(places, volatile=True)
    values = (seen & 0xFFFFFFFF).to(tl.int32).to(LIKE, bitcast=True)
    return tl.where(other < MEMBERS, values, neutral)
''',
    "processors": '''
@functools.cache
def processors(device):
    """Multiprocessors of a device; 1 in Triton's interpreter, which runs on the CPU."""
    if device.type == "cpu":
        return 1
    return torch.cuda.get_device_properties(device).multi_processor_count
''',
    "portions": '''
@functools.cache
def portions(blocks, most):
    """In how many parts to divide some blocks: at most `most`, and equal ones if possible."""
    most = max(1, min(blocks, most))
    return next((n for n in range(most, most // 2, -1) if blocks % n == 0), most)
''',
}
_NEEDS = {
    "hyperbolic_tangent": ("exponential_minus_1",),
}


def definitions(names: Iterable[str]) -> str:
    """Return the text of some functions and of those that they call.

    Args:
        names: "fetch" and "put" (tiles), "only" (masks), the `needs` of `CALLS`,
            what folds lanes ("largest", "smallest", "first_place", "raised", "joined", "calmed"),
            "give" and "take" (values of a group of programs), "processors" and "portions" (grids).
    """
    wanted = set(names)
    for name in list(wanted):
        wanted |= set(_NEEDS.get(name, ()))
    return "\n\n".join(text.strip() + "\n" for name, text in _TEXTS.items() if name in wanted)


def imports(names: Iterable[str]) -> tuple[str, ...]:
    """Return the lines that import what some functions of `definitions` need."""
    lines = {
        "portions": "import functools",
        "power": "from triton.language.extra import libdevice",
        "processors": "import functools",
    }
    return tuple(sorted({lines[name] for name in names if name in lines}))


def functions(terms: Terms, numbers: Iterable[int]) -> set[str]:
    """Return the names of the functions of `definitions` that some terms call."""
    calls = (CALLS[terms[n].op].needs for n in numbers if terms[n].op in CALLS)
    return {name for name in calls if name}


def literal(value: float) -> str:
    """Return the text of a number."""
    return f'float("{value}")' if math.isnan(value) or math.isinf(value) else repr(value)
