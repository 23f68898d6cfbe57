"""Which device numbers come from, and which cores do what on it.

Source: cpu_evaluator.md section 4: a compiler on core 1 beside one timed thread pinned to core 0
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
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from archives.evaluation import DeviceFingerprint

__all__ = ["CoreSets", "core_sets", "fingerprint", "memory_bytes"]

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


def memory_bytes() -> int:
    """Return the memory that can be had without swapping, in bytes."""
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES")


@lru_cache(maxsize=8)
def fingerprint(threads: int) -> DeviceFingerprint:
    """Describe this host's CPU as timed with a number of threads."""
    model = _model_name()
    cores = os.cpu_count() or 1
    versions = {
        "python": platform.python_version(),
        "torch": _package("torch"),
        "numpy": _package("numpy"),
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
    )


def _model_name() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _package(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "none"


def _compiler() -> str:
    path = shutil.which("g++")
    if path is None:
        return "none"
    reply = subprocess.run(  # noqa: S603 (a fixed command, found on the PATH)
        [path, "-dumpfullversion", "-dumpversion"], capture_output=True, text=True, check=False
    )
    return f"g++ {reply.stdout.strip()}"
