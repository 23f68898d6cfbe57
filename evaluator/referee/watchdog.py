"""Kills a candidate's process before it takes the host's memory or disk.

Limits of the kernel's own count address space or single files; what fills memory through a tmpfs,
a memory file or many processes passes them. This thread adds up what the kernel says is resident.

A build folder is on disk: what it holds is added up, and files that are open and unlinked.

Covered: growth slower than about 1 GB per polling interval. Not covered: a burst within one
interval on a host that has not even that much left.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable
from pathlib import Path

from evaluator.processes import (
    descendants,
    folder_bytes,
    kill_tree,
    tree_memory_bytes,
    unlinked_bytes,
)

__all__ = ["MAX_FOLDER_BYTES", "Watchdog"]

MAX_FOLDER_BYTES = 512 << 20
"""What a build folder may hold."""

INTERVAL_S = 0.05
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class Watchdog:
    """A thread that exists while there is something to watch."""

    def __init__(self) -> None:
        self._limits: dict[int, int] = {}
        self._folders: dict[int, Path] = {}
        self._killed: set[int] = set()
        self._filled: set[int] = set()
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None

    def watch(self, pid: int, limit_bytes: int, folder: Path | None = None) -> None:
        """Kill a process and its descendants once they hold more than a limit.

        Args:
            pid: The process.
            limit_bytes: Memory that they may hold together.
            folder: Where it may write on disk, `MAX_FOLDER_BYTES` at most; None: nowhere.
        """
        with self._lock:
            self._killed.discard(pid)
            self._filled.discard(pid)
            self._limits[pid] = limit_bytes
            if folder is not None:
                self._folders[pid] = folder
            if self._thread is None:
                self._wake.clear()
                self._thread = threading.Thread(target=self._run, name="watchdog", daemon=True)
                self._thread.start()

    def forget(self, pid: int) -> None:
        """Stop watching a process that has ended."""
        with self._lock:
            self._limits.pop(pid, None)
            self._folders.pop(pid, None)

    def killed(self, pid: int) -> bool:
        """Tell whether a process was killed for its memory."""
        return pid in self._killed

    def filled(self, pid: int) -> bool:
        """Tell whether a process was killed for what it wrote to disk."""
        return pid in self._filled

    def close(self) -> None:
        """End the thread."""
        with self._lock:
            self._limits.clear()
            thread, self._thread = self._thread, None
        self._wake.set()
        if thread is not None:
            thread.join()

    def _run(self) -> None:
        while not self._wake.wait(INTERVAL_S):
            with self._lock:
                limits = list(self._limits.items())
            for pid, limit in limits:
                # Resident sets are cheap to read and count shared pages in full; only where they
                # pass the limit is the exact sum worth its walk over the page tables.
                members = descendants(pid)
                if _resident(members) > limit and tree_memory_bytes(pid) > limit:
                    self._killed.add(pid)
                    kill_tree(pid)
                folder = self._folders.get(pid)
                if folder is not None and _on_disk(folder, members) > MAX_FOLDER_BYTES:
                    self._filled.add(pid)
                    kill_tree(pid)


def _on_disk(folder: Path, pids: Iterable[int]) -> int:
    return folder_bytes(folder) + sum(unlinked_bytes(pid) for pid in pids)


def _resident(pids: Iterable[int]) -> int:
    total = 0
    for pid in pids:
        try:
            total += int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE_BYTES
        except (OSError, IndexError):
            continue
    return total
