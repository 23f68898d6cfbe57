"""The timing gate: one timed leg at a time on a host, whoever asks.

An advisory lock on a file in a folder that only this user can read. The kernel drops it when its
holder dies, so a killed actor never blocks the host.
"""

from __future__ import annotations

import fcntl
import os
import stat
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from problems.errors import EvaluatorError

__all__ = ["Gate", "runtime_folder"]


def runtime_folder() -> Path:
    """Return this user's private folder for locks and scratch, made where missing.

    Raises:
        EvaluatorError: The folder belongs to somebody else or is open to others.
    """
    base = os.environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir()
    folder = Path(base) / f"evokernel-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    facts = folder.lstat()
    if facts.st_uid != os.getuid() or not stat.S_ISDIR(facts.st_mode) or facts.st_mode & 0o077:
        raise EvaluatorError(
            f"the runtime folder {folder} must be a folder of user {os.getuid()} with mode 700: "
            "remove it, or name another place in XDG_RUNTIME_DIR"
        )
    return folder


class Gate:
    """Exclusive right to time on this host's device.

    Held by one thread of one process at a time. Not reentrant.
    """

    def __init__(self, device: str = "cpu", folder: Path | None = None) -> None:
        """Name the gate.

        Args:
            device: Which device it guards.
            folder: Where its lock file lies; by default this user's runtime folder.
        """
        self._path = (folder or runtime_folder()) / f"timing-{device}.lock"
        self._thread = threading.Lock()

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Wait for the device, hold it for the block."""
        with self._thread:
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX)
                yield
            finally:
                os.close(descriptor)
