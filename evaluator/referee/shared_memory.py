"""Memory files that referee and workers share.

A memory file has no name in any file system: it is passed as a descriptor at spawn. Its size is
sealed, so that no worker can cut it off under a reader's feet, and where the reference worker has
its mapping, new writers are sealed out: a candidate can map it private only.
"""

from __future__ import annotations

import fcntl
import mmap
import os

import numpy as np
from numpy.typing import NDArray

__all__ = ["SharedMemory"]

_SEAL_SIZE = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW
_SEAL_FUTURE_WRITE = 0x0010  # linux/fcntl.h; the fcntl module does not name it


class SharedMemory:
    """One memory file, and the referee's view of its bytes."""

    def __init__(self, name: str, size: int = 0) -> None:
        """Create it.

        Args:
            name: Shows in /proc/PID/maps as "/memfd:NAME".
            size: In bytes; 0: to be sized later by `resize`.
        """
        self.name = name
        self.descriptor = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        self.size = 0
        self._sealed = False
        self._map: mmap.mmap | None = None
        if size:
            self.resize(size)

    def resize(self, size: int) -> None:
        """Give an empty file its size, in bytes, for good."""
        assert self.size == 0, "a memory file is sized once"
        assert size > 0, "a memory file holds at least a byte"
        os.ftruncate(self.descriptor, size)
        fcntl.fcntl(self.descriptor, fcntl.F_ADD_SEALS, _SEAL_SIZE)
        self.size = size

    def seal_writers(self) -> None:
        """Let nobody map it writable from now on; present mappings stay."""
        self._seal(_SEAL_FUTURE_WRITE)

    def seal(self) -> None:
        """Let nobody add a seal from now on."""
        self._seal(0)

    def _seal(self, seals: int) -> None:
        if not self._sealed:
            fcntl.fcntl(self.descriptor, fcntl.F_ADD_SEALS, seals | fcntl.F_SEAL_SEAL)
            self._sealed = True

    @property
    def bytes(self) -> NDArray[np.uint8]:
        """A read-only view of the whole file."""
        if self._map is None:
            self._map = mmap.mmap(self.descriptor, self.size, prot=mmap.PROT_READ)
        return np.frombuffer(self._map, dtype=np.uint8)

    def close(self) -> None:
        """Give the descriptor back; the memory goes when the last view and process is gone."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1
        self._map = None
