"""C++ text that sketches over terms share: the prelude and vector maths.

No C++ header is included: what is used is declared, which makes a compile take 0.1 s, not 0.3 s.
Loops over vectors are plain loops under `#pragma omp simd`; the maths below is written without
branches, so that the compiler turns a call in such a loop into vector instructions. Nothing here
depends on relaxed floating-point rules: sums over several lanes are written as such.
"""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["PRELUDE", "choice_of_maths", "maths"]

PRELUDE = """
extern "C" int omp_get_max_threads();
extern "C" void *memcpy(void *, const void *, unsigned long);
#define INLINE static inline __attribute__((always_inline))
#define INF __builtin_inff()
#define NAN_ __builtin_nanf("")

INLINE long least(long a, long b) { return a < b ? a : b; }

// Write 64 bytes past the caches: the line is not read first. `to` is aligned to 64 bytes.
INLINE void stream16(float *to, const float *from) {
#if defined(__AVX512F__)
    typedef float vec __attribute__((vector_size(64), aligned(4), may_alias));
    typedef float aligned_vec __attribute__((vector_size(64), may_alias));
    __builtin_ia32_movntps512(to, (aligned_vec) * (const vec *)from);
#elif defined(__AVX__)
    typedef float vec __attribute__((vector_size(32), aligned(4), may_alias));
    typedef float aligned_vec __attribute__((vector_size(32), may_alias));
    __builtin_ia32_movntps256(to, (aligned_vec) * (const vec *)from);
    __builtin_ia32_movntps256(to + 8, (aligned_vec) * (const vec *)(from + 8));
#else
    memcpy(to, from, 64);
#endif
}

// Order streamed stores before whatever follows.
INLINE void stream_end() {
#if defined(__SSE2__)
    __builtin_ia32_sfence();
#endif
}
"""
"""C++ text that every program may start with."""

_BITS = """
INLINE float as_float(int bits) { float f; memcpy(&f, &bits, 4); return f; }
INLINE int as_int(float f) { int bits; memcpy(&bits, &f, 4); return bits; }
"""

_REDUCED = """
// e^r = 1 + r + r * r * tail(r) for |r| <= log(2) / 2.
INLINE float exp_tail(float r) {
    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    return p * r + 5.0000001201e-1f;
}
"""

_EXP = """
#if LIBRARY_MATHS
extern "C" __attribute__((simd("notinbranch"))) float expf(float);
INLINE float exponential(float x) { return expf(x); }
#else
// Relative error below 2 units in the last place; results below 1.7e-38 become 0.
INLINE float exponential(float x) {
    const float n = __builtin_rintf(x * 1.44269504f);
    const float r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
    const float twice = (2.0f * r) * r * exp_tail(r) + (2.0f * r + 2.0f);
    float y = twice * as_float(((int)n + 126) << 23);
    y = x < -87.0f ? 0.0f : y;
    return x > 88.7228390f ? INF : y;
}
#endif
"""

_EXPM1 = """
// e^x - 1 without cancellation around 0.
INLINE float exponential_minus_1(float x) {
    const float n = __builtin_rintf(x * 1.44269504f);
    const float r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
    const float half = as_float(((int)n + 126) << 23);
    float y = 2.0f * ((r * r * exp_tail(r) + r) * half + (half - 0.5f));
    y = x < -80.0f ? -1.0f : y;
    return x > 88.7228390f ? INF : y;
}
"""

_LOG = """
#if LIBRARY_MATHS
extern "C" __attribute__((simd("notinbranch"))) float logf(float);
INLINE float logarithm(float x) { return logf(x); }
#else
// Absolute error below one unit in the last place of the result.
INLINE float logarithm(float x) {
    const bool tiny = x < 1.17549435e-38f;
    const int bits = as_int(tiny ? x * 8388608.0f : x) - 0x3f3504f3;
    const float e = (float)(bits >> 23) - (tiny ? 23.0f : 0.0f);
    const float m = as_float((bits & 0x007fffff) + 0x3f3504f3) - 1.0f;
    const float z = m * m;
    float p = 7.0376836292e-2f;
    p = p * m - 1.1514610310e-1f;
    p = p * m + 1.1676998740e-1f;
    p = p * m - 1.2420140846e-1f;
    p = p * m + 1.4249322787e-1f;
    p = p * m - 1.6668057665e-1f;
    p = p * m + 2.0000714765e-1f;
    p = p * m - 2.4999993993e-1f;
    p = p * m + 3.3333331174e-1f;
    const float low = p * m * z - 2.12194440e-4f * e - 0.5f * z;
    float y = (m + low) + 0.693359375f * e;
    y = x > 0.0f ? y : NAN_;
    y = x == 0.0f ? -INF : y;
    return x == INF ? INF : y;
}
#endif
"""

_LOG1P = """
INLINE float logarithm_of_1_plus(float x) {
    const float u = 1.0f + x;
    const float y = logarithm(u);
    const float lost = (x - (u - 1.0f)) / u;
    return lost == lost ? y + lost : y;
}
"""

_TANH = """
// A ratio of polynomials in x * x; tanh(x) rounds to 1 from 9 on.
INLINE float hyperbolic_tangent(float x) {
    float c = x > 7.90531110763549805f ? 7.90531110763549805f : x;
    c = c < -7.90531110763549805f ? -7.90531110763549805f : c;
    const float z = c * c;
    float p = -2.76076847742355e-16f;
    p = p * z + 2.00018790482477e-13f;
    p = p * z - 8.60467152213735e-11f;
    p = p * z + 5.12229709037114e-08f;
    p = p * z + 1.48572235717979e-05f;
    p = p * z + 6.37261928875436e-04f;
    p = p * z + 4.89352455891786e-03f;
    float q = 1.19825839466702e-06f;
    q = q * z + 1.18534705686654e-04f;
    q = q * z + 2.26843463243900e-03f;
    q = q * z + 4.89352518554385e-03f;
    return c * p / q;
}
"""

_ERF = """
// A ratio of polynomials in x * x; erf(x) rounds to 1 from 4 on.
INLINE float error_function(float x) {
    float c = x > 4.0f ? 4.0f : x;
    c = c < -4.0f ? -4.0f : c;
    const float z = c * c;
    float p = -2.72614225801306e-10f;
    p = p * z + 2.77068142495902e-08f;
    p = p * z - 2.10102402082508e-06f;
    p = p * z - 5.69250639462346e-05f;
    p = p * z - 7.34990630326855e-04f;
    p = p * z - 2.95459980854025e-03f;
    p = p * z - 1.60960333262415e-02f;
    float q = -1.45660718464996e-05f;
    q = q * z - 2.13374055278905e-04f;
    q = q * z - 1.68282697438203e-03f;
    q = q * z - 7.37332916720468e-03f;
    q = q * z - 1.42647390514189e-02f;
    const float y = c * p / q;
    return y > 1.0f ? 1.0f : (y < -1.0f ? -1.0f : y);
}
"""

_SIGMOID = """
INLINE float logistic(float x) { return 1.0f / (1.0f + exponential(-x)); }
"""

_LARGER = """
// NaN wins, as in torch.
INLINE float larger(float a, float b) { return ((b > a) | (b != b)) ? b : a; }
"""

_HIGHER = """
// NaN loses: for the peak of a softmax, whose sum is NaN in any case.
INLINE float higher(float a, float b) { return b > a ? b : a; }
"""

_LESSER = """
// NaN wins, as in torch.
INLINE float lesser(float a, float b) { return ((b < a) | (b != b)) ? b : a; }
"""


def _library(name: str, arguments: int) -> str:
    types = ", ".join(["float"] * arguments)
    return f'\nextern "C" __attribute__((simd("notinbranch"))) float {name}({types});\n'


_TEXTS: dict[str, tuple[tuple[str, ...], str]] = {
    "bits": ((), _BITS),
    "exp_tail": ((), _REDUCED),
    "exponential": (("bits", "exp_tail"), _EXP),
    "exponential_minus_1": (("bits", "exp_tail"), _EXPM1),
    "logarithm": (("bits",), _LOG),
    "logarithm_of_1_plus": (("logarithm",), _LOG1P),
    "hyperbolic_tangent": ((), _TANH),
    "error_function": ((), _ERF),
    "logistic": (("exponential",), _SIGMOID),
    "higher": ((), _HIGHER),
    "larger": ((), _LARGER),
    "lesser": ((), _LESSER),
    "powf": ((), _library("powf", 2)),
    "sinf": ((), _library("sinf", 1)),
    "cosf": ((), _library("cosf", 1)),
}


def maths(names: Iterable[str]) -> str:
    """Return C++ text that defines functions and what they stand on, each once.

    Args:
        names: Functions wanted, such as "exponential"; all take and return float.

    Source: coefficients of exp and log from the Cephes library (expf, logf); of tanh and erf from
    Eigen (ptanh_float, perf_float). Their errors are held by the tests.
    """
    done: dict[str, str] = {}

    def add(name: str) -> None:
        if name not in done:
            needs, text = _TEXTS[name]
            for need in needs:
                add(need)
            done[name] = text

    for name in sorted(names):
        add(name)
    return "".join(done.values())


def choice_of_maths(names: Iterable[str]) -> bool:
    """Tell whether the macro LIBRARY_MATHS makes a difference to these functions."""
    wanted = list(names)
    return "LIBRARY_MATHS" in maths(wanted)
