"""Sketches of depthwise convolutions, alone and followed by a pointwise one."""

from __future__ import annotations

from archives.configuration import Space
from operators.sketches.cpp.depthwise_text import DEPTHWISE
from operators.sketches.cpp.gemm import GEMM, GEMM_CONFIGURATION, GEMM_SPACE
from operators.sketches.cpp.lanes import LANES_TEXT, defines
from operators.sketches.cpp.program import CppProgram, write_program
from operators.sketches.module import local_names
from operators.sketches.patterns.convolution import Convolution
from operators.sketches.patterns.separable import find_depthwise, find_separable
from operators.sketches.sketch import Sketch
from problems.graph import OperatorGraph
from problems.problem import Problem

__all__ = ["DEPTHWISE_ROWS", "DEPTHWISE_SEPARABLE"]

_SPACE: Space = {
    "LANES": (8, 16),
    "VECTORS": (1, 2, 4),
    "ROW_BLOCK": (1, 2, 4, 8),
    "STRIP_ROWS": (8, 16, 32, 64, 4096),
    "COPY_INPUT": (False, True),
}
_CONFIGURATION = {
    "LANES": 16,
    "VECTORS": 1,
    "ROW_BLOCK": 4,
    "STRIP_ROWS": 32,
    "COPY_INPUT": False,
}


def _values(found: Convolution) -> dict[str, int]:
    return {
        "BATCH": found.batch,
        "IC": found.channels[0],
        "OC": found.channels[1],
        "GROUPS": found.groups,
    } | found.windows.values()


def _pointer(names: dict[str, str], value: str | None) -> str:
    return f"{names[value]}.data_ptr()" if value else "None"


def _write_depthwise(problem: Problem, graph: OperatorGraph) -> str | None:
    found = find_depthwise(graph)
    names = local_names(problem, graph)
    if found is None or names is None:
        return None
    pointers = ", ".join(_pointer(names, v) for v in (found.x, found.weight, found.bias))
    program = CppProgram(
        summary="Depthwise convolution: a block of output rows shares each load of the input.",
        space=_SPACE,
        configuration=_CONFIGURATION,
        cpp="\n".join((defines(_values(found)), LANES_TEXT, DEPTHWISE)),
        functions={"depthwise": "pppp"},
        values=tuple(v for v in (found.x, found.weight, found.bias) if v),
        body=(
            f"out = torch.empty({found.shape})",
            f"KERNELS.depthwise({pointers}, out.data_ptr())",
            "return out",
        ),
    )
    return write_program(problem, graph, program)


_SEPARABLE = """
// One strip of rows at a time: all its channels, then the pointwise product over them.
constexpr i64 STRIP_FLOATS = (i64)OC * STRIP * OW;

static void pointwise(const float *middle, i64 row, i64 count, const float *weight,
                      const float *bias, float *scratch, float *y) {
  gemm<FullRange>(OUT_CHANNELS, count, OC, Matrix{weight, OC, 1}, Matrix{middle, row, 1}, y,
                  OUT_PLANE, scratch, 0, 0);
  for (int o = 0; bias && o < OUT_CHANNELS; ++o)
    for (i64 i = 0; i < count; ++i) y[o * OUT_PLANE + i] += bias[o];
}

extern "C" void separable(const float *x, const float *weight, const float *bias,
                          const float *point_weight, const float *point_bias, float *y) {
#pragma omp parallel
  {
    float *scratch = (float *)malloc(4 * (COPIED + STRIP_FLOATS + GEMM_SCRATCH + 64));
    float *middle = scratch + COPIED, *packed = middle + STRIP_FLOATS;
#pragma omp for schedule(static)
    for (i64 item = 0; item < (i64)BATCH * STRIPS; ++item) {
      i64 image = item / STRIPS;
      int first = item % STRIPS * STRIP, rows = lesser(STRIP, OH - first);
      for (i64 oc = 0; oc < OC; ++oc)
        strip(x + (image * IC + oc / MULTIPLIER) * IN_PLANE, weight + oc * KH * KW,
              bias ? bias[oc] : 0.0f, scratch, middle + oc * rows * OW, first, rows);
      pointwise(middle, rows * OW, rows * OW, point_weight, point_bias, packed,
                y + image * OUT_CHANNELS * OUT_PLANE + (i64)first * OW);
    }
    free(scratch);
  }
}

extern "C" void pointwise_all(const float *middle, const float *weight, const float *bias,
                              float *y) {
  i64 parts = ceil_div(omp_get_max_threads(), BATCH), step = ceil_div(OUT_PLANE, parts);
#pragma omp parallel
  {
    float *scratch = (float *)malloc(4 * GEMM_SCRATCH + 64);
#pragma omp for collapse(2) schedule(static)
    for (i64 image = 0; image < BATCH; ++image)
      for (i64 at = 0; at < OUT_PLANE; at += step)
        pointwise(middle + image * OC * OUT_PLANE + at, OUT_PLANE, lesser(step, OUT_PLANE - at),
                  weight, bias, scratch, y + image * OUT_CHANNELS * OUT_PLANE + at);
    free(scratch);
  }
}
"""


def _write_separable(problem: Problem, graph: OperatorGraph) -> str | None:
    found = find_separable(graph)
    names = local_names(problem, graph)
    if found is None or names is None:
        return None
    first, second = found.depthwise, found.pointwise
    values = _values(first) | {"OUT_CHANNELS": second.channels[1]}
    head = ", ".join(_pointer(names, v) for v in (first.x, first.weight, first.bias))
    tail = ", ".join(_pointer(names, v) for v in (second.weight, second.bias))
    state = (first.x, first.weight, first.bias, second.weight, second.bias)
    program = CppProgram(
        summary="Depthwise convolution of a strip of rows, then the pointwise one over the strip.",
        space={**_SPACE, **GEMM_SPACE, "STRIP_ROWS": (2, 4, 8, 16, 4096), "STAGED": (False, True)},
        configuration={
            **_CONFIGURATION,
            **GEMM_CONFIGURATION,
            "STRIP_ROWS": 8,
            "PACK_A": False,
            "PACK_B": False,
            "STAGED": False,
        },
        cpp="\n".join((defines(values), LANES_TEXT, DEPTHWISE, GEMM, _SEPARABLE)),
        functions={"depthwise": "pppp", "pointwise_all": "pppp", "separable": "pppppp"},
        values=tuple(v for v in state if v),
        body=(
            f"out = torch.empty({second.shape})",
            'if CONFIG["STAGED"]:',
            f"    middle = torch.empty({first.shape})",
            f"    KERNELS.depthwise({head}, middle.data_ptr())",
            f"    KERNELS.pointwise_all(middle.data_ptr(), {tail}, out.data_ptr())",
            "else:",
            f"    KERNELS.separable({head}, {tail}, out.data_ptr())",
            "return out",
        ),
    )
    return write_program(problem, graph, program)


DEPTHWISE_ROWS = Sketch(name="depthwise-rows", device="cpu", write=_write_depthwise)
DEPTHWISE_SEPARABLE = Sketch(name="depthwise-separable", device="cpu", write=_write_separable)
