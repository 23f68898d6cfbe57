"""Adds by atomics, in whatever order.

problem: mean
verdict: OK
least: 0.65
"""

import torch
from torch import nn

LIBRARY = load(
    r"""
extern "C" void run(const float* in, float* out, long rows, long n) {
    for (long r = 0; r < rows; ++r) out[r] = 0;
    #pragma omp parallel for collapse(2)
    for (long r = 0; r < rows; ++r)
        for (long b = 0; b < n; b += 1024) {
            float s = 0;
            for (long i = b; i < b + 1024; ++i) s += in[r * n + i];
            #pragma omp atomic
            out[r] += s / n;
        }
}
""",
    "-fopenmp",
)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty(len(x))
        LIBRARY.run(*pointers(x, out), *sizes(*x.shape))
        return out
