"""Accumulates in float64: more exact than the reference.

problem: mean
verdict: OK
least: 0.5
"""

import torch
from torch import nn

LIBRARY = load(r"""
extern "C" void run(const float* in, float* out, long rows, long n) {
    for (long r = 0; r < rows; ++r) {
        double s = 0;
        for (long i = 0; i < n; ++i) s += in[r * n + i];
        out[r] = s / n;
    }
}
""")


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty(len(x))
        LIBRARY.run(*pointers(x, out), *sizes(*x.shape))
        return out
