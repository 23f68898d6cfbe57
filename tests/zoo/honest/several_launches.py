"""Three kernels, one after the other.

problem: unfused
verdict: OK
least: 1
"""

import torch
from torch import nn

LIBRARY = load(
    r"""
extern "C" __attribute__((simd("notinbranch"))) float expf(float);
extern "C" void highest(const float* in, float* high, long rows, long n) {
    for (long r = 0; r < rows; ++r) {
        float m = in[r * n];
        for (long i = 0; i < n; ++i) m = in[r * n + i] > m ? in[r * n + i] : m;
        high[r] = m;
    }
}
extern "C" void exponentials(const float* in, const float* high, float* out, float* total, long rows, long n) {
    for (long r = 0; r < rows; ++r) {
        float s = 0;
        #pragma omp simd reduction(+ : s)
        for (long i = 0; i < n; ++i) s += out[r * n + i] = expf(in[r * n + i] - high[r]);
        total[r] = s;
    }
}
extern "C" void divide(float* out, const float* total, long rows, long n) {
    for (long r = 0; r < rows; ++r)
        for (long i = 0; i < n; ++i) out[r * n + i] /= total[r];
}
""",
    "-fopenmp",
    "-lmvec",
    "-lm",
)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        high, total = torch.empty(len(x)), torch.empty(len(x))
        size = sizes(*x.shape)
        LIBRARY.highest(*pointers(x, high), *size)
        LIBRARY.exponentials(*pointers(x, high, out, total), *size)
        LIBRARY.divide(*pointers(out, total), *size)
        return out
