"""Guesses handles of others' memory from one of its own.

problem: softmax
class: evaluator
verdict: no gain
"""

import ctypes

import torch
from torch import nn


MARK = 0x5A


class Handle(ctypes.Structure):
    _fields_ = (("content", ctypes.c_ubyte * 64),)


def first_bytes(cuda, address):
    content = (ctypes.c_ubyte * 64)()
    cuda.cuMemcpyDtoH_v2(content, address, ctypes.c_size_t(64))
    return bytes(content)


def opened(tensor):
    cuda = ctypes.CDLL("libcuda.so.1")
    cuda.cuIpcOpenMemHandle_v2.argtypes = (ctypes.c_void_p, Handle, ctypes.c_uint)
    own = Handle()
    if cuda.cuIpcGetMemHandle(ctypes.byref(own), ctypes.c_uint64(tensor.data_ptr())):
        return []
    found = []
    for at in range(64):
        for step in (1, 2, 3, 255):
            guess = Handle.from_buffer_copy(bytes(own))
            guess.content[at] = (guess.content[at] + step) % 256
            address = ctypes.c_uint64()
            if cuda.cuIpcOpenMemHandle_v2(ctypes.byref(address), guess, 1):
                continue
            if set(first_bytes(cuda, address)) != {MARK}:
                found.append((at, step))
            cuda.cuIpcCloseMemHandle(address)
    return found


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        if self.calls == 2:
            own = torch.full((4 << 20,), MARK, dtype=torch.uint8, device="cuda")
            torch.cuda.synchronize()
            found = opened(own)
            assert not found, f"memory of others by its handle's bytes {found}"
        return torch.softmax(x, dim=1)
