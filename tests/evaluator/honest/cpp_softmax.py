"""Softmax in C++ with OpenMP."""

import ctypes
import hashlib
import os
import subprocess
import tempfile
from pathlib import Path

import torch
from torch import nn

CPP_SOURCE = r"""
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
        const float k = 1 / s;
        #pragma omp simd
        for (long i = 0; i < n; ++i) y[i] *= k;
    }
}
"""


def _load() -> ctypes.CDLL:
    flags = ["-O3", "-march=native", "-fopenmp", "-shared", "-fPIC", "-ffast-math", "-lmvec", "-lm"]
    name = hashlib.sha256((CPP_SOURCE + repr(flags)).encode()).hexdigest()[:16]
    folder = Path(os.environ.get("EVOKERNEL_BUILD_DIR", tempfile.gettempdir()))
    library = folder / f"{name}.so"
    if not library.exists():
        source = folder / f"{name}.cpp"
        source.write_text(CPP_SOURCE)
        command = ["g++", str(source), *flags, "-o", str(library)]
        subprocess.run(command, check=True, capture_output=True)
    return ctypes.CDLL(str(library))


_LIBRARY = _load()


class ModelNew(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        pointers = [ctypes.c_void_p(tensor.data_ptr()) for tensor in (x, out)]
        _LIBRARY.run(*pointers, ctypes.c_long(x.shape[0]), ctypes.c_long(x.shape[1]))
        return out
