"""Landlock rules for workers: which files a worker may reach at all.

Covered: reading anything but the interpreter, its packages, the compiler and what these need;
writing anything but the worker's own folders; running programs from these; TCP; signals to and
abstract sockets of processes outside.
Not covered: files that were open before (there are none but the channel), UDP (seccomp and the
network namespace cover it), file metadata.
"""

from __future__ import annotations

import os
import site
import sys
import sysconfig
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

import evaluator
import problems
from evaluator.worker.kernel import (
    landlock_abi,
    landlock_add_path,
    landlock_create_ruleset,
    landlock_restrict,
)

__all__ = ["apply", "interpreter_paths"]

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_MAKE_DEVICES = (1 << 6) | (1 << 9) | (1 << 11)
_TRUNCATE, _IOCTL = 1 << 14, 1 << 15
_RIGHTS_BY_ABI = (0, (1 << 13) - 1, (1 << 14) - 1, (1 << 15) - 1, (1 << 15) - 1, (1 << 16) - 1)
_NETWORK = 0b11
_SCOPED = 0b11

_SYSTEM = (
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/alternatives",
    "/etc/localtime",
    "/etc/passwd",
    "/etc/group",
    "/etc/nsswitch.conf",
    "/sys/devices/system",
    "/proc/cpuinfo",
    "/proc/meminfo",
    "/proc/self",
    "/dev/zero",
    "/dev/random",
    "/dev/urandom",
)
_DRIVER = (
    "/sys",
    "/proc/driver/nvidia",
    "/proc/devices",
    "/proc/sys/vm/mmap_min_addr",
    "/dev/nvidia-caps",
)


def apply(
    *,
    writable: Iterable[str],
    readable: Iterable[str],
    own_proc: bool,
    gpu: bool = False,
    sockets: bool = False,
) -> bool:
    """Hold this process and all its future children to the rules, for good.

    `PR_SET_NO_NEW_PRIVS` must be set.

    Args:
        writable: Folders that may be read and written.
        readable: Folders that may be read, beside the interpreter and the compiler.
        own_proc: /proc shows this process's own PID namespace, so all of it may be read.
        gpu: Permit the devices of NVIDIA's driver, and what else that asks for.
        sockets: Permit TCP, for a process whose network leads nowhere, and what a GPU's driver
            needs in its children.

    Returns:
        False where the kernel has no Landlock.
    """
    abi = landlock_abi()
    if abi == 0:
        return False
    rights = _RIGHTS_BY_ABI[min(abi, len(_RIGHTS_BY_ABI) - 1)]
    read = _EXECUTE | _READ_FILE | _READ_DIR
    write = rights & ~_EXECUTE & ~_MAKE_DEVICES
    network = _NETWORK if abi >= 4 and not sockets else 0
    scoped = _SCOPED if abi >= 6 else 0
    try:
        ruleset = landlock_create_ruleset(rights, network, scoped, abi=abi)
    except OSError:
        return False
    try:
        for path in (*_SYSTEM, *interpreter_paths(), *readable, *(("/proc",) if own_proc else ())):
            _permit(ruleset, path, read)
        _permit(ruleset, "/dev/null", (_READ_FILE | _WRITE_FILE | _TRUNCATE) & rights)
        for path in writable:
            _permit(ruleset, path, write)
        if gpu:
            # A child's driver names its threads in a folder that does not exist yet.
            _permit_gpu(ruleset, rights, "/proc" if sockets and own_proc else "/proc/self")
        landlock_restrict(ruleset)
    except OSError:
        return False
    finally:
        os.close(ruleset)
    return True


@lru_cache(maxsize=1)
def interpreter_paths() -> frozenset[str]:
    """Return the folders of the interpreter, the installed packages and this project's code."""
    paths = {sys.prefix, sys.base_prefix, *site.getsitepackages()}
    paths.update(sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib"))
    for package in (evaluator, problems):
        paths.update(package.__path__)
    return frozenset(path for path in paths if os.path.exists(path))


def _permit_gpu(ruleset: int, rights: int, names: str) -> None:
    for device in (*Path("/dev").glob("nvidia*"), *Path("/dev").glob("nvidia-caps/*")):
        if device.is_char_device():
            _permit(ruleset, str(device), (_READ_FILE | _WRITE_FILE | _IOCTL) & rights)
    for path in _DRIVER:
        _permit(ruleset, path, _READ_FILE | _READ_DIR)
    if "CUDA_HOME" in os.environ:
        # nvcc, with its headers and programs, where it is not below /usr.
        _permit(ruleset, os.environ["CUDA_HOME"], _EXECUTE | _READ_FILE | _READ_DIR)
    # The driver names its threads there.
    _permit(ruleset, names, (_READ_FILE | _READ_DIR | _WRITE_FILE | _TRUNCATE) & rights)


def _permit(ruleset: int, path: str, rights: int) -> None:
    if not os.path.exists(path):
        return
    if not Path(path).is_dir():
        rights &= _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL
    landlock_add_path(ruleset, path, rights)
