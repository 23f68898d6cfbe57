"""Computes in a thread of its own, which has ended when the call ends.

problem: sigmoid
verdict: OK
least: 1.1
"""

import torch
from torch import nn

LIBRARY = load(
    r"""
#include <math.h>
#include <thread>
static void work(const float* in, float* out, long n) {
    for (long i = 0; i < n; ++i) out[i] = 1 / (1 + expf(-in[i]));
}
extern "C" void run(const float* in, float* out, long n) {
    std::thread(work, in, out, n).join();
}
""",
    "-pthread",
)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        LIBRARY.run(*pointers(x, out), *sizes(x.numel()))
        return out
