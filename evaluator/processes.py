"""Facts about other processes, read from /proc: what a referee may believe without asking.

The kernel keeps these numbers, so a candidate cannot forge them. A process that ends while it is
read counts as gone, never as an error.
"""

from __future__ import annotations

import errno
import os
import secrets
import signal
import stat
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

__all__ = [
    "MappingFacts",
    "descendants",
    "folder_bytes",
    "is_halted",
    "kill_tree",
    "mapping_facts",
    "memory_bytes",
    "remove_folder",
    "thread_cpu_s",
    "tree_memory_bytes",
    "unlinked_bytes",
    "worker_environment",
]

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_PROC = Path("/proc")
_BEYOND_BYTES = 1 << 62
_IS_OWN = bytes(bool(flags & 0xC0) and not flags & 0x20 for flags in range(256))


@dataclass(frozen=True, slots=True, kw_only=True)
class MappingFacts:
    """What a process did with the mappings of one shared memory file.

    Attributes:
        ranges: Addresses that it has mapped: the first, and the one behind the last, of each.
        written_bytes: Bytes of private mappings that it has written to, whole pages: once
            written, a page stays its own, whatever is written afterwards.
    """

    ranges: tuple[tuple[int, int], ...]
    written_bytes: int

    @property
    def mapped_bytes(self) -> int:
        """Bytes that it has mapped."""
        return sum(end - start for start, end in self.ranges)


def worker_environment(*, path: str | None = None) -> dict[str, str]:
    """Return the whole environment that a zygote is started with.

    OpenMP and the allocator read theirs when a process starts, so forked workers inherit what
    the zygote began with: threads that wait without spinning, and pages that are kept rather
    than returned, without which page faults dominate kernels with big outputs.

    Args:
        path: The `PATH` on which workers find a compiler; None: this process's own.
    """
    return {
        "PATH": os.environ.get("PATH", os.defpath) if path is None else path,
        "HOME": "/nonexistent",
        "LANG": "C.UTF-8",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONHASHSEED": "0",
        "OMP_NUM_THREADS": "1",
        "OMP_WAIT_POLICY": "passive",
        "OMP_PROC_BIND": "close",
        "MKL_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        # Huge pages for the heap: a fork copies fewer page-table entries. Python keeps arenas of
        # its own: in the C heap its objects would settle between freed outputs, whose pages could
        # not be used again then, and big outputs would cost four times as much.
        "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",
        "MALLOC_MMAP_MAX_": "0",
        "MALLOC_TRIM_THRESHOLD_": str(8 << 30),
        "MALLOC_TOP_PAD_": str(256 << 20),
    }


def descendants(pid: int) -> list[int]:
    """Return the live descendants of a process, itself first.

    Of the first process of a PID namespace these are all processes of the namespace: orphans
    become its children.
    """
    found = [pid]
    for parent in found:
        found.extend(_children(parent))
    return found


def memory_bytes(pid: int) -> int:
    """Return the memory of one process, pages shared with others counted in part (PSS)."""
    for line in _lines(_PROC / str(pid) / "smaps_rollup"):
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    return 0


def tree_memory_bytes(pid: int) -> int:
    """Return the memory of a process and its descendants, each shared page counted once."""
    return sum(memory_bytes(member) for member in descendants(pid))


def mapping_facts(pid: int, name: str) -> MappingFacts:
    """Return what a process did with a shared memory file.

    Args:
        pid: The process.
        name: The file's name, as given to `os.memfd_create`.
    """
    process = _PROC / str(pid)
    ranges: list[tuple[int, int]] = []
    written = 0
    for line in _lines(process / "maps"):
        # "start-end perms offset device inode path"
        fields = line.split()
        if len(fields) > 5 and fields[5] == f"/memfd:{name}":
            start, end = (int(word, 16) for word in fields[0].split("-"))
            ranges.append((start, end))
            written += _own_pages(process / "pagemap", start, end) * _PAGE_BYTES
    return MappingFacts(ranges=tuple(ranges), written_bytes=written)


def _own_pages(pagemap: Path, start: int, end: int) -> int:
    """Count pages that are a process's own copies: there or swapped out, and of no file.

    Source: Linux, Documentation/admin-guide/mm/pagemap.rst: 8 bytes a page; of the topmost, bit 7
        says present, bit 6 swapped, bit 5 file or shared.
    """
    try:
        with pagemap.open("rb") as file:
            file.seek(start // _PAGE_BYTES * 8)
            entries = file.read((end - start) // _PAGE_BYTES * 8)
    except OSError:
        return 0
    return entries[7::8].translate(_IS_OWN).count(1)


def thread_cpu_s(pid: int) -> Mapping[int, float]:
    """Return the CPU time of each thread of a process, in s, by thread id."""
    times = {}
    for task in _entries(_PROC / str(pid) / "task"):
        # The name in brackets may hold anything; fields count from behind its end.
        _, _, rest = " ".join(_lines(task / "stat")).rpartition(")")
        fields = rest.split()
        if len(fields) > 12:
            times[int(task.name)] = (int(fields[11]) + int(fields[12])) / _TICKS_PER_S
    return times


def kill_tree(pid: int) -> None:
    """Kill a process and its descendants, those that fork meanwhile included."""
    for _ in range(16):
        members = descendants(pid)
        for member in members:
            _kill(member)
        if len(members) == 1:
            return


def folder_bytes(folder: Path) -> int:
    """Return the bytes that a folder's files take on disk; links are not followed.

    Where a path is too long for the kernel nobody can tell: that counts as more than any limit.
    """
    total = 0
    pending = [folder]
    while pending:
        for entry in _entries(pending.pop()):
            try:
                status = entry.lstat()
            except OSError as error:
                if error.errno == errno.ENAMETOOLONG:
                    return _BEYOND_BYTES
                continue
            total += status.st_blocks * 512
            if entry.is_dir() and not entry.is_symlink():
                pending.append(entry)
    return total


def unlinked_bytes(pid: int) -> int:
    """Return the bytes on disk of files that a process holds open and that no folder shows."""
    total = 0
    for entry in _entries(_PROC / str(pid) / "fd"):
        try:
            status = entry.stat()
        except OSError:
            continue
        if stat.S_ISREG(status.st_mode) and not status.st_nlink:
            total += status.st_blocks * 512
    return total


def remove_folder(folder: Path) -> None:
    """Remove a folder that a hostile process has filled, however deep it is nested.

    Each folder inside is first moved to the top, so that neither recursion nor the length of a
    path has to follow the nesting. What cannot be removed stays.
    """
    while inner := [entry for entry in _entries(folder) if _is_folder(entry)]:
        if not sum(_empty_into(folder, entry) for entry in inner):
            break
    for entry in _entries(folder):
        _succeeds(entry.unlink)
    _succeeds(folder.rmdir)


def _empty_into(top: Path, folder: Path) -> int:
    """Move the folders inside one to the top, remove its files and itself; return what it did."""
    _succeeds(partial(folder.chmod, 0o700))
    moved = 0
    for entry in _entries(folder):
        if _is_folder(entry):
            moved += _succeeds(partial(entry.rename, top / secrets.token_hex(16)))
        else:
            _succeeds(entry.unlink)
    return moved + _succeeds(folder.rmdir)


def _succeeds(action: Callable[[], object]) -> bool:
    try:
        action()
    except OSError:
        return False
    return True


def _is_folder(entry: Path) -> bool:
    return entry.is_dir() and not entry.is_symlink()


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def is_halted(pid: int) -> bool:
    """Tell whether no thread of a process runs or waits for anything but being let go."""
    for task in _entries(_PROC / str(pid) / "task"):
        for line in _lines(task / "stat"):
            if line.rpartition(")")[2].split()[0] not in "TtXZ":
                return False
    return True


def _children(pid: int) -> Iterator[int]:
    for task in _entries(_PROC / str(pid) / "task"):
        for line in _lines(task / "children"):
            yield from map(int, line.split())


def _entries(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:
        return []


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text("utf-8", "replace").splitlines()
    except OSError:
        return []
