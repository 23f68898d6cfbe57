"""C++ text of depthwise convolution over rows of an image, in strips of rows.

A block of ROWS x VECTORS output registers shares every load: an input row serves all output rows
whose windows cover it.
"""

from __future__ import annotations

__all__ = ["DEPTHWISE"]

DEPTHWISE = """
constexpr int TILE = LANES * VECTORS, MULTIPLIER = OC / GROUPS;
constexpr i64 IN_PLANE = (i64)IH * IW, OUT_PLANE = (i64)OH * OW;
constexpr bool COPY = COPY_INPUT || PH || PW || SW > 1 || OW < TILE;
constexpr int STRIP = STRIP_ROWS < OH ? STRIP_ROWS : OH, STRIPS = ceil_div(OH, STRIP);
// A copied row: a part for each residue modulo SW, so that neighbouring windows are neighbours.
constexpr int PART = round_up(OW, TILE) + (KW - 1) * DW / SW + 1;
constexpr i64 PITCH = COPY ? SW * PART : IW;
constexpr i64 COPIED = COPY ? ((i64)(STRIP - 1) * SH + (KH - 1) * DH + 1) * PITCH : 0;

// The padded rows that output rows from `first` on read.
static void copy_strip(const float *x, int first, int rows, float *to) {
  int count = (rows - 1) * SH + (KH - 1) * DH + 1;
  for (int i = 0; i < count; ++i)
    for (int part = 0; part < SW; ++part, to += PART) {
      int row = first * SH - PH + i, from = row >= 0 && row < IH ? part - PW : IW;
      int begin = from < 0 ? lesser(ceil_div(-from, SW), PART) : 0;
      int end = from < IW ? lesser(ceil_div(IW - from, SW), PART) : 0;
      const float *source = x + (i64)row * IW;
      for (int w = 0; w < begin; ++w) to[w] = 0.0f;
      for (int w = begin; w < end; ++w) to[w] = source[w * SW + from];
      for (int w = end > begin ? end : begin; w < PART; ++w) to[w] = 0.0f;
    }
}

template <int R>
static inline __attribute__((always_inline)) void block(const float *x, const float *weight,
                                                        float bias, float *y, int columns) {
  vec acc[R][VECTORS];
  for (int r = 0; r < R; ++r)
    for (int v = 0; v < VECTORS; ++v) acc[r][v] = vec{} + bias;
#pragma GCC unroll 64
  for (int i = 0; i <= (R - 1) * SH + (KH - 1) * DH; ++i)
#pragma GCC unroll 16
    for (int k = 0; k < KW; ++k) {
      vec in[VECTORS];
      for (int v = 0; v < VECTORS; ++v)
        in[v] = load(x + i * PITCH + k * DW % SW * PART + k * DW / SW + v * LANES);
#pragma GCC unroll 16
      for (int r = 0; r < R; ++r) {
        int tap = i - r * SH;
        if (tap < 0 || tap % DH || tap / DH >= KH) continue;
        for (int v = 0; v < VECTORS; ++v) acc[r][v] += in[v] * weight[tap / DH * KW + k];
      }
    }
  for (int r = 0; r < R; ++r)
    for (int v = 0; v < VECTORS; ++v) {
      float *to = y + (i64)r * OW + v * LANES;
      if (columns >= (v + 1) * LANES) store(to, acc[r][v]);
      else
        for (int l = 0; l < columns - v * LANES; ++l) to[l] = acc[r][v][l];
    }
}

template <int R>
static void row_block(const float *x, const float *weight, float bias, float *y) {
  for (int w = 0; w < OW; w += TILE) {
    // Where the input is read in place, the last tile steps back rather than read past a row.
    int at = !COPY && w + TILE > OW ? OW - TILE : w;
    block<R>(x + at, weight, bias, y + at, OW - at);
  }
}

// Output rows `first` to `first + rows` of one channel, written from `y` on.
static void strip(const float *x, const float *weight, float bias, float *scratch, float *y,
                  int first, int rows) {
  const float *from = x + (i64)first * SH * IW;
  if (COPY) {
    copy_strip(x, first, rows, scratch);
    from = scratch;
  }
  int r = 0;
  for (; r + ROW_BLOCK <= rows; r += ROW_BLOCK)
    row_block<ROW_BLOCK>(from + r * SH * PITCH, weight, bias, y + (i64)r * OW);
  for (; r < rows; ++r) row_block<1>(from + r * SH * PITCH, weight, bias, y + (i64)r * OW);
}

extern "C" void depthwise(const float *x, const float *weight, const float *bias, float *y) {
#pragma omp parallel
  {
    float *scratch = (float *)malloc(4 * COPIED + 64);
#pragma omp for schedule(static)
    for (i64 item = 0; item < (i64)BATCH * OC * STRIPS; ++item) {
      i64 channel = item / STRIPS, oc = channel % OC, image = channel / OC;
      int first = item % STRIPS * STRIP;
      strip(x + (image * IC + oc / MULTIPLIER) * IN_PLANE, weight + oc * KH * KW,
            bias ? bias[oc] : 0.0f, scratch, y + channel * OUT_PLANE + (i64)first * OW, first,
            lesser(STRIP, OH - first));
    }
    free(scratch);
  }
}
"""
"""C++ text: `depthwise`; needs the text of `lanes` and the geometry's `#define` lines."""
