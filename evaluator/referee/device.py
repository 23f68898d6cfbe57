"""Which device numbers come from, and which cores do what on it.

Source: our own measurements: a compiler on core 1 beside one timed thread pinned to core 0
    left the A/A interval at 2.3-3.6 %, no worse than without; beside two timed threads it was
    21-64 %. Hence timed code never has all cores.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from archives.evaluation import DeviceFingerprint

__all__ = [
    "CoreSets",
    "core_sets",
    "fingerprint",
    "installed_version",
    "memory_bytes",
    "vector_bits",
]

_VECTORS = {"avx512f": 512, "avx2": 256, "avx": 256, "asimd": 128, "sse2": 128}
"""Width in bits by the kernel's name for a feature, the widest first."""
KEPT_FREE = 2
"""Cores kept for builds, referee and engine where there are more than two."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CoreSets:
    """Who runs where.

    Attributes:
        timed: Cores of the process that is being timed.
        other: Cores for builds, checks and the referee itself.
    """

    timed: tuple[int, ...]
    other: tuple[int, ...]

    @property
    def threads(self) -> int:
        """Threads that timed code may use."""
        return len(self.timed)

    @property
    def opens_aside(self) -> bool:
        """Whether a reference may start on the other cores and be moved before it is timed.

        Several threads are bound to cores when they start, one is not.
        """
        return self.threads == 1


def core_sets(available: tuple[int, ...] | None = None) -> CoreSets:
    """Divide the cores: on two, one is timed; on more, all but two are.

    Args:
        available: Cores to divide; by default those this process may use.
    """
    cores = available or tuple(sorted(os.sched_getaffinity(0)))
    if len(cores) == 1:
        return CoreSets(timed=cores, other=cores)
    kept = min(KEPT_FREE, len(cores) - 1)
    return CoreSets(timed=cores[:-kept], other=cores[-kept:])


def memory_bytes(proc: Path = Path("/proc"), groups: Path = Path("/sys/fs/cgroup")) -> int:
    """Return the memory that can be had without swapping, in bytes.

    That is what the host has available, or less where a control group of this process, or one
    above it, is limited; pages of files that nobody uses count as available.

    Args:
        proc: Where the kernel's files on processes are.
        groups: Where control groups are mounted.
    """
    available = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES")
    for line in (proc / "meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            available = int(line.split()[1]) * 1024
    return max(min([available, *_group_rooms(proc, groups)]), 0)


def _group_rooms(proc: Path, groups: Path) -> Iterator[int]:
    """Bytes that each limited control group above this process leaves."""
    for line in _text(proc / "self" / "cgroup").splitlines():
        _, controllers, name = line.split(":", 2)
        if not controllers:
            root, limit, usage = groups, "memory.max", "memory.current"
        elif "memory" in controllers.split(","):
            root = groups / "memory"
            limit, usage = "memory.limit_in_bytes", "memory.usage_in_bytes"
        else:
            continue
        # Inside a container the name may be the host's: only its root is there then.
        inner = root / name.lstrip("/")
        for folder in (inner, *(parent for parent in inner.parents if parent.is_relative_to(root))):
            highest, used = _text(folder / limit).strip(), _text(folder / usage).strip()
            if highest.isdecimal() and used.isdecimal():
                yield int(highest) - int(used) + _idle_file_bytes(folder / "memory.stat")


def _idle_file_bytes(stat: Path) -> int:
    values = dict(line.split(" ", 1) for line in _text(stat).splitlines())
    return int(values.get("total_inactive_file", values.get("inactive_file", "0")))


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


@lru_cache(maxsize=8)
def fingerprint(threads: int) -> DeviceFingerprint:
    """Describe this host's CPU as timed with a number of threads."""
    model = _model_name()
    cores = os.cpu_count() or 1
    versions = {
        "python": platform.python_version(),
        "torch": installed_version("torch") or "none",
        "numpy": installed_version("numpy") or "none",
        "compiler": _compiler(),
        "os": f"{platform.system()} {platform.release()}",
    }
    identity = "\n".join([model, str(cores), platform.node(), sys.platform])
    return DeviceFingerprint(
        kind="cpu",
        name=model,
        uuid=hashlib.sha256(identity.encode()).hexdigest()[:32],
        threads=threads,
        versions=versions,
        vector_bits=vector_bits(),
    )


def vector_bits(cpuinfo: Path = Path("/proc/cpuinfo")) -> int:
    """Return the width of the CPU's vector registers in bits; 0 where it is not known.

    Args:
        cpuinfo: The kernel's description of the processors.
    """
    for line in _text(cpuinfo).splitlines():
        name, _, features = line.partition(":")
        if name.strip() in ("flags", "Features"):
            known = set(features.split())
            return next((bits for feature, bits in _VECTORS.items() if feature in known), 0)
    return 0


def _model_name() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def installed_version(package: str) -> str | None:
    """Return the version of an installed distribution; None where it is missing."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _compiler() -> str:
    path = shutil.which("g++")
    if path is None:
        return "none"
    reply = subprocess.run(  # noqa: S603 (a fixed command, found on the PATH)
        [path, "-dumpfullversion", "-dumpversion"], capture_output=True, text=True, check=False
    )
    return f"g++ {reply.stdout.strip()}"
