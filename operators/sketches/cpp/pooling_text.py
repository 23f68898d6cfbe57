"""C++ text of maximum and average pooling over 1 to 3 dimensions, one pass per direction.

A window is separable: first along whole rows of the input (depth and height), which are contiguous,
then along the width, or the other way round. For the width, elements that share a residue modulo
the stride are laid side by side, so that neighbouring windows are neighbours in a vector.
"""

from __future__ import annotations

__all__ = ["POOLING"]

POOLING = """
constexpr float EMPTY = MAXIMUM ? -__builtin_inff() : 0.0f;
constexpr int STEP = LANES * VECTORS;
// A padded row: a part for each residue modulo SW, each long enough for whole vectors.
constexpr int ROW = round_up(OW + (KW - 1) * DW / SW, STEP) + STEP;
constexpr int COLUMNS = VERTICAL_FIRST ? IW : OW;                  // of what the first pass writes
constexpr i64 ROWS = VERTICAL_FIRST ? (i64)OD * OH : (i64)ID * IH;
constexpr i64 IN_PLANE = (i64)ID * IH * IW, OUT_PLANE = (i64)OD * OH * OW;

template <class T>
static inline T combine(T a, T b) {
#if MAXIMUM
  return (b > a) | (b != b) ? b : a;  // a NaN on either side stays
#else
  return a + b;
#endif
}

// The rows of `plane`, each `width` long, that the window of output row (od, oh) covers.
static inline int window(const float *plane, int width, int od, int oh, const float **rows) {
  int count = 0;
  for (int kd = 0; kd < KD; ++kd)
    for (int kh = 0; kh < KH; ++kh) {
      int d = od * SD + kd * DD - PD, h = oh * SH + kh * DH - PH;
      if (d >= 0 && d < ID && h >= 0 && h < IH) rows[count++] = plane + ((i64)d * IH + h) * width;
    }
  return count;
}

static inline void vertical(const float *const *rows, int count, int width, float *to) {
  int w = 0;
  for (; w + STEP <= width; w += STEP) {
    vec acc[VECTORS];
    for (int v = 0; v < VECTORS; ++v) acc[v] = vec{} + EMPTY;
    for (int r = 0; r < count; ++r)
      for (int v = 0; v < VECTORS; ++v)
        acc[v] = combine<vec>(acc[v], load(rows[r] + w + v * LANES));
    for (int v = 0; v < VECTORS; ++v) store(to + w + v * LANES, acc[v]);
  }
  for (; w < width; ++w) {
    float acc = EMPTY;
    for (int r = 0; r < count; ++r) acc = combine<float>(acc, rows[r][w]);
    to[w] = acc;
  }
}

static inline void spread(const float *x, float *to) {
  for (int part = 0; part < SW; ++part, to += ROW) {
    int from = part - PW;
    int first = from < 0 ? ceil_div(-from, SW) : 0;
    int last = from < IW ? lesser(ceil_div(IW - from, SW), ROW) : 0;
    for (int i = 0; i < first; ++i) to[i] = EMPTY;
    for (int i = first; i < last; ++i) to[i] = x[i * SW + from];
    for (int i = last > first ? last : first; i < ROW; ++i) to[i] = EMPTY;
  }
}

// Windows read where they are; most never leave the row.
constexpr bool WITHIN = PW == 0 && (OW - 1) * SW + (KW - 1) * DW < IW;
static inline void horizontal_in_place(const float *x, float *to) {
  for (int w = 0; w < OW; ++w) {
    float acc = EMPTY;
#pragma GCC unroll 16
    for (int k = 0; k < KW; ++k) {
      int i = w * SW - PW + k * DW;
      if (WITHIN || (i >= 0 && i < IW)) acc = combine<float>(acc, x[i]);
    }
    to[w] = acc;
  }
}

// Windows of 1, 2, 4, ... taps, each from two of the one before; the last two may overlap.
static inline int doubled(float *padded) {
  int taps = 1;
  for (; 2 * taps <= KW; taps *= 2)
    for (int w = 0; w + taps * DW < ROW; w += LANES)
      store(padded + w, combine<vec>(load(padded + w), load(padded + w + taps * DW)));
  return taps;
}

static inline void horizontal(const float *x, float *padded, float *to) {
  if (!SPREAD) return horizontal_in_place(x, to);
  spread(x, padded);
  int taps = DOUBLING ? doubled(padded) : 1;
  for (int w = 0; w < OW; w += STEP) {
    vec acc[VECTORS];
    for (int v = 0; v < VECTORS; ++v) acc[v] = vec{} + EMPTY;
#pragma GCC unroll 16
    for (int k = 0; k < (DOUBLING ? 1 : KW); ++k)
      for (int v = 0; v < VECTORS; ++v)
        acc[v] = combine<vec>(
            acc[v], load(padded + k * DW % SW * ROW + k * DW / SW + w + v * LANES));
    if (DOUBLING && taps < KW)
      for (int v = 0; v < VECTORS; ++v)
        acc[v] = combine<vec>(acc[v], load(padded + (KW - taps) * DW + w + v * LANES));
    for (int v = 0; v < VECTORS; ++v) {
      int at = w + v * LANES;
      if (at + LANES <= OW) store(to + at, acc[v]);
      else
        for (int l = 0; at + l < OW; ++l) to[at + l] = acc[v][l];
    }
  }
}

static inline int inside(int o, int stride, int kernel, int dilation, int pad, int size) {
  int count = 0;
  for (int k = 0; k < kernel; ++k) {
    int i = o * stride + k * dilation - pad;
    count += i >= 0 && i < size;
  }
  return count;
}

static inline void average(float *row, int od, int oh) {
  if (MAXIMUM) return;
  int rows = inside(od, SD, KD, DD, PD, ID) * inside(oh, SH, KH, DH, PH, IH);
  for (int w = 0; w < OW; ++w)
    row[w] = row[w] / (DIVISOR ? (float)DIVISOR : (float)(rows * inside(w, SW, KW, DW, PW, IW)));
}

static void first_pass(const float *x, float *padded, float *middle) {
  const float *rows[KD * KH];
  for (i64 r = 0; r < ROWS; ++r) {
    if (VERTICAL_FIRST)
      vertical(rows, window(x, IW, r / OH, r % OH, rows), IW, middle + r * IW);
    else
      horizontal(x + r * IW, padded, middle + r * OW);
  }
}

static void second_pass(const float *middle, float *padded, float *y) {
  const float *rows[KD * KH];
  for (int r = 0; r < OD * OH; ++r, y += OW) {
    if (VERTICAL_FIRST)
      horizontal(middle + (i64)r * IW, padded, y);
    else
      vertical(rows, window(middle, OW, r / OH, r % OH, rows), OW, y);
    average(y, r / OH, r % OH);
  }
}

static void row_by_row(const float *x, float *padded, float *middle, float *y) {
  const float *rows[KD * KH];
  for (int r = 0; r < OD * OH; ++r, y += OW) {
    int count = window(x, IW, r / OH, r % OH, rows);
    if (count != 1) vertical(rows, count, IW, middle);
    horizontal(count == 1 ? rows[0] : middle, padded, y);
    average(y, r / OH, r % OH);
  }
}

template <class Pass>
static void for_each_channel(i64 scratch, Pass pass) {
#pragma omp parallel
  {
    // Doubling reads up to one vector past a row's end.
    float *padded = (float *)malloc(4 * (SW * ROW + KW * DW + LANES + scratch));
    for (i64 i = 0; i < SW * ROW + KW * DW + LANES; ++i) padded[i] = EMPTY;
#pragma omp for schedule(static)
    for (i64 c = 0; c < CHANNELS; ++c) pass(c, padded, padded + SW * ROW + KW * DW + LANES);
    free(padded);
  }
}

extern "C" void pool(const float *x, float *y) {
  for_each_channel(VERTICAL_FIRST ? IW : ROWS * OW, [=](i64 c, float *padded, float *middle) {
    if (VERTICAL_FIRST) return row_by_row(x + c * IN_PLANE, padded, middle, y + c * OUT_PLANE);
    first_pass(x + c * IN_PLANE, padded, middle);
    second_pass(middle, padded, y + c * OUT_PLANE);
  });
}

extern "C" void pool_first(const float *x, float *middle) {
  for_each_channel(0, [=](i64 c, float *padded, float *) {
    first_pass(x + c * IN_PLANE, padded, middle + c * ROWS * COLUMNS);
  });
}

extern "C" void pool_second(const float *middle, float *y) {
  for_each_channel(0, [=](i64 c, float *padded, float *) {
    second_pass(middle + c * ROWS * COLUMNS, padded, y + c * OUT_PLANE);
  });
}
"""
"""C++ text: `pool`, or `pool_first` and `pool_second`; needs the text of `lanes`."""
