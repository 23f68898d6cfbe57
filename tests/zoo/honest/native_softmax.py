"""Softmax in C++ with OpenMP.

problem: softmax
verdict: OK
least: 0.6
"""

import torch
from torch import nn

LIBRARY = load(
    r"""
extern "C" __attribute__((simd("notinbranch"))) float expf(float);
extern "C" void run(const float* in, float* out, long rows, long n) {
    #pragma omp parallel for
    for (long r = 0; r < rows; ++r) {
        const float* x = in + r * n;
        float* y = out + r * n;
        float m = x[0];
        #pragma omp simd reduction(max : m)
        for (long i = 0; i < n; ++i) m = x[i] > m ? x[i] : m;
        float s = 0;
        #pragma omp simd reduction(+ : s)
        for (long i = 0; i < n; ++i) s += y[i] = expf(x[i] - m);
        for (long i = 0; i < n; ++i) y[i] /= s;
    }
}
""",
    "-fopenmp",
    "-lmvec",
    "-lm",
)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        LIBRARY.run(*pointers(x, out), *sizes(*x.shape))
        return out
