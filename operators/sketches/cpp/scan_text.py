"""C++ text of scans: along contiguous rows, and across many rows or columns at once.

Carries are doubles: torch's own float32 scans on a CPU carry doubles too.

Source: Hillis and Steele, "Data Parallel Algorithms", CACM 29 (1986), for the prefix in log steps.
"""

from __future__ import annotations

__all__ = ["COLUMN_SCAN", "ROW_SCAN"]

_SHARED = """
typedef double wide __attribute__((vector_size(8 * LANES)));
typedef unsigned char bytes __attribute__((vector_size(LANES), aligned(1), may_alias));
constexpr float NEUTRAL = PRODUCT ? 1.0f : 0.0f;

#define combine(a, b) (PRODUCT ? (a) * (b) : (a) + (b))

static inline vec load_input(const float *x, const void *mask, i64 at) {
  if (MASKED == 0 || !mask) return load(x + at);
  if (MASKED == 2) return load(x + at) * load((const float *)mask + at);
  return load(x + at) * __builtin_convertvector(*(const bytes *)((const char *)mask + at), vec);
}

static inline float load_one(const float *x, const void *mask, i64 at) {
  if (MASKED == 0 || !mask) return x[at];
  return x[at] * (MASKED == 2 ? ((const float *)mask)[at] : ((const unsigned char *)mask)[at]);
}

extern "C" void select(const float *x, const void *mask, float *y) {
#pragma omp parallel for schedule(static)
  for (i64 i = 0; i < (i64)OUTER * LENGTH * INNER; ++i) y[i] = load_one(x, mask, i);
}
"""

ROW_SCAN = (
    _SHARED
    + """
typedef int index_vec __attribute__((vector_size(4 * LANES)));
typedef i64 index_wide __attribute__((vector_size(8 * LANES)));
constexpr int STEP = LANES * BLOCKS;

// Lanes moved by `by` in the direction of the scan, neutral elements coming in.
template <int BY, class V, class Index>
static inline V moved(V value) {
  Index from;
  for (int l = 0; l < LANES; ++l) {
    int source = REVERSE ? l + BY : l - BY;
    from[l] = source >= 0 && source < LANES ? source : LANES + l;
  }
  return __builtin_shuffle(value, V{} + NEUTRAL, from);
}

template <class V, class Index>
static inline V prefix(V value) {
  value = combine(value, (moved<1, V, Index>(value)));
  if (LANES > 2) value = combine(value, (moved<2, V, Index>(value)));
  if (LANES > 4) value = combine(value, (moved<4, V, Index>(value)));
  if (LANES > 8) value = combine(value, (moved<8, V, Index>(value)));
  return value;
}

// The outputs of one register; the carry is left as the next register needs it.
static inline vec scanned(vec value, double &carry) {
  constexpr int LAST = REVERSE ? 0 : LANES - 1;
  const double before = carry;
  if (PRODUCT) {
    // A product of floats may leave their range where that of doubles does not, and the roundings
    // of a long one add up.
    wide sums = prefix<wide, index_wide>(__builtin_convertvector(value, wide));
    carry = before * sums[LAST];
    if (EXCLUSIVE) sums = moved<1, wide, index_wide>(sums);
    return __builtin_convertvector(sums * before, vec);
  }
  vec sums = prefix<vec, index_vec>(value);
  carry = before + sums[LAST];
  if (EXCLUSIVE) sums = moved<1, vec, index_vec>(sums);
  return sums + (float)before;
}

static inline void one_element(const float *x, const void *mask, float *y, i64 at, double &carry) {
  double next = combine(carry, load_one(x, mask, at));
  y[at] = EXCLUSIVE ? carry : next;
  carry = next;
}

// R rows side by side hide the latency of each one's carry.
template <int R>
static inline void rows(const float *x, const void *mask, float *y, i64 row) {
  double carry[R];
  for (int r = 0; r < R; ++r) carry[r] = NEUTRAL;
  i64 done = 0;
  if (IN_REGISTERS)
    for (; done + STEP <= LENGTH; done += STEP)
      for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
        for (int b = 0; b < BLOCKS; ++b) {
          i64 along = done + b * LANES;
          i64 at = (row + r) * LENGTH + (REVERSE ? LENGTH - along - LANES : along);
          store(y + at, scanned(load_input(x, mask, at), carry[r]));
        }
  for (; done < LENGTH; ++done)
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r)
      one_element(x, mask, y, (row + r) * LENGTH + (REVERSE ? LENGTH - 1 - done : done), carry[r]);
}

extern "C" void scan(const float *x, const void *mask, float *y) {
#pragma omp parallel for schedule(static)
  for (i64 row = 0; row < OUTER; row += ROWS) {
    if (row + ROWS <= OUTER) rows<ROWS>(x, mask, y, row);
    else
      for (i64 r = row; r < OUTER; ++r) rows<1>(x, mask, y, r);
  }
}
"""
)
"""C++ text: `scan` along contiguous rows (INNER is 1); needs the text of `lanes`."""

COLUMN_SCAN = (
    _SHARED
    + """
constexpr int STEP = LANES * VECTORS;

// Neighbouring columns in the lanes of a register; `count` of them exist.
static void columns(const float *x, const void *mask, float *y, i64 at) {
  wide carry[VECTORS];
  for (int v = 0; v < VECTORS; ++v) carry[v] = wide{} + (double)NEUTRAL;
  for (i64 k = 0; k < LENGTH; ++k) {
    i64 row = at + (REVERSE ? LENGTH - 1 - k : k) * INNER;
    for (int v = 0; v < VECTORS; ++v) {
      vec value = load_input(x, mask, row + v * LANES);
      wide next = combine(carry[v], __builtin_convertvector(value, wide));
      store(y + row + v * LANES, __builtin_convertvector(EXCLUSIVE ? carry[v] : next, vec));
      carry[v] = next;
    }
  }
}

// Up to STEP sequences, `apart` from one another, elements `stride` apart: a chunk of each is
// turned into columns, scanned in lanes, and turned back.
static void turned(const float *x, const void *mask, float *y, i64 at, int count, i64 apart,
                   i64 stride) {
  float tile[CHUNK][STEP] = {};
  wide carry[VECTORS];
  for (int v = 0; v < VECTORS; ++v) carry[v] = wide{} + (double)NEUTRAL;
  for (i64 done = 0; done < LENGTH; done += CHUNK) {
    i64 chunk = lesser(CHUNK, LENGTH - done);
    i64 start = at + (REVERSE ? LENGTH - 1 - done : done) * stride;
    i64 step = REVERSE ? -stride : stride;
    for (int s = 0; s < count; ++s)
      for (i64 k = 0; k < chunk; ++k) tile[k][s] = load_one(x, mask, start + s * apart + k * step);
    for (i64 k = 0; k < chunk; ++k)
      for (int v = 0; v < VECTORS; ++v) {
        float *lane = tile[k] + v * LANES;
        wide next = combine(carry[v], __builtin_convertvector(load(lane), wide));
        store(lane, __builtin_convertvector(EXCLUSIVE ? carry[v] : next, vec));
        carry[v] = next;
      }
    for (int s = 0; s < count; ++s)
      for (i64 k = 0; k < chunk; ++k) y[start + s * apart + k * step] = tile[k][s];
  }
}

extern "C" void scan(const float *x, const void *mask, float *y) {
  i64 lines = INNER > 1 ? INNER : OUTER, outer = INNER > 1 ? OUTER : 1;
  i64 groups = ceil_div(lines, STEP);
#pragma omp parallel for schedule(static)
  for (i64 index = 0; index < outer * groups; ++index) {
    i64 first = index % groups * STEP, base = index / groups * LENGTH * INNER;
    int count = lesser(STEP, lines - first);
    if (INNER == 1) turned(x, mask, y, first * LENGTH, count, LENGTH, 1);
    else if (count == STEP) columns(x, mask, y, base + first);
    else turned(x, mask, y, base + first, count, 1, INNER);
  }
}
"""
)
"""C++ text: `scan` over any dimension; needs the text of `lanes`."""
