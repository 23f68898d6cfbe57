"""The timing gate: one timed leg at a time on a device, whoever asks.

Advisory locks on files in a folder that only this user can read. The kernel drops them when their
holder dies, so a killed actor never blocks the host. Whoever times holds the device alone; what
may go on beside each other, such as checking on a GPU, shares it.
"""

from __future__ import annotations

import fcntl
import os
import stat
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from problems.errors import EvaluatorError

__all__ = ["Gate", "Share", "runtime_folder"]

IN_A_ROW_S = 1.0
"""How long threads of one process time one after the other before shares come: each change from one
to the other keeps the device waiting for the last of them (0.17 s on a GPU)."""


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
    """Exclusive right to time on this host's device, or a share in its use.

    Held alone by one thread of one process at a time, or shared by any number. Not reentrant.
    Threads of one process that wait to hold it alone hand it to each other for up to a second.
    """

    def __init__(self, device: str = "cpu", folder: Path | None = None) -> None:
        """Name the gate.

        Args:
            device: Which device it guards.
            folder: Where its lock file lies; by default this user's runtime folder.
        """
        folder = folder or runtime_folder()
        self._path = folder / f"timing-{device}.lock"
        # Whoever waits for the device holds the turn, so that shares cannot keep it for ever.
        self._turn_path = folder / f"turn-{device}.lock"
        self._changed = threading.Condition()
        self._waiting = 0
        self._is_held = False
        self._device = ExitStack()
        self._since_s: float | None = None

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Wait for the device, hold it for the block."""
        self._take()
        try:
            if self._since_s is None:
                self._device.enter_context(self._locked(fcntl.LOCK_EX))
                self._since_s = time.monotonic()
            yield
        finally:
            with self._changed:
                self._is_held = False
                self._hand_over()

    @contextmanager
    def shared(self) -> Iterator[None]:
        """Wait until nobody holds the device alone, and keep it so for the block."""
        with self._locked(fcntl.LOCK_SH):
            yield

    def _take(self) -> None:
        """Wait until no other thread of this process times."""
        with self._changed:
            self._waiting += 1
            try:
                self._changed.wait_for(lambda: not self._is_held)
                self._is_held = True
            finally:
                self._waiting -= 1
                if not self._is_held:
                    # Interrupted, just when it was this thread's turn.
                    self._hand_over()

    def _hand_over(self) -> None:
        """Let the next thread have the device; give it back where time is over or none waits."""
        is_over = self._since_s is None or time.monotonic() - self._since_s >= IN_A_ROW_S
        if is_over or not self._waiting:
            self._since_s = None
            self._device.close()
        self._changed.notify()

    @contextmanager
    def _locked(self, kind: int) -> Iterator[None]:
        with ExitStack() as held:
            with _open(self._turn_path) as turn:
                fcntl.flock(turn, fcntl.LOCK_EX)
                descriptor = held.enter_context(_open(self._path))
                fcntl.flock(descriptor, kind)
            yield


class Share:
    """A share in a gate for pieces of work in a row, kept from one to the next for a while.

    Each share that is asked for waits for whoever times just then, which takes longer than a short
    piece of work. To be used by one thread, which asks for no other share meanwhile.
    """

    def __init__(self, gate: Gate, longest_s: float) -> None:
        """Prepare it.

        Args:
            gate: Whose share.
            longest_s: After how long, in seconds, it is given back behind a piece of work; 0: at
                once.
        """
        self._gate = gate
        self._longest_s = longest_s
        self._held = ExitStack()
        self._until: float | None = None

    def __enter__(self) -> Share:
        return self

    def __exit__(self, *_: object) -> None:
        self.give_back()

    @contextmanager
    def piece(self) -> Iterator[None]:
        """Hold the share for the block, and after it, as long as the time is not over."""
        if self._until is None:
            self._held.enter_context(self._gate.shared())
            self._until = time.monotonic() + self._longest_s
        yield
        if time.monotonic() >= self._until:
            self.give_back()

    def give_back(self) -> None:
        """Give the share back before what takes long; the next piece of work takes another one."""
        self._until = None
        self._held.close()


@contextmanager
def _open(path: Path) -> Iterator[int]:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
