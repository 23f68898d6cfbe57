"""The same with a thread that Python does not know.

problem: softmax
class: timing
verdict: WRONG_VALUE wrong_value | NON_DETERMINISTIC result_varies | WRONG_VALUE wrong_when_timed
"""

import collections

import torch
from torch import nn

LIBRARY = load(
    r"""
#include <math.h>
#include <thread>
static void work(const float* in, float* out, long rows, long n) {
    for (long r = 0; r < rows; ++r) {
        float s = 0;
        for (long i = 0; i < n; ++i) s += out[r * n + i] = expf(in[r * n + i]);
        for (long i = 0; i < n; ++i) out[r * n + i] /= s;
    }
}
extern "C" void run(const float* in, float* out, long rows, long n) {
    std::thread(work, in, out, rows, n).detach();
}
""",
    "-pthread",
)
KEPT = collections.deque(maxlen=64)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        KEPT.append((x, out))
        if len(KEPT) < 8:
            LIBRARY.run(*pointers(x, out), *sizes(*x.shape))
        return out
