"""Small problems and candidates for the tests of the workers."""

from __future__ import annotations

__all__ = ["BATCH_NORM", "CPP_RELU", "CPP_SOFTMAX", "RELU", "SCALED", "SOFTMAX", "as_candidate"]

RELU = """
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x)


def get_inputs():
    return [torch.randn(64, 1000)]


def get_init_inputs():
    return []
"""

SOFTMAX = RELU.replace("torch.relu(x)", "torch.softmax(x, dim=1)")

BATCH_NORM = """
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.norm = nn.BatchNorm1d(features)

    def forward(self, x):
        return self.norm(x)


def get_inputs():
    return [torch.rand(32, 48)]


def get_init_inputs():
    return [48]
"""

SCALED = """
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x, factor):
        return x * factor, x.argmax(dim=1)


def get_inputs():
    return [torch.randn(16, 33), 3.5]


def get_init_inputs():
    return []
"""

_LOADER = """
import ctypes
import os
import subprocess

import torch
from torch import nn


def load(source):
    path = os.path.join(os.environ["EVOKERNEL_BUILD_DIR"], "kernel.so")
    if not os.path.exists(path):
        subprocess.run(
            ["g++", "-O3", "-march=native", "-mprefer-vector-width=256", "-fopenmp", "-shared",
             "-fPIC", "-x", "c++", "-", "-o", path],
            input=source, text=True, capture_output=True, check=True,
        )
    return ctypes.CDLL(path)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.kernel = load(CPP_SOURCE).kernel
        self.kernel.argtypes = [ctypes.c_void_p] * 2 + [ctypes.c_long] * 2

    def forward(self, x):
        y = torch.empty_like(x)
        self.kernel(x.data_ptr(), y.data_ptr(), x.shape[0], x.shape[1])
        return y
"""

CPP_RELU = (
    '''
CPP_SOURCE = """
extern "C" void kernel(const float *__restrict x, float *__restrict y, long rows, long cols) {
    #pragma omp parallel for
    for (long i = 0; i < rows * cols; ++i) y[i] = x[i] > 0 ? x[i] : 0;
}
"""
'''
    + _LOADER
)

CPP_SOFTMAX = (
    '''
CPP_SOURCE = """
extern "C" __attribute__((simd("notinbranch"))) float expf(float);
extern "C" void kernel(const float *__restrict x, float *__restrict y, long rows, long cols) {
    for (long r = 0; r < rows; ++r) {
        const float *a = x + r * cols;
        float *b = y + r * cols;
        float top = -1e30f, sum = 0;
        #pragma omp simd reduction(max:top)
        for (long i = 0; i < cols; ++i) top = a[i] > top ? a[i] : top;
        #pragma omp simd reduction(+:sum)
        for (long i = 0; i < cols; ++i) { b[i] = expf(a[i] - top); sum += b[i]; }
        #pragma omp simd
        for (long i = 0; i < cols; ++i) b[i] /= sum;
    }
}
"""
'''
    + _LOADER.replace('"-o", path]', '"-ffast-math", "-c", "-o", path]')
).replace('"-ffast-math", "-c", ', "")


def as_candidate(problem: str) -> str:
    """Return the problem's own model as a candidate: library calls only."""
    return problem.replace("class Model(", "class ModelNew(")
