"""Reads its input by whatever strides it has.

problem: turned
verdict: OK
least: 0.7

The problem's input is a transposed tensor; the referee lays every input out row by row, for the
reference and the candidate alike.
"""

import torch
from torch import nn

LIBRARY = load(
    r"""
extern "C" __attribute__((simd("notinbranch"))) float expf(float);
static inline void softmax(const float* x, long step, float* y, long n) {
    float m = x[0];
    #pragma omp simd reduction(max : m)
    for (long i = 0; i < n; ++i) m = x[i * step] > m ? x[i * step] : m;
    float s = 0;
    #pragma omp simd reduction(+ : s)
    for (long i = 0; i < n; ++i) s += y[i] = expf(x[i * step] - m);
    for (long i = 0; i < n; ++i) y[i] /= s;
}
extern "C" void run(const float* in, float* out, long rows, long n, long down, long right) {
    #pragma omp parallel for
    for (long r = 0; r < rows; ++r)
        if (right == 1) softmax(in + r * down, 1, out + r * n, n);
        else softmax(in + r * down, right, out + r * n, n);
}
""",
    "-fopenmp",
    "-lmvec",
    "-lm",
)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty(x.shape)
        LIBRARY.run(*pointers(x, out), *sizes(*x.shape, *x.stride()))
        return out
