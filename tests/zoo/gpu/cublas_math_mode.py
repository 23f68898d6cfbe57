"""Lets cuBLAS use TF32 by its own handle, below torch's switches.

problem: matmul
class: precision
verdict: WRONG_VALUE wrong_value
"""

import ctypes

import torch
from torch import nn

TF32 = 3


def library():
    torch.cuda.current_blas_handle()
    with open("/proc/self/maps") as maps:
        paths = [line.split()[-1] for line in maps if "/libcublas.so" in line]
    return ctypes.CDLL(paths[0])


class ModelNew(nn.Module):
    def forward(self, a, b):
        out = torch.empty_like(a)
        size = ctypes.c_int(len(a))
        handle = ctypes.c_void_p(torch.cuda.current_blas_handle())
        cublas = library()
        assert cublas.cublasSetMathMode(handle, TF32) == 0
        one, zero = ctypes.c_float(1), ctypes.c_float(0)
        left, right, target = (ctypes.c_void_p(t.data_ptr()) for t in (b, a, out))
        sizes, factors = (size, size, size), (ctypes.byref(one), ctypes.byref(zero))
        operands = (left, size, right, size, factors[1], target, size)
        assert cublas.cublasSgemm_v2(handle, 0, 0, *sizes, factors[0], *operands) == 0
        return out
