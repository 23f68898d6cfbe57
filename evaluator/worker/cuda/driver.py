"""The device as workers see it: torch, and the few calls of CUDA's driver that torch lacks.

Memory that another process is to see is allocated by the driver itself, each piece on its own:
blocks of torch's caching allocator lie beside other tensors, which would be shared with them.
"""

from __future__ import annotations

import ctypes
from functools import cached_property
from typing import Any, Protocol

import torch

from archives.evaluation import Status
from evaluator.wire import ValueSpec
from evaluator.worker.failures import Failure
from evaluator.worker.tensors import torch_dtype

__all__ = ["HANDLE_BYTES", "Driver", "Event", "GpuDriver"]

HANDLE_BYTES = 64
_LAZY_PEER_ACCESS = 1
_LEAST_FLUSH_BYTES = 256 << 20


class Event(Protocol):
    """A point in the device's time."""

    def record(self) -> None:
        """Note the time when all work before it is done."""
        ...

    def elapsed_time(self, end: Any) -> float:  # noqa: ANN401 - an event of the same kind
        """Return the ms between two recorded events."""
        ...


class Driver(Protocol):
    """What workers ask of a device."""

    @property
    def device(self) -> torch.device:
        """Where tensors are."""
        ...

    def start(self) -> None:
        """Create this process's context."""
        ...

    def allocate(self, num_bytes: int) -> int:
        """Return the address of new memory that can be exported."""
        ...

    def release(self, address: int) -> None:
        """Give memory back that `allocate` returned."""
        ...

    def allocation(self, address: int) -> tuple[int, int]:
        """Return where the allocation around an address begins, and a number no other one has."""
        ...

    def export(self, base: int) -> str:
        """Return a handle by which other processes map the allocation that begins there."""
        ...

    def attach(self, handle: str) -> tuple[int, int]:
        """Map another process's allocation; return its address and its bytes."""
        ...

    def detach(self, address: int) -> None:
        """Unmap what `attach` returned."""
        ...

    def tensor(self, address: int, spec: ValueSpec) -> torch.Tensor:
        """Return a tensor of its own over memory at an address; the spec's offset is ignored."""
        ...

    def synchronize(self) -> None:
        """Wait for all work on the device that this process has given it."""
        ...

    def event(self) -> Event:
        """Return an event that keeps time."""
        ...

    def flush_buffer(self) -> torch.Tensor:
        """Return memory that fills the device's last-level cache when it is written."""
        ...

    def trim(self) -> None:
        """Give back memory that this process keeps but does not use."""
        ...

    @property
    def crowded(self) -> bool:
        """Whether other processes have much of the device's memory."""
        ...

    @property
    def memory(self) -> tuple[int, int]:
        """Bytes of the device's memory that nobody has, and all of it."""
        ...

    def register(self, address: int, num_bytes: int) -> int:
        """Let the device reach pages of this process's memory; return their address there."""
        ...

    def queue_wait(self, address: int, value: int) -> None:
        """Let the current stream wait until a 32-bit word of registered memory has a value."""
        ...

    def queue_write(self, address: int, value: int) -> None:
        """Let the current stream write a 32-bit word of registered memory, all before it done."""
        ...


class GpuDriver:
    """An NVIDIA GPU: the first one that this process sees."""

    device = torch.device("cuda", 0)

    def start(self) -> None:
        """Create the context; the process must have been forked before."""
        torch.zeros(1, device=self.device)

    def allocate(self, num_bytes: int) -> int:
        """Allocate memory that belongs to nothing else; see `Driver.allocate`."""
        address = ctypes.c_uint64()
        code = self._library.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(num_bytes))
        if code == _OUT_OF_MEMORY:
            torch.cuda.empty_cache()
            code = self._library.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(num_bytes))
        _check(code, f"allocating {num_bytes} bytes")
        return int(address.value)

    def release(self, address: int) -> None:
        """Free; see `Driver.release`."""
        _check(self._library.cuMemFree_v2(ctypes.c_uint64(address)), "freeing memory")

    def allocation(self, address: int) -> tuple[int, int]:
        """Look an allocation up; see `Driver.allocation`."""
        number = ctypes.c_uint64()
        code = self._library.cuPointerGetAttribute(
            ctypes.byref(number), _BUFFER_ID, ctypes.c_uint64(address)
        )
        _check(code, "looking an allocation up")
        return self._extent(address)[0], int(number.value)

    def export(self, base: int) -> str:
        """Export an allocation; see `Driver.export`."""
        handle = _Handle()
        code = self._library.cuIpcGetMemHandle(ctypes.byref(handle), ctypes.c_uint64(base))
        _check(code, "exporting memory")
        return bytes(handle.content).hex()

    def attach(self, handle: str) -> tuple[int, int]:
        """Open a handle; see `Driver.attach`."""
        content = bytes.fromhex(handle)
        if len(content) != HANDLE_BYTES:
            raise Failure(Status.RUNTIME_ERROR, "bad_handle", "a memory handle has 64 bytes")
        address = ctypes.c_uint64()
        code = self._library.cuIpcOpenMemHandle_v2(
            ctypes.byref(address), _Handle.from_buffer_copy(content), _LAZY_PEER_ACCESS
        )
        _check(code, "opening memory of another process")
        return int(address.value), self._extent(int(address.value))[1]

    def detach(self, address: int) -> None:
        """Close what was opened; see `Driver.detach`."""
        _check(self._library.cuIpcCloseMemHandle(ctypes.c_uint64(address)), "closing memory")

    def tensor(self, address: int, spec: ValueSpec) -> torch.Tensor:
        """Lay a tensor over device memory; see `Driver.tensor`."""
        dtype = torch_dtype(spec.dtype)
        if spec.numel == 0:
            return torch.empty(spec.shape, dtype=dtype, device=self.device)
        flat = torch.as_tensor(_Bytes(address, spec.num_bytes), device=self.device)
        return flat.view(dtype).as_strided(spec.shape, spec.stride)

    def synchronize(self) -> None:
        """Wait for the device; see `Driver.synchronize`."""
        torch.cuda.synchronize()

    def event(self) -> Event:
        """Make an event; see `Driver.event`."""
        return torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]  # torch types none of it

    def flush_buffer(self) -> torch.Tensor:
        """Allocate four times the last-level cache; see `Driver.flush_buffer`."""
        cache_bytes = torch.cuda.get_device_properties(self.device).L2_cache_size
        size = max(4 * cache_bytes, _LEAST_FLUSH_BYTES)
        return torch.empty(size, dtype=torch.uint8, device=self.device)

    def trim(self) -> None:
        """Empty torch's cache; see `Driver.trim`."""
        torch.cuda.empty_cache()

    @property
    def crowded(self) -> bool:
        """A quarter of the memory or more is not torch's here; see `Driver.crowded`."""
        free, total = self.memory
        others = total - free - torch.cuda.memory_reserved(self.device)
        return others > _CROWDED_SHARE * total

    @property
    def memory(self) -> tuple[int, int]:
        """Ask the driver; see `Driver.memory`."""
        return torch.cuda.mem_get_info(self.device)

    def register(self, address: int, num_bytes: int) -> int:
        """Pin and map pages; see `Driver.register`."""
        code = self._library.cuMemHostRegister_v2(
            ctypes.c_void_p(address), ctypes.c_size_t(num_bytes), _MAPPED
        )
        _check(code, "registering memory")
        found = ctypes.c_uint64()
        code = self._library.cuMemHostGetDevicePointer_v2(
            ctypes.byref(found), ctypes.c_void_p(address), 0
        )
        _check(code, "mapping registered memory")
        return int(found.value)

    def queue_wait(self, address: int, value: int) -> None:
        """Queue a wait; see `Driver.queue_wait`."""
        self._queue("cuStreamWaitValue32_v2", address, value, _EQUAL)

    def queue_write(self, address: int, value: int) -> None:
        """Queue a write; see `Driver.queue_write`."""
        self._queue("cuStreamWriteValue32_v2", address, value, 0)

    def _queue(self, name: str, address: int, value: int, flags: int) -> None:
        stream = torch.cuda.current_stream().cuda_stream
        code = getattr(self._library, name)(
            ctypes.c_void_p(stream), ctypes.c_uint64(address), ctypes.c_uint32(value), flags
        )
        _check(code, name)

    def _extent(self, address: int) -> tuple[int, int]:
        """Return where the allocation around an address begins, and its bytes."""
        base, size = ctypes.c_uint64(), ctypes.c_size_t()
        code = self._library.cuMemGetAddressRange_v2(
            ctypes.byref(base), ctypes.byref(size), ctypes.c_uint64(address)
        )
        _check(code, "looking an address up")
        return int(base.value), int(size.value)

    @cached_property
    def _library(self) -> ctypes.CDLL:
        library = ctypes.CDLL("libcuda.so.1")
        library.cuIpcOpenMemHandle_v2.argtypes = (ctypes.c_void_p, _Handle, ctypes.c_uint)
        return library


_CROWDED_SHARE = 0.25
_OUT_OF_MEMORY = 2
_BUFFER_ID = 7
_MAPPED, _EQUAL = 2, 1
"""CU_MEMHOSTREGISTER_DEVICEMAP and CU_STREAM_WAIT_VALUE_EQ."""


class _Handle(ctypes.Structure):
    _fields_ = (("content", ctypes.c_ubyte * HANDLE_BYTES),)


class _Bytes:
    """Device memory as torch takes it from other libraries."""

    def __init__(self, address: int, num_bytes: int) -> None:
        self.__cuda_array_interface__ = {
            "shape": (num_bytes,),
            "typestr": "|u1",
            "data": (address, False),
            "version": 2,
        }


def _check(code: int, doing: str) -> None:
    if code == _OUT_OF_MEMORY:
        raise Failure(Status.OUT_OF_MEMORY, "allocation_failed", f"{doing}: out of memory")
    if code:
        raise Failure(Status.RUNTIME_ERROR, "driver_error", f"{doing}: CUDA's error {code}")
