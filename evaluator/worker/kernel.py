"""The few Linux calls that Python does not offer, by ctypes.

Each function raises `OSError` where the kernel refuses. x86-64 and aarch64 share the numbers of
all calls used here: those newer than the unification of the tables.
"""

from __future__ import annotations

import ctypes
import os
from ctypes import c_char_p, c_int, c_long, c_size_t, c_ulong, c_void_p

__all__ = [
    "bind_mount",
    "bound_capabilities",
    "drop_capabilities",
    "landlock_abi",
    "landlock_add_path",
    "landlock_create_ruleset",
    "landlock_restrict",
    "make_mount_read_only",
    "make_mounts_private",
    "make_mounts_read_only",
    "map_private",
    "map_shared",
    "mount",
    "prctl",
    "unshare",
]

_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.mmap.restype = c_void_p
_LIBC.mmap.argtypes = [c_void_p, c_size_t, c_int, c_int, c_int, c_long]
_LIBC.madvise.argtypes = [c_void_p, c_size_t, c_int]
_LIBC.mount.argtypes = [c_char_p, c_char_p, c_char_p, c_ulong, c_char_p]
_LIBC.prctl.argtypes = [c_int, c_ulong, c_ulong, c_ulong, c_ulong]
_LIBC.syscall.restype = c_long

_PROT_READ, _PROT_WRITE = 1, 2
_MAP_SHARED, _MAP_PRIVATE, _MAP_POPULATE = 1, 2, 0x8000
_MADV_POPULATE_READ = 22
_MS_NOSUID, _MS_NODEV, _MS_BIND, _MS_REC, _MS_PRIVATE = 2, 4, 0x1000, 0x4000, 0x40000
_NR_MOUNT_SETATTR = 442
_NR_LANDLOCK = 444
_AT_FDCWD = -100
_AT_RECURSIVE = 0x8000
_MOUNT_ATTR_RDONLY, _MOUNT_ATTR_NOSUID = 1, 2
_PR_CAPBSET_DROP = 24
_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_RAISE = 47, 2
_CAPABILITY_VERSION_3 = 0x20080522
_CAP_LAST = 63


class _MountAttributes(ctypes.Structure):
    _fields_ = (
        ("set", ctypes.c_uint64),
        ("clear", ctypes.c_uint64),
        ("propagation", ctypes.c_uint64),
        ("user_namespace", ctypes.c_uint64),
    )


class _Ruleset(ctypes.Structure):
    _fields_ = (
        ("handled_files", ctypes.c_uint64),
        ("handled_network", ctypes.c_uint64),
        ("scoped", ctypes.c_uint64),
    )


class _PathRule(ctypes.Structure):
    _pack_ = 1
    _layout_ = "ms"
    _fields_ = (("allowed", ctypes.c_uint64), ("parent", ctypes.c_int32))


def prctl(option: int, second: int = 0, third: int = 0) -> int:
    """Call prctl, its last two arguments 0."""
    return _checked(_LIBC.prctl(option, second, third, 0, 0), "prctl")


def unshare(flags: int) -> None:
    """Move this process (for PID namespaces: its children) into new namespaces."""
    _checked(_LIBC.unshare(c_int(flags)), "unshare")


def mount(kind: str, target: str, options: str = "") -> None:
    """Mount a new file system such as "proc" or "tmpfs", without devices or setuid."""
    done = _LIBC.mount(
        kind.encode(),
        os.fsencode(target),
        kind.encode(),
        _MS_NOSUID | _MS_NODEV,
        options.encode(),
    )
    _checked(done, f"mount {kind}")


def bind_mount(source: str, target: str, *, writable: bool, recursive: bool = False) -> None:
    """Mount a file or folder at another place, with the mounts below it where `recursive`."""
    flags = _MS_BIND | (_MS_REC if recursive else 0)
    _checked(_LIBC.mount(os.fsencode(source), os.fsencode(target), None, flags, None), "bind")
    attributes = _MountAttributes(0, _MOUNT_ATTR_RDONLY, 0, 0)
    if not writable:
        attributes = _MountAttributes(_MOUNT_ATTR_RDONLY, 0, 0, 0)
    _set_attributes(target, attributes, 0)


def make_mounts_private() -> None:
    """Keep this process's mounts from spreading to others, and theirs from reaching it."""
    _checked(_LIBC.mount(None, b"/", None, _MS_REC | _MS_PRIVATE, None), "mount private")


def make_mount_read_only(target: str) -> None:
    """Make one mount read-only; those below it stay as they are."""
    _set_attributes(target, _MountAttributes(_MOUNT_ATTR_RDONLY, 0, 0, 0), 0)


def make_mounts_read_only() -> None:
    """Make every mount read-only."""
    _set_attributes(
        "/", _MountAttributes(_MOUNT_ATTR_RDONLY | _MOUNT_ATTR_NOSUID, 0, 0, 0), _AT_RECURSIVE
    )


def bound_capabilities(keep: int | None = None) -> None:
    """Let no program that is run ever gain a capability, but one; needs privilege itself."""
    for capability in range(_CAP_LAST + 1):
        if capability == keep:
            continue
        try:
            prctl(_PR_CAPBSET_DROP, capability)
        except OSError:
            # The kernel knows no higher one, or this process may not touch the set: then it
            # holds no capability that the set could give back.
            break


def drop_capabilities(keep: int | None = None) -> None:
    """Drop every capability that this process holds.

    Args:
        keep: One that is kept, programs that are run included; None: none.
    """
    mask = 0 if keep is None else 1 << keep
    low, high = mask & 0xFFFFFFFF, mask >> 32
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    data = (ctypes.c_uint32 * 6)(low, low, low, high, high, high)
    _checked(_LIBC.capset(header, data), "capset")
    if keep is not None:
        prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_RAISE, keep)


def landlock_abi() -> int:
    """Return the version of Landlock here; 0: there is none."""
    version = int(_LIBC.syscall(c_long(_NR_LANDLOCK), None, c_size_t(0), c_long(1)))
    return max(0, version)


def landlock_create_ruleset(files: int, network: int, scoped: int, *, abi: int) -> int:
    """Return the descriptor of a new ruleset that handles these rights."""
    ruleset = _Ruleset(files, network, scoped)
    size = 8 if abi < 4 else 16 if abi < 6 else 24
    made = _LIBC.syscall(c_long(_NR_LANDLOCK), ctypes.byref(ruleset), c_size_t(size), c_long(0))
    return _checked(made, "landlock_create_ruleset")


def landlock_add_path(ruleset: int, path: str, allowed: int) -> None:
    """Permit rights beneath a path."""
    parent = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        rule = _PathRule(allowed, parent)
        done = _LIBC.syscall(
            c_long(_NR_LANDLOCK + 1), c_long(ruleset), c_long(1), ctypes.byref(rule), c_long(0)
        )
        _checked(done, "landlock_add_rule")
    finally:
        os.close(parent)


def landlock_restrict(ruleset: int) -> None:
    """Hold this thread and its future children to a ruleset."""
    done = _LIBC.syscall(c_long(_NR_LANDLOCK + 2), c_long(ruleset), c_long(0))
    _checked(done, "landlock_restrict_self")


def map_private(descriptor: int, size: int, *, populate: bool) -> int:
    """Map a file private and writable.

    Args:
        descriptor: The file.
        size: Bytes from its start.
        populate: Make its pages present, without copying them, so that no timed call meets a
            page fault: 9 ms for 96 MB. Kernels before 5.14 cannot; pages then come when touched.

    Returns:
        The address.
    """
    address = _map(descriptor, size, _PROT_READ | _PROT_WRITE, _MAP_PRIVATE)
    if populate:
        _LIBC.madvise(address, size, _MADV_POPULATE_READ)
    return address


def map_shared(descriptor: int, size: int, offset: int = 0) -> int:
    """Map a file shared and writable, its pages present; return the address.

    Args:
        descriptor: The file.
        size: Bytes to map.
        offset: Where to begin, in whole pages.
    """
    return _map(descriptor, size, _PROT_READ | _PROT_WRITE, _MAP_SHARED | _MAP_POPULATE, offset)


def _map(descriptor: int, size: int, protection: int, flags: int, offset: int = 0) -> int:
    address = _LIBC.mmap(None, size, protection, flags, descriptor, offset)
    if address in (None, c_void_p(-1).value):
        _checked(-1, "mmap")
    return int(address)


def _set_attributes(target: str, attributes: _MountAttributes, flags: int) -> None:
    done = _LIBC.syscall(
        c_long(_NR_MOUNT_SETATTR),
        c_long(_AT_FDCWD),
        c_char_p(os.fsencode(target)),
        c_long(flags),
        ctypes.byref(attributes),
        c_size_t(ctypes.sizeof(attributes)),
    )
    _checked(done, "mount_setattr")


def _checked(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return int(result)
