"""Sketch of attention: a block of queries at a time, scores kept in cache."""

from __future__ import annotations

from dataclasses import dataclass

from operators.sketches.gemm import GEMM, GEMM_CONFIGURATION, GEMM_SPACE
from operators.sketches.lanes import LANES_TEXT, defines
from operators.sketches.module import Program, local_names, write_module
from operators.sketches.operands import Operand, computing, is_result, operand, producer
from operators.sketches.sketch import Sketch
from problems.graph import OperatorGraph, TensorSpec
from problems.problem import Problem

__all__ = ["BLOCKED_ATTENTION", "Attention", "find_attention"]

_SOFTMAX = ("aten._softmax.default", "aten._safe_softmax.default")


@dataclass(frozen=True, slots=True, kw_only=True)
class Attention:
    """softmax(scale * Q K^T) V over a batch of heads.

    Attributes:
        q: Queries, shape (batch, L, D).
        k: Keys as they are multiplied, shape (batch, D, S).
        v: Values, shape (batch, S, E).
        scale: Factor of the scores.
        safe: Whether a row without any finite score gives zeros, rather than NaN.
        shape: Shape of the output.
    """

    q: Operand
    k: Operand
    v: Operand
    scale: float
    safe: bool
    shape: tuple[int, ...]


def find_attention(graph: OperatorGraph) -> Attention | None:
    """Return the attention that the whole graph is, or None.

    Two batched products with a softmax over the last dimension between them; queries, keys or
    scores may be scaled by numbers.
    """
    nodes = computing(graph)
    last = max(nodes, default=-1)
    if last < 0 or graph.nodes[last].op != "aten.bmm.default" or not is_result(graph, last):
        return None
    weights, values = graph.nodes[last].inputs
    softmax = producer(graph, weights)
    if softmax is None or not _over_last(graph, softmax):
        return None
    scale, first, scalings = _unscaled(graph, graph.nodes[softmax].inputs[0])
    scores = producer(graph, first)
    if scores is None or graph.nodes[scores].op != "aten.bmm.default":
        return None
    query, key = (_scaled_operand(graph, value) for value in graph.nodes[scores].inputs)
    v = operand(graph, values)
    returned = graph.spec(graph.outputs[0])
    if query is None or key is None or v is None or not isinstance(returned, TensorSpec):
        return None
    if len(nodes) != 3 + scalings + query[2] + key[2]:
        return None
    return Attention(
        q=query[0],
        k=key[0],
        v=v,
        scale=scale * query[1] * key[1],
        safe="safe" in graph.nodes[softmax].op,
        shape=returned.shape,
    )


def _over_last(graph: OperatorGraph, index: int) -> bool:
    node = graph.nodes[index]
    rank = len(node.outputs[0].shape)
    return node.op in _SOFTMAX and int(node.arguments[1]) % rank == rank - 1


def _unscaled(graph: OperatorGraph, value: str) -> tuple[float, str, int]:
    """Follow a multiplication or division by a number: its factor, what it scales, how many."""
    index = producer(graph, value)
    if index is None:
        return 1.0, value, 0
    node = graph.nodes[index]
    numbers = [a for a in node.arguments[1:] if isinstance(a, int | float)]
    if len(node.inputs) != 1 or len(numbers) != 1:
        return 1.0, value, 0
    if node.op in ("aten.mul.Scalar", "aten.mul.Tensor"):
        return float(numbers[0]), node.inputs[0], 1
    if node.op in ("aten.div.Scalar", "aten.div.Tensor"):
        return 1.0 / numbers[0], node.inputs[0], 1
    return 1.0, value, 0


def _scaled_operand(graph: OperatorGraph, value: str) -> tuple[Operand, float, int] | None:
    """A view of an input that may be scaled on the way: the view, the factor, 1 if scaled."""
    factor, source, count = _unscaled(graph, value)
    view = operand(graph, source)
    spec = graph.spec(value)
    if view is None or not isinstance(spec, TensorSpec):
        return None
    index = producer(graph, value)
    if index is None:
        return view, factor, count
    # Scaling keeps the strides of a dense view, so views of its result are views of the input.
    if graph.nodes[index].outputs[0].stride != view.stride or view.offset or spec.offset:
        return None
    return (
        Operand(value=view.value, shape=spec.shape, stride=spec.stride, offset=0),
        factor,
        count,
    )


_ATTENTION = """
extern "C" __attribute__((simd("notinbranch"))) float expf(float);

static void softmax_row(float *row) {
  float largest = -__builtin_inff(), sum = 0.0f;
#pragma omp simd reduction(max : largest)
  for (int j = 0; j < KEYS; ++j) largest = row[j] > largest ? row[j] : largest;
  if (SAFE && largest == -__builtin_inff()) {
    bool empty = true;
    for (int j = 0; j < KEYS; ++j) empty &= row[j] == largest;
    for (int j = 0; j < KEYS && empty; ++j) row[j] = 0.0f;
    if (empty) return;
  }
#pragma omp simd reduction(+ : sum)
  for (int j = 0; j < KEYS; ++j) {
    row[j] = expf(row[j] - largest);
    sum += row[j];
  }
  for (int j = 0; j < KEYS; ++j) row[j] = row[j] / sum;
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
    for (i64 i = 0; i < rows; ++i) softmax_row(scores + i * KEYS);
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
  for (i64 i = 0; i < (i64)BATCH * QUERIES; ++i) softmax_row(scores + i * KEYS);
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
    }
    for letter, view in (("Q", found.q), ("K", found.k), ("V", found.v)):
        for axis, stride in zip(("BATCH", "ROW", "COLUMN"), view.stride, strict=True):
            values[f"{letter}_{axis}"] = stride
    return values


def _write(problem: Problem, graph: OperatorGraph) -> str | None:
    found = find_attention(graph)
    names = local_names(problem, graph)
    if found is None or names is None or found.v.offset or found.q.offset or found.k.offset:
        return None
    q, k, v = (f"{names[view.value]}.data_ptr()" for view in (found.q, found.k, found.v))
    scores = (found.q.shape[0], found.q.shape[1], found.k.shape[2])
    program = Program(
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
    return write_module(problem, graph, program)


BLOCKED_ATTENTION = Sketch(name="blocked-attention", device="cpu", write=_write)
