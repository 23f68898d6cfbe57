"""Both moments in one pass in C++.

problem: moments
verdict: OK
least: 2
"""

import torch
from torch import nn

LIBRARY = load(r"""
extern "C" void run(const float* in, float* mean, float* variance, long rows, long n) {
    for (long r = 0; r < rows; ++r) {
        const float* x = in + r * n;
        float s = 0, q = 0;
        for (long i = 0; i < n; ++i) s += x[i];
        const float m = s / n;
        for (long i = 0; i < n; ++i) q += (x[i] - m) * (x[i] - m);
        mean[r] = m;
        variance[r] = q / n;
    }
}
""")


class ModelNew(nn.Module):
    def forward(self, x):
        mean, variance = torch.empty(len(x)), torch.empty(len(x))
        LIBRARY.run(*pointers(x, mean, variance), *sizes(*x.shape))
        return mean, variance
