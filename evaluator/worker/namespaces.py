"""Namespaces of a worker: what it can see of the machine.

A worker is forked twice: the first child enters new namespaces, the second becomes process 1 of
the PID namespace, so that killing it kills all it ever started. Where the kernel permits a user
namespace, no privilege is needed; a privileged zygote also gives each worker a user id that
nobody else has, so that files and processes of others are out of reach and a limit on the number
of processes holds (it does not for root).
"""

from __future__ import annotations

import fcntl
import os
import socket
import struct
from collections.abc import Callable, Sequence
from pathlib import Path

from evaluator.worker.hiding import hide
from evaluator.worker.kernel import (
    bind_mount,
    make_mounts_private,
    make_mounts_read_only,
    mount,
    unshare,
)

__all__ = ["INSIDE_ID", "enter", "mount_private", "raise_loopback", "write_id_maps"]

INSIDE_ID = 1000
"""User and group id of a worker as it sees them, where the zygote is privileged."""

_NEW_USER = 0x10000000
_FLAGS = {"pid": 0x20000000, "net": 0x40000000, "ipc": 0x08000000, "mount": 0x00020000}
_SIOCSIFFLAGS, _IFF_UP = 0x8914, 1
_AMONG_OTHERS = frozenset({"pid", "mount"})


def enter(*, apart: bool = True) -> list[str]:
    """Enter as many new namespaces as the kernel permits.

    Args:
        apart: False: stay among the other processes, with their mounts. CUDA tells processes that
            share memory apart by the numbers they see themselves as, so both cannot be number 1.

    Returns:
        Names of those entered, of "user", "pid", "net", "ipc" and "mount".
    """
    flags = {name: flag for name, flag in _FLAGS.items() if apart or name not in _AMONG_OTHERS}
    everything = _NEW_USER
    for flag in flags.values():
        everything |= flag
    try:
        unshare(everything)
    except OSError:
        return [name for name, flag in flags.items() if _entered(flag)]
    return ["user", *flags]


def write_id_maps(pid: int, outside_id: int) -> bool:
    """Write the id maps of a new user namespace; the zygote calls this for its child.

    Args:
        pid: The process that entered it.
        outside_id: User and group id that nobody else has.

    Returns:
        True where the worker can take `INSIDE_ID`, which is `outside_id` outside; then files of
        the zygote's own user stay mapped too, so that a Python in a private home is reachable.
    """
    folder = Path("/proc") / str(pid)
    user, group = os.geteuid(), os.getegid()
    if user == 0:
        try:
            private = f"0 0 1\n{INSIDE_ID} {outside_id} 1\n"
            (folder / "uid_map").write_text(private)
            (folder / "gid_map").write_text(private)
        except OSError:
            pass
        else:
            return True
    (folder / "setgroups").write_text("deny")
    (folder / "uid_map").write_text(f"{user} {user} 1\n")
    (folder / "gid_map").write_text(f"{group} {group} 1\n")
    return False


def mount_private(
    *,
    scratch: str,
    scratch_bytes: int,
    build: str | None,
    build_writable: bool,
    owner: int,
    keep: Sequence[str] | None = None,
) -> list[str]:
    """Rearrange the mounts of a new mount namespace; runs as process 1.

    Args:
        scratch: Folder that a size-limited tmpfs covers.
        scratch_bytes: Its size.
        build: Folder of build artefacts, which may lie inside scratch, or None.
        build_writable: Whether it may be written.
        owner: User and group id that own scratch, as seen inside.
        keep: Hide the host's files but these, the system's and the two folders; None: hide none.

    Returns:
        Names of what holds: "proc" (only own processes are visible), "tmpfs", "readonly" (every
        other mount), "hidden" (see `hiding`).
    """
    held: list[str] = []
    try:
        make_mounts_private()
    except OSError:
        return held
    # Held by descriptor: the tmpfs may cover the path.
    kept = None if build is None else os.open(build, os.O_PATH | os.O_CLOEXEC)
    try:
        if _succeeds(make_mounts_read_only):
            held.append("readonly")
        if _succeeds(lambda: mount("proc", "/proc")):
            held.append("proc")
        folders = [scratch] if build is None else [scratch, build]
        if keep is not None and _succeeds(lambda: hide(keep=keep, folders=folders)):
            held.append("hidden")
        options = f"size={scratch_bytes},nr_inodes=16384,mode=0700,uid={owner},gid={owner}"
        if _succeeds(lambda: mount("tmpfs", scratch, options)):
            held.append("tmpfs")
        elif "readonly" in held:
            bind_mount(scratch, scratch, writable=True)
        if build is not None and kept is not None:
            os.makedirs(build, exist_ok=True)
            bind_mount(f"/proc/self/fd/{kept}", build, writable=build_writable)
    finally:
        if kept is not None:
            os.close(kept)
    return held


def raise_loopback() -> bool:
    """Let the processes of a new network namespace reach each other, and nobody else.

    Returns:
        False where this process may not: there is no network then.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as handle:
        request = struct.pack("16sh14x", b"lo", _IFF_UP)
        return _succeeds(lambda: _set_flags(handle, request))


def _set_flags(handle: socket.socket, request: bytes) -> None:
    fcntl.ioctl(handle, _SIOCSIFFLAGS, request)


def _entered(flag: int) -> bool:
    return _succeeds(lambda: unshare(flag))


def _succeeds(action: Callable[[], None]) -> bool:
    try:
        action()
    except OSError:
        return False
    return True
