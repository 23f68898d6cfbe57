"""C++ text of direct convolution, standard and transposed, over 1 to 3 dimensions.

Every output is gathered from its inputs. A transposed convolution with stride S falls into S
phases along each dimension, each a plain convolution with its own taps; a strided one reads an
input whose elements are sorted by their place modulo the stride. Both ways each load of the
innermost loop is contiguous: LANES neighbouring outputs, times OC_BLOCK output channels.

Source: Dumoulin and Visin, "A guide to convolution arithmetic for deep learning" (2016),
sections 2 and 4, for sizes and phases.
"""

from __future__ import annotations

__all__ = ["CONVOLUTION"]

CONVOLUTION = """
constexpr int STEP[3] = {TRANSPOSED ? 1 : SD, TRANSPOSED ? 1 : SH, TRANSPOSED ? 1 : SW};
constexpr int PHASES[3] = {TRANSPOSED ? SD : 1, TRANSPOSED ? SH : 1, TRANSPOSED ? SW : 1};
constexpr int STRIDE[3] = {SD, SH, SW}, TAPS[3] = {KD, KH, KW}, DILATION[3] = {DD, DH, DW};
constexpr int PAD[3] = {PD, PH, PW}, TAP_COUNT = KD * KH * KW;
constexpr i64 IN_PLANE = (i64)ID * IH * IW, OUT_PLANE = (i64)OD * OH * OW;
constexpr int IC_GROUP = IC / GROUPS, OC_GROUP = OC / GROUPS;
constexpr int BLOCKS = ceil_div(OC_GROUP, OC_BLOCK), GROUP_BLOCKS = GROUPS * BLOCKS;

// Tap k of phase r reads the input `shift` elements after the grid's position, if it is used.
constexpr int distance(int dim, int r, int k) { return r + PAD[dim] - k * DILATION[dim]; }
constexpr bool used(int dim, int r, int k) {
  return !TRANSPOSED || distance(dim, r, k) % STRIDE[dim] == 0;
}
constexpr int shift(int dim, int r, int k) {
  return TRANSPOSED ? distance(dim, r, k) / STRIDE[dim] : k * DILATION[dim] - PAD[dim];
}
constexpr int extreme(int dim, int sign) {
  int most = 0;
  for (int r = 0; r < PHASES[dim]; ++r)
    for (int k = 0; k < TAPS[dim]; ++k)
      if (used(dim, r, k) && sign * shift(dim, r, k) > most) most = sign * shift(dim, r, k);
  return most;
}
constexpr int LOW[3] = {extreme(0, -1), extreme(1, -1), extreme(2, -1)};
constexpr int GRID[3] = {(int)ceil_div(OD, PHASES[0]), (int)ceil_div(OH, PHASES[1]),
                         (int)ceil_div(OW, PHASES[2])};
constexpr int span(int dim) {
  return ceil_div(LOW[dim] + extreme(dim, 1) + (GRID[dim] - 1) * STEP[dim] + 1, STEP[dim]);
}
constexpr int QD = span(0), QH = span(1), QW = span(2);
constexpr bool AS_IS = LOW[0] + LOW[1] + LOW[2] == 0 && STEP[0] * STEP[1] * STEP[2] == 1 &&
                       QD == ID && QH == IH && QW == IW;

// Positions of the grid that follow one another in memory form a segment; tiles cut it.
constexpr int TILE = LANES * VECTORS;
constexpr int SEGMENTS = FLAT == 2 ? 1 : FLAT == 1 ? GRID[0] : GRID[0] * GRID[1];
constexpr int LENGTH = FLAT == 2   ? ((GRID[0] - 1) * QH + GRID[1] - 1) * QW + GRID[2]
                       : FLAT == 1 ? (GRID[1] - 1) * QW + GRID[2]
                                   : GRID[2];
constexpr int TILES = ceil_div(LENGTH, TILE);
constexpr bool COPY = COPY_INPUT || !AS_IS || LENGTH < TILE;
// An odd number of cache lines between channels spreads them over the sets of a cache.
constexpr i64 COPIED = ceil_div((i64)STEP[0] * STEP[1] * STEP[2] * QD * QH * QW, 16) / 2 * 32 + 16;
constexpr i64 PLANE = COPY ? COPIED : IN_PLANE;
constexpr i64 IMAGE = COPY ? IC * PLANE + TILE : 0;
constexpr i64 WEIGHTS = round_up((i64)GROUP_BLOCKS * IC_GROUP * TAP_COUNT * OC_BLOCK, 16);

struct Phase {
  int taps;
  i64 weights;  // where its packed weights begin
  int offset[TAP_COUNT], source[TAP_COUNT];
};
struct Plan {
  Phase phase[PHASES[0] * PHASES[1] * PHASES[2]];
};

static void add_tap(Phase &f, const int (&r)[3], const int (&k)[3]) {
  int at[3], part = 0, offset = 0;
  for (int dim = 0; dim < 3; ++dim) {
    if (!used(dim, r[dim], k[dim])) return;
    at[dim] = shift(dim, r[dim], k[dim]) + LOW[dim];
    part = part * STEP[dim] + at[dim] % STEP[dim];
  }
  offset = ((part * QD + at[0] / STEP[0]) * QH + at[1] / STEP[1]) * QW + at[2] / STEP[2];
  f.offset[f.taps] = offset;
  f.source[f.taps++] = (k[0] * KH + k[1]) * KW + k[2];
}

static void make_plan(Plan &plan) {
  i64 weights = 0;
  for (int index = 0; index < PHASES[0] * PHASES[1] * PHASES[2]; ++index) {
    Phase &f = plan.phase[index];
    f.taps = 0;
    f.weights = weights;
    int r[3] = {index / PHASES[2] / PHASES[1], index / PHASES[2] % PHASES[1], index % PHASES[2]};
    for (int tap = 0; tap < TAP_COUNT; ++tap) {
      int k[3] = {tap / KW / KH, tap / KW % KH, tap % KW};
      add_tap(f, r, k);
    }
    weights += (i64)GROUP_BLOCKS * IC_GROUP * f.taps * OC_BLOCK;
  }
}

// Weights in the order in which the kernel reads them: phase, block, input channel, tap, channel.
static void pack_weights(const Plan &plan, const float *weight, float *packed, int block) {
  int g = block / BLOCKS, first = block % BLOCKS * OC_BLOCK;
  for (const Phase &f : plan.phase) {
    float *to = packed + f.weights + (i64)block * IC_GROUP * f.taps * OC_BLOCK;
    for (int ic = 0; ic < IC_GROUP; ++ic)
      for (int t = 0; t < f.taps; ++t)
        for (int oc = first; oc < first + OC_BLOCK; ++oc) {
          i64 row = TRANSPOSED ? (i64)(g * IC_GROUP + ic) * OC_GROUP + oc
                               : (i64)(g * OC_GROUP + oc) * IC_GROUP + ic;
          *to++ = oc < OC_GROUP ? weight[row * TAP_COUNT + f.source[t]] : 0.0f;
        }
  }
}

// A row of the padded input: every STEP[2]-th element from `from` on, zeros outside.
static void copy_row(const float *row, int from, float *to) {
  int first = from < 0 ? ceil_div(-from, STEP[2]) : 0;
  int last = from < IW ? lesser(ceil_div(IW - from, STEP[2]), QW) : 0;
  if (first > QW) first = QW;
  for (int w = 0; w < first; ++w) to[w] = 0.0f;
  for (int w = first; w < last; ++w) to[w] = row[w * STEP[2] + from];
  for (int w = last > first ? last : first; w < QW; ++w) to[w] = 0.0f;
}

static void copy_channel(const float *x, float *to) {
  for (int part = 0; part < STEP[0] * STEP[1] * STEP[2]; ++part)
    for (int d = 0; d < QD; ++d)
      for (int h = 0; h < QH; ++h, to += QW) {
        int id = d * STEP[0] + part / STEP[2] / STEP[1] - LOW[0];
        int ih = h * STEP[1] + part / STEP[2] % STEP[1] - LOW[1];
        bool inside = id >= 0 && id < ID && ih >= 0 && ih < IH;
        int from = inside ? part % STEP[2] - LOW[2] : IW;
        copy_row(x + ((i64)id * IH + ih) * IW, from, to);
      }
}

template <int V>
static inline __attribute__((always_inline)) void accumulate(const float *x, const float *w,
                                                             const Phase &f,
                                                             vec (&acc)[OC_BLOCK][V]) {
  for (int ic = 0; ic < IC_GROUP; ++ic, x += PLANE)
    for (int t = 0; t < f.taps; ++t, w += OC_BLOCK) {
      vec in[V];
      for (int v = 0; v < V; ++v) in[v] = load(x + f.offset[t] + v * LANES);
#pragma GCC unroll 32
      for (int o = 0; o < OC_BLOCK; ++o)
#pragma GCC unroll 8
        for (int v = 0; v < V; ++v) acc[o][v] += in[v] * w[o];
    }
}

struct Place {
  int rd, rh;           // phase along depth and height
  int position, count;  // first position of the tile and how many of it count
  int channels;         // how many of the block's channels exist
};

// Rows of the grid go to rows of the output, phases of the last dimension side by side.
static void scatter(const float *tile, float *y, const Place &place) {
  constexpr int P = PHASES[2];
  for (int done = 0, run; done < place.count; done += run) {
    int at = place.position + done;
    int jw = at % QW, jh = at / QW % QH, jd = at / QW / QH;
    int od = jd * PHASES[0] + place.rd, oh = jh * PHASES[1] + place.rh;
    run = lesser(QW - jw, place.count - done);
    int keep = lesser(GRID[2] - jw, run);
    if (keep <= 0 || jd >= GRID[0] || jh >= GRID[1] || od >= OD || oh >= OH) continue;
    int whole = lesser((OW - jw * P) / P, keep);
    for (int o = 0; o < place.channels; ++o) {
      float *row = y + o * OUT_PLANE + ((i64)od * OH + oh) * OW + jw * P;
      const float *from = tile + o * TILE + done;
      for (int j = 0; j < whole; ++j)
        for (int r = 0; r < P; ++r) row[j * P + r] = from[r * OC_BLOCK * TILE + j];
      for (int j = whole; j < keep; ++j)
        for (int r = 0; (j + jw) * P + r < OW; ++r)
          row[j * P + r] = from[r * OC_BLOCK * TILE + j];
    }
  }
}

template <int V>
static __attribute__((noinline)) void tile_kernel(const Plan &plan, const float *x,
                                                  const float *packed, const float *bias, float *y,
                                                  int block, const Place &place) {
  constexpr int P = PHASES[2];
  float tile[P * OC_BLOCK * TILE];
  int jw = place.position % QW, jh = place.position / QW % QH, jd = place.position / QW / QH;
  bool straight = P == 1 && place.count == V * LANES && jw + place.count <= GRID[2] &&
                  place.channels == OC_BLOCK;
  for (int rw = 0; rw < P; ++rw) {
    const Phase &f = plan.phase[(place.rd * PHASES[1] + place.rh) * P + rw];
    vec acc[OC_BLOCK][V];
    for (int o = 0; o < OC_BLOCK; ++o)
      for (int v = 0; v < V; ++v)
        acc[o][v] = vec{} + (bias && o < place.channels ? bias[o] : 0.0f);
    const float *weights = packed + f.weights + (i64)block * IC_GROUP * f.taps * OC_BLOCK;
    accumulate<V>(x + place.position, weights, f, acc);
    int od = jd * PHASES[0] + place.rd, oh = jh * PHASES[1] + place.rh;
    if (straight && (od >= OD || oh >= OH)) return;
    float *row = straight ? y + ((i64)od * OH + oh) * OW + jw : tile + rw * OC_BLOCK * TILE;
    i64 stride = straight ? OUT_PLANE : TILE;
    for (int o = 0; o < OC_BLOCK; ++o)
      for (int v = 0; v < V; ++v) store(row + o * stride + v * LANES, acc[o][v]);
  }
  if (!straight) scatter(tile, y, place);
}

// The last tile of a segment needs fewer vectors.
template <int V>
static void dispatch(const Plan &plan, const float *x, const float *packed, const float *bias,
                     float *y, int block, const Place &place) {
  if constexpr (V > 1)
    if (place.count <= (V - 1) * LANES)
      return dispatch<V - 1>(plan, x, packed, bias, y, block, place);
  tile_kernel<V>(plan, x, packed, bias, y, block, place);
}

static void work_item(const Plan &plan, const float *x, const float *packed, const float *bias,
                      float *y, i64 index) {
  int block = SPACE_OUTER ? index % GROUP_BLOCKS : index / (SEGMENTS * TILES);
  int at = SPACE_OUTER ? index / GROUP_BLOCKS : index % (SEGMENTS * TILES);
  int segment = at / TILES, start = at % TILES * TILE;
  int count = lesser(LENGTH - start, TILE);
  // Where the input is read in place, the last tile steps back rather than read past the end.
  if (!COPY && count < TILE) start = LENGTH - TILE, count = TILE;
  int base = FLAT == 2   ? 0
             : FLAT == 1 ? segment * QH * QW
                         : (segment / GRID[1] * QH + segment % GRID[1]) * QW;
  int g = block / BLOCKS, oc = g * OC_GROUP + block % BLOCKS * OC_BLOCK;
  int channels = lesser(OC_GROUP - block % BLOCKS * OC_BLOCK, OC_BLOCK);
  for (int rd = 0; rd < PHASES[0]; ++rd)
    for (int rh = 0; rh < PHASES[1]; ++rh)
      dispatch<VECTORS>(plan, x + g * IC_GROUP * PLANE, packed, bias ? bias + oc : bias,
                        y + oc * OUT_PLANE, block, Place{rd, rh, base + start, count, channels});
}

// `work` holds the packed weights, then the padded images: all of them, or one at a time.
extern "C" void convolution_size(i64 *floats) {
  *floats = WEIGHTS + IMAGE * (STAGED ? BATCH : 1);
}

static void copy_image(const float *x, float *padded) {
#pragma omp for schedule(static)
  for (int c = 0; c < IC; ++c) copy_channel(x + c * IN_PLANE, padded + c * PLANE);
}

extern "C" void convolution_prepare(const float *x, const float *weight, float *work) {
  Plan plan;
  make_plan(plan);
#pragma omp parallel
  {
#pragma omp for schedule(static) nowait
    for (int b = 0; b < GROUP_BLOCKS; ++b) pack_weights(plan, weight, work, b);
    if (COPY && STAGED)
      for (int n = 0; n < BATCH; ++n)
        copy_image(x + n * IC * IN_PLANE, work + WEIGHTS + n * IMAGE);
  }
}

extern "C" void convolution(const float *x, const float *weight, const float *bias, float *work,
                            float *y) {
  if (!STAGED) convolution_prepare(x, weight, work);
  Plan plan;
  make_plan(plan);
#pragma omp parallel
  for (int n = 0; n < BATCH; ++n) {
    const float *image = x + n * IC * IN_PLANE;
    float *padded = work + WEIGHTS + (STAGED ? n * IMAGE : 0);
    if (COPY && !STAGED) copy_image(image, padded);
#pragma omp for schedule(static)
    for (i64 i = 0; i < (i64)GROUP_BLOCKS * SEGMENTS * TILES; ++i)
      work_item(plan, COPY ? padded : image, work, bias, y + n * OC * OUT_PLANE, i);
  }
}
"""
"""C++ text: `convolution`; needs the text of `lanes` and the geometry's `#define` lines."""
