"""C++ text of a blocked matrix product, shared by several sketches.

The scheme of Goto and van de Geijn: blocks of both operands are packed in the order in which a
register-blocked kernel reads them. Operands have any strides, so transposes cost nothing.

Source: Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication", ACM TOMS 34
(2008), section 4.
"""

from __future__ import annotations

from archives.configuration import Space

__all__ = ["GEMM", "GEMM_CONFIGURATION", "GEMM_SPACE"]

GEMM_SPACE: Space = {
    "ROWS": (4, 6, 8, 12, 14),
    "VECTORS": (1, 2, 3, 4),
    "LANES": (8, 16),
    "BLOCK_M": (48, 96, 192, 384),
    "BLOCK_N": (96, 192, 384, 768),
    "BLOCK_K": (128, 256, 384, 512),
    "PACK_A": (False, True),
    "PACK_B": (False, True),
}
"""Parameters of the text: the register tile, the cache blocks, what is packed."""

GEMM_CONFIGURATION = {
    "ROWS": 8,
    "VECTORS": 3,
    "LANES": 16,
    "BLOCK_M": 192,
    "BLOCK_N": 384,
    "BLOCK_K": 384,
    "PACK_A": True,
    "PACK_B": True,
}
"""A good point for matrices that exceed the first cache."""

GEMM = """
struct Matrix {
  const float *data;
  i64 row, column;  // strides in elements
};

// The part of the inner dimension that a tile needs; all of it for full matrices.
struct FullRange {
  static i64 first(i64, i64) { return 0; }
  static i64 last(i64, i64, i64 k) { return k; }
};

constexpr int WIDTH = LANES * VECTORS;
constexpr int TILES_M = ceil_div(BLOCK_M, ROWS), TILES_N = ceil_div(BLOCK_N, WIDTH);
constexpr i64 PACKED_A = (i64)TILES_M * ROWS * BLOCK_K, PACKED_B = (i64)TILES_N * WIDTH * BLOCK_K;
constexpr i64 GEMM_SCRATCH = PACKED_A + PACKED_B;

// ROWS x WIDTH products of a column of A with a row of B, summed in registers over `depth`.
static inline void multiply(Matrix a, Matrix b, i64 depth, vec (&acc)[ROWS][VECTORS]) {
  for (int r = 0; r < ROWS; ++r)
    for (int v = 0; v < VECTORS; ++v) acc[r][v] = vec{};
  const float *pa = a.data, *pb = b.data;
  for (i64 k = 0; k < depth; ++k, pa += a.column, pb += b.row) {
    vec in[VECTORS];
    for (int v = 0; v < VECTORS; ++v) in[v] = load(pb + v * LANES);
#pragma GCC unroll 16
    for (int r = 0; r < ROWS; ++r)
#pragma GCC unroll 8
      for (int v = 0; v < VECTORS; ++v) acc[r][v] += in[v] * pa[r * a.row];
  }
}

static void write_tile(const vec (&acc)[ROWS][VECTORS], float *c, i64 c_row, i64 rows, i64 columns,
                       bool add) {
  if (rows >= ROWS && columns >= WIDTH) {
    for (int r = 0; r < ROWS; ++r)
      for (int v = 0; v < VECTORS; ++v) {
        float *to = c + r * c_row + v * LANES;
        store(to, add ? load(to) + acc[r][v] : acc[r][v]);
      }
    return;
  }
  float tile[ROWS][WIDTH];
  for (int r = 0; r < ROWS; ++r)
    for (int v = 0; v < VECTORS; ++v) store(tile[r] + v * LANES, acc[r][v]);
  for (i64 r = 0; r < lesser(rows, ROWS); ++r)
    for (i64 j = 0; j < lesser(columns, WIDTH); ++j)
      c[r * c_row + j] = add ? c[r * c_row + j] + tile[r][j] : tile[r][j];
}

// Panels of `side` rows (of A) or columns (of B), zeros beyond the edge.
static void pack(const float *from, i64 along, i64 depth_stride, i64 count, i64 depth, int side,
                 float *to) {
  for (i64 i = 0; i < count; i += side, to += side * depth) {
    i64 have = lesser(side, count - i);
    const float *panel = from + i * along;
    if (along == 1) {
      for (i64 k = 0; k < depth; ++k)
        for (i64 s = 0; s < have; ++s) to[k * side + s] = panel[s + k * depth_stride];
    } else if (depth_stride == 1) {
      for (i64 s = 0; s < have; ++s)
        for (i64 k = 0; k < depth; ++k) to[k * side + s] = panel[s * along + k];
    } else {
      for (i64 k = 0; k < depth; ++k)
        for (i64 s = 0; s < have; ++s) to[k * side + s] = panel[s * along + k * depth_stride];
    }
    for (i64 k = 0; k < depth && have < side; ++k)
      for (i64 s = have; s < side; ++s) to[k * side + s] = 0.0f;
  }
}

// C = A B for an m x n block whose top left element is (i_at, j_at) of the whole product.
template <class Range>
static __attribute__((noinline, noclone)) void gemm(i64 m, i64 n, i64 k, Matrix a, Matrix b,
                                                    float *c, i64 c_row, float *scratch, i64 i_at,
                                                    i64 j_at) {
  float *packed_a = scratch, *packed_b = scratch + PACKED_A;
  for (i64 j0 = 0; j0 < n; j0 += BLOCK_N)
    for (i64 k0 = 0; k0 < k; k0 += BLOCK_K) {
      i64 nb = lesser(BLOCK_N, n - j0), kb = lesser(BLOCK_K, k - k0);
      const float *b_block = b.data + k0 * b.row + j0 * b.column;
      bool straight_b = !PACK_B && b.column == 1;
      if (!straight_b || nb % WIDTH)
        pack(b_block, b.column, b.row, nb, kb, WIDTH, packed_b);
      for (i64 i0 = 0; i0 < m; i0 += BLOCK_M) {
        i64 mb = lesser(BLOCK_M, m - i0);
        const float *a_block = a.data + i0 * a.row + k0 * a.column;
        if (PACK_A || mb % ROWS) pack(a_block, a.row, a.column, mb, kb, ROWS, packed_a);
        for (i64 j = 0; j < nb; j += WIDTH)
          for (i64 i = 0; i < mb; i += ROWS) {
            i64 first = Range::first(i_at + i0 + i, j_at + j0 + j) - k0;
            i64 last = Range::last(i_at + i0 + i, j_at + j0 + j, k) - k0;
            first = first < 0 ? 0 : first;
            last = lesser(last, kb);
            if (first >= last && k0) continue;
            Matrix pa = PACK_A || i + ROWS > mb ? Matrix{packed_a + i * kb, 1, ROWS}
                                                : Matrix{a_block + i * a.row, a.row, a.column};
            Matrix pb = !straight_b || j + WIDTH > nb ? Matrix{packed_b + j * kb, WIDTH, 1}
                                                      : Matrix{b_block + j, b.row, 1};
            pa.data += first * pa.column;
            pb.data += first * pb.row;
            vec acc[ROWS][VECTORS];
            multiply(pa, pb, last - first, acc);
            write_tile(acc, c + (i0 + i) * c_row + j0 + j, c_row, mb - i, nb - j, k0 > 0);
          }
      }
    }
}
"""
"""C++ text: `gemm<Range>` over `Matrix`; needs the text of `lanes`."""
