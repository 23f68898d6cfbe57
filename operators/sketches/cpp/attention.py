"""Sketch of attention: a block of queries at a time, scores kept in cache."""

from __future__ import annotations

from operators.sketches.cpp.gemm import GEMM, GEMM_CONFIGURATION, GEMM_SPACE
from operators.sketches.cpp.lanes import LANES_TEXT, defines
from operators.sketches.cpp.program import CppProgram, write_program
from operators.sketches.module import local_names
from operators.sketches.patterns.attention import Attention, find_attention
from operators.sketches.sketch import Sketch
from problems.graph import OperatorGraph
from problems.problem import Problem

__all__ = ["BLOCKED_ATTENTION"]


_ATTENTION = """
extern "C" __attribute__((simd("notinbranch"))) float expf(float);

// How many keys a query sees.
static inline int seen(i64 query) {
  i64 count = query + REACH + 1;
  return count < 0 ? 0 : count < KEYS ? (int)count : KEYS;
}

static void softmax_row(float *row, int count) {
  float largest = -__builtin_inff(), sum = 0.0f;
#pragma omp simd reduction(max : largest)
  for (int j = 0; j < count; ++j) largest = row[j] > largest ? row[j] : largest;
  if (SAFE && largest == -__builtin_inff()) {
    bool empty = true;
    for (int j = 0; j < count; ++j) empty &= row[j] == largest;
    for (int j = 0; j < KEYS && empty; ++j) row[j] = 0.0f;
    if (empty) return;
  }
#pragma omp simd reduction(+ : sum)
  for (int j = 0; j < count; ++j) {
    row[j] = expf(row[j] - largest);
    sum += row[j];
  }
  for (int j = 0; j < count; ++j) row[j] = row[j] / sum;
  for (int j = count; j < KEYS; ++j) row[j] = count || SAFE ? 0.0f : __builtin_nanf("");
}

static void scores_block(const float *q, const float *k, i64 batch, i64 first, i64 rows,
                         float *scratch, float *scores) {
  Matrix left{q + batch * Q_BATCH + first * Q_ROW, Q_ROW, Q_COLUMN};
  Matrix right{k + batch * K_BATCH, K_ROW, K_COLUMN};
  gemm<FullRange>(rows, KEYS, DEPTH, left, right, scores, KEYS, scratch, 0, 0);
  for (i64 i = 0; i < rows * KEYS; ++i) scores[i] = scores[i] * SCALE;
}

static void values_block(const float *scores, const float *v, i64 batch, i64 first, i64 rows,
                         float *scratch, float *out) {
  Matrix left{scores, KEYS, 1}, right{v + batch * V_BATCH, V_ROW, V_COLUMN};
  gemm<FullRange>(rows, WIDE, KEYS, left, right, out + (batch * QUERIES + first) * WIDE, WIDE,
                  scratch, 0, 0);
}

template <class Block>
static void for_each_block(i64 floats, Block block) {
#pragma omp parallel
  {
    float *scratch = (float *)malloc(4 * (GEMM_SCRATCH + floats + 16));
#pragma omp for collapse(2) schedule(static)
    for (i64 batch = 0; batch < BATCH; ++batch)
      for (i64 first = 0; first < QUERIES; first += QUERY_BLOCK)
        block(batch, first, lesser(QUERY_BLOCK, QUERIES - first), scratch);
    free(scratch);
  }
}

extern "C" void attention(const float *q, const float *k, const float *v, float *out) {
  for_each_block((i64)QUERY_BLOCK * KEYS, [=](i64 batch, i64 first, i64 rows, float *scratch) {
    float *scores = scratch + GEMM_SCRATCH;
    scores_block(q, k, batch, first, rows, scratch, scores);
    for (i64 i = 0; i < rows; ++i) softmax_row(scores + i * KEYS, seen(first + i));
    values_block(scores, v, batch, first, rows, scratch, out);
  });
}

extern "C" void attention_scores(const float *q, const float *k, float *scores) {
  for_each_block(0, [=](i64 batch, i64 first, i64 rows, float *scratch) {
    scores_block(q, k, batch, first, rows, scratch, scores + (batch * QUERIES + first) * KEYS);
  });
}

extern "C" void attention_softmax(float *scores) {
#pragma omp parallel for schedule(static)
  for (i64 i = 0; i < (i64)BATCH * QUERIES; ++i)
    softmax_row(scores + i * KEYS, seen(i % QUERIES));
}

extern "C" void attention_values(const float *scores, const float *v, float *out) {
  for_each_block(0, [=](i64 batch, i64 first, i64 rows, float *scratch) {
    values_block(scores + (batch * QUERIES + first) * KEYS, v, batch, first, rows, scratch, out);
  });
}
"""


def _values(found: Attention) -> dict[str, int | float]:
    values: dict[str, int | float] = {
        "BATCH": found.q.shape[0],
        "QUERIES": found.q.shape[1],
        "DEPTH": found.q.shape[2],
        "KEYS": found.k.shape[2],
        "WIDE": found.v.shape[2],
        "SCALE": found.scale,
        "SAFE": int(found.safe),
        "REACH": found.reach,
    }
    for letter, view in (("Q", found.q), ("K", found.k), ("V", found.v)):
        for axis, stride in zip(("BATCH", "ROW", "COLUMN"), view.stride, strict=True):
            values[f"{letter}_{axis}"] = stride
    return values


def _write(problem: Problem, graph: OperatorGraph) -> str | None:
    found = find_attention(problem, graph)
    names = local_names(problem, graph)
    if found is None or names is None or found.v.offset or found.q.offset or found.k.offset:
        return None
    q, k, v = (f"{names[view.value]}.data_ptr()" for view in (found.q, found.k, found.v))
    scores = (found.q.shape[0], found.q.shape[1], found.k.shape[2])
    program = CppProgram(
        summary="Attention for a block of queries at a time: scores, softmax and values in cache.",
        space={**GEMM_SPACE, "QUERY_BLOCK": (16, 32, 64, 128, 256), "STAGED": (False, True)},
        configuration={**GEMM_CONFIGURATION, "QUERY_BLOCK": 128, "PACK_A": False, "STAGED": False},
        cpp="\n".join((defines(_values(found)), LANES_TEXT, GEMM, _ATTENTION)),
        functions={
            "attention": "pppp",
            "attention_scores": "ppp",
            "attention_softmax": "p",
            "attention_values": "ppp",
        },
        values=tuple(dict.fromkeys(view.value for view in (found.q, found.k, found.v))),
        body=(
            f"out = torch.empty({found.shape})",
            'if CONFIG["STAGED"]:',
            f"    scores = torch.empty({scores})",
            f"    KERNELS.attention_scores({q}, {k}, scores.data_ptr())",
            "    KERNELS.attention_softmax(scores.data_ptr())",
            f"    KERNELS.attention_values(scores.data_ptr(), {v}, out.data_ptr())",
            "else:",
            f"    KERNELS.attention({q}, {k}, {v}, out.data_ptr())",
            "return out",
        ),
    )
    return write_program(problem, graph, program)


BLOCKED_ATTENTION = Sketch(name="blocked-attention", device="cpu", write=_write)
