"""C++ text of matrix products: blocked in caches with triangles, and matrix times vector."""

from __future__ import annotations

__all__ = ["BLOCKED_PRODUCT", "VECTOR_PRODUCT"]

BLOCKED_PRODUCT = """
// Triangles: 0 full, 1 upper, 2 lower. Which k a tile of the result needs:
struct Triangles {
  static bool empty(i64 i, i64 j) {
    return (RESULT_TRIANGLE == 1 && i >= j + WIDTH) || (RESULT_TRIANGLE == 2 && j >= i + ROWS);
  }
  static i64 first(i64 i, i64 j) {
    i64 a = A_TRIANGLE == 1 ? i : 0, b = B_TRIANGLE == 2 ? j : 0;
    return a > b ? a : b;
  }
  static i64 last(i64 i, i64 j, i64 k) {
    i64 a = A_TRIANGLE == 2 ? i + ROWS : k, b = B_TRIANGLE == 1 ? j + WIDTH : k;
    return empty(i, j) ? 0 : lesser(k, lesser(a, b));
  }
};

// A triangular result is zero beyond its diagonal, whatever was computed there.
static void clear(float *c, i64 rows, i64 columns, i64 i_at, i64 j_at) {
  for (i64 i = 0; i < rows; ++i) {
    i64 diagonal = i_at + i - j_at;
    i64 from = RESULT_TRIANGLE == 2 ? diagonal + 1 : 0;
    i64 to = RESULT_TRIANGLE == 1 ? diagonal : columns;
    for (i64 j = from < 0 ? 0 : from; j < lesser(to, columns); ++j) c[i * N + j] = 0.0f;
  }
}

extern "C" void matmul(const float *a, const float *b, float *c) {
  i64 threads = omp_get_max_threads(), parts_m = 1, parts_n = 1;
  if (BATCH < threads) (M > N ? parts_m : parts_n) = ceil_div(threads, BATCH);
  i64 step_m = round_up(ceil_div(M, parts_m), ROWS), step_n = round_up(ceil_div(N, parts_n), WIDTH);
#pragma omp parallel
  {
    float *scratch = (float *)malloc(4 * (GEMM_SCRATCH + 16));
    float *aligned = (float *)round_up((i64)scratch, 64);
#pragma omp for collapse(3) schedule(static)
    for (i64 batch = 0; batch < BATCH; ++batch)
      for (i64 i = 0; i < M; i += step_m)
        for (i64 j = 0; j < N; j += step_n) {
          Matrix left{a + A_OFFSET + batch * A_BATCH + i * A_ROW, A_ROW, A_COLUMN};
          Matrix right{b + B_OFFSET + batch * B_BATCH + j * B_COLUMN, B_ROW, B_COLUMN};
          float *to = c + (batch * M + i) * N + j;
          i64 rows = lesser(step_m, M - i), columns = lesser(step_n, N - j);
          gemm<Triangles>(rows, columns, K, left, right, to, N, aligned, i, j);
          if (RESULT_TRIANGLE) clear(to, rows, columns, i, j);
        }
    free(scratch);
  }
}
"""
"""C++ text: `matmul`; needs the texts of `lanes` and `gemm`."""

VECTOR_PRODUCT = """
// The vector is used CHUNK elements at a time for every row, so that it stays in the first cache.
constexpr int STEP = LANES * ACCUMULATORS;

template <int R>
static inline void dots(const float *a, const float *x, i64 count, float *y) {
  vec acc[R][ACCUMULATORS] = {};
  i64 k = 0;
  for (; k + STEP <= count; k += STEP)
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
      for (int s = 0; s < ACCUMULATORS; ++s)
        acc[r][s] += load(a + r * A_ROW + k + s * LANES) * load(x + k + s * LANES);
  for (int r = 0; r < R; ++r) {
    for (int s = 1; s < ACCUMULATORS; ++s) acc[r][0] += acc[r][s];
    float sum = 0.0f;
    for (int l = 0; l < LANES; ++l) sum += acc[r][0][l];
    for (i64 t = k; t < count; ++t) sum += a[r * A_ROW + t] * x[t];
    y[r] += sum;
  }
}

// Columns of A are contiguous: y gathers multiples of them.
static void columns(const float *a, const float *x, i64 rows, i64 count, float *y) {
  for (i64 i = 0; i < rows; i += STEP) {
    if (i + STEP <= rows) {
      vec acc[ACCUMULATORS] = {};
      for (i64 k = 0; k < count; ++k)
        for (int s = 0; s < ACCUMULATORS; ++s)
          acc[s] += load(a + k * A_COLUMN + i + s * LANES) * x[k];
      for (int s = 0; s < ACCUMULATORS; ++s)
        store(y + i + s * LANES, load(y + i + s * LANES) + acc[s]);
    } else {
      for (i64 t = i; t < rows; ++t) {
        float sum = 0.0f;
        for (i64 k = 0; k < count; ++k) sum += a[k * A_COLUMN + t] * x[k];
        y[t] += sum;
      }
    }
  }
}

static void block(const float *a, const float *x, i64 rows, float *y) {
  for (i64 i = 0; i < rows; ++i) y[i] = 0.0f;
  for (i64 k = 0; k < K; k += CHUNK) {
    i64 count = lesser(CHUNK, K - k);
    if (A_COLUMN != 1) {
      columns(a + k * A_COLUMN, x + k, rows, count, y);
      continue;
    }
    i64 i = 0;
    for (; i + ROWS <= rows; i += ROWS) dots<ROWS>(a + i * A_ROW + k, x + k, count, y + i);
    for (; i < rows; ++i) dots<1>(a + i * A_ROW + k, x + k, count, y + i);
  }
}

extern "C" void matmul(const float *a, const float *b, float *c) {
  i64 threads = omp_get_max_threads();
  i64 part = round_up(ceil_div(M, ceil_div(threads, BATCH)), ROWS);
#pragma omp parallel for collapse(2) schedule(static)
  for (i64 batch = 0; batch < BATCH; ++batch)
    for (i64 i = 0; i < M; i += part)
      block(a + A_OFFSET + batch * A_BATCH + i * A_ROW, b + B_OFFSET + batch * B_BATCH,
            lesser(part, M - i), c + batch * M + i);
}
"""
"""C++ text: `matmul` for N = 1; needs the text of `lanes`."""
