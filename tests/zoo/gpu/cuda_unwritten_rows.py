"""A kernel in CUDA C++, launched on one block less than it takes: the last rows stay unwritten.

problem: softmax
class: work
verdict: WRONG_VALUE wrong_value
"""

import ctypes
import os
import subprocess

import torch
from torch import nn

CODE = r"""
__device__ float over_warp(float value, bool is_sum) {
    for (int step = 16; step; step /= 2) {
        float other = __shfl_xor_sync(0xffffffff, value, step);
        value = is_sum ? value + other : fmaxf(value, other);
    }
    return value;
}

__global__ void softmax_rows(const float* in, float* out, int n) {
    const long row = (long)blockIdx.x * blockDim.y + threadIdx.y;
    const float* x = in + row * n;
    float largest = x[0], total = 0;
    for (int i = threadIdx.x; i < n; i += 32) largest = fmaxf(largest, x[i]);
    largest = over_warp(largest, false);
    for (int i = threadIdx.x; i < n; i += 32) total += expf(x[i] - largest);
    total = over_warp(total, true);
    for (int i = threadIdx.x; i < n; i += 32) out[row * n + i] = expf(x[i] - largest) / total;
}

extern "C" int run(const float* in, float* out, int rows, int n, void* stream) {
    softmax_rows<<<rows / 8 - 1, dim3(32, 8), 0, (cudaStream_t)stream>>>(in, out, n);
    return cudaGetLastError();
}
"""


def built():
    library = os.path.join(os.environ["EVOKERNEL_BUILD_DIR"], "rows.so")
    if not os.path.exists(library):
        source = library.replace(".so", ".cu")
        with open(source, "w") as file:
            file.write(CODE)
        major, minor = torch.cuda.get_device_capability()
        flags = ["-O3", "-shared", "-Xcompiler", "-fPIC", f"-arch=sm_{major}{minor}"]
        subprocess.run(["nvcc", *flags, source, "-o", library], check=True, capture_output=True)
    return ctypes.CDLL(library)


KERNELS = built()


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        addresses = [ctypes.c_void_p(tensor.data_ptr()) for tensor in (x, out)]
        code = KERNELS.run(*addresses, *x.shape, stream)
        if code:
            raise RuntimeError(f"CUDA error {code}")
        return out
