"""C++ text for sketches that write their vectors out: types of LANES floats, and small maths.

`LANES` is a parameter of the program: 16 is one AVX-512 register or two of AVX2, 8 is one of AVX2.
"""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["LANES_TEXT", "defines"]

LANES_TEXT = """
typedef long long i64;
// `vec` is a register; `loose` is the same in memory, at any address.
typedef float vec __attribute__((vector_size(4 * LANES)));
typedef float loose __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
extern "C" void *malloc(unsigned long);
extern "C" void free(void *);
extern "C" int omp_get_max_threads();

constexpr i64 ceil_div(i64 a, i64 b) { return (a + b - 1) / b; }
constexpr i64 round_up(i64 a, i64 b) { return ceil_div(a, b) * b; }
constexpr i64 lesser(i64 a, i64 b) { return a < b ? a : b; }
static inline vec load(const float *from) { return *(const loose *)from; }
static inline void store(float *to, vec value) { *(loose *)to = value; }
"""


def defines(values: Mapping[str, int | float]) -> str:
    """Return `#define` lines, numbers of type float with the suffix that C++ wants."""
    return "\n".join(
        f"#define {name} {value!r}{'f' if isinstance(value, float) else ''}"
        for name, value in values.items()
    )
