"""A kernel by hand for problem 1/88: GELU with the tanh formula, in one pass.

Start a search from it with

    evokernel run --level 1 --problems 88 --seeds examples/kernels --generations 3

or judge it alone with

    evokernel eval --level 1 --id 88 examples/kernels/level1/88_MinGPTNewGelu.py

0.5 x (1 + tanh(u)) equals x / (1 + exp(-2 u)), so one exponential does. The file needs PyTorch
and g++ only. `TUNE_PARAMS` and `CONFIG` are optional: with them EvoKernel's operators can tune it.
"""

import ctypes
import hashlib
import os
import subprocess
import tempfile

import torch
from torch import nn

TUNE_PARAMS = {"BLOCK": [512, 2048, 8192, 32768], "VECTOR_BITS": [256, 512]}
CONFIG = {"BLOCK": 2048, "VECTOR_BITS": 512}

CPP_SOURCE = r"""
// No header: a compile takes a tenth of a second. libmvec has a vector form of expf.
extern "C" __attribute__((simd("notinbranch"))) float expf(float);

extern "C" void gelu(const float *x, float *y, long count) {
    #pragma omp parallel for schedule(static)
    for (long start = 0; start < count; start += BLOCK) {
        const long end = start + BLOCK < count ? start + BLOCK : count;
        #pragma omp simd
        for (long i = start; i < end; i++) {
            const float v = x[i];
            const float u = 0.79788456f * (v + 0.044715f * v * v * v);
            y[i] = v / (1.0f + expf(-2.0f * u));
        }
    }
}
"""

FLAGS = ["-O3", "-march=native", "-fPIC", "-shared", "-fopenmp", "-fno-math-errno"]


def build(source: str, config: dict[str, int]) -> ctypes.CDLL:
    """Compile the C++ text, unless it was before, and load it."""
    flags = [*FLAGS, f"-DBLOCK={config['BLOCK']}"]
    flags += [f"-mprefer-vector-width={config['VECTOR_BITS']}"]
    folder = os.environ.get("EVOKERNEL_BUILD_DIR") or tempfile.mkdtemp(prefix="gelu-")
    key = hashlib.sha256("\0".join([source, *flags]).encode()).hexdigest()
    path = os.path.join(folder, key[:32] + ".so")
    if not os.path.exists(path):
        command = ["g++", *flags, "-x", "c++", "-", "-o", path + ".new", "-lmvec", "-lm"]
        done = subprocess.run(  # noqa: S603 - a fixed command
            command, input=source, text=True, capture_output=True
        )
        if done.returncode:
            raise RuntimeError(f"g++ failed:\n{done.stderr}")
        os.replace(path + ".new", path)
    library = ctypes.CDLL(path)
    library.gelu.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_long]
    library.gelu.restype = None
    return library


KERNELS = build(CPP_SOURCE, CONFIG)


class ModelNew(nn.Module):
    """GELU of a float32 tensor of any shape on the CPU."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return gelu(x), element by element, in x's shape."""
        if x.dtype is not torch.float32 or x.device.type != "cpu":
            raise ValueError(f"expected a float32 tensor on the CPU, got {x.dtype} on {x.device}")
        x = x.contiguous()
        y = torch.empty_like(x)
        KERNELS.gelu(x.data_ptr(), y.data_ptr(), x.numel())
        return y
