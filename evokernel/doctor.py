"""What this machine has of what EvoKernel needs, and what to do about the rest."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from evaluator.referee.device import installed_version
from evokernel.protections import PROTECTIONS
from evokernel.sanitizing import NAME, installed_tool
from problems.errors import EvaluatorError

__all__ = ["Finding", "examine", "isolation_of_a_worker"]

_LEAST_PYTHON = (3, 11)
_NEWEST_PYTHON = (3, 13)
_LEAST_MEMORY_GB = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that was looked at.

    Attributes:
        name: What.
        status: "ok", "missing" (EvoKernel cannot work without it) or "note".
        found: What there is.
        advice: What to do; "" where nothing is.
    """

    name: str
    status: str
    found: str
    advice: str = ""


def examine(isolation: Callable[[], str]) -> list[Finding]:
    """Look at everything; starts a worker, but measures nothing.

    Args:
        isolation: Starts a worker as a candidate gets it and returns its protections, joined by
            "+"; `isolation_of_a_worker` is the real one. May raise `EvaluatorError`.
    """
    return [
        _platform(),
        _python(),
        _package("torch", "install it: pip install torch", needed=True),
        _program("g++", "install it (Debian and Ubuntu: apt-get install g++)", needed=True),
        _program(
            "objdump",
            "install binutils; without it the archive knows less about a kernel's machine code",
        ),
        _package("ray", "install it: pip install ray", needed=True),
        _cores(),
        _memory(),
        *_isolation(isolation),
        _gpu(),
        _sanitizer(),
    ]


def isolation_of_a_worker() -> str:
    """Start a worker as a candidate would get it and return its protections.

    Where there is a GPU it is one that may use it, since candidates are judged there: the driver's
    devices, and what else it needs, are open to it.

    Raises:
        EvaluatorError: No worker could be started.
    """
    from evaluator.referee.cuda.device import gpu_count
    from evaluator.referee.deadlines import Deadlines
    from evaluator.referee.device import core_sets
    from evaluator.referee.foreign_memory import with_memory_read
    from evaluator.referee.spawner import Spawner, WorkerPlan

    cores = core_sets().other
    spawner = Spawner(Deadlines(), cores)
    try:
        role = "cuda_candidate" if gpu_count() else "candidate"
        plan = WorkerPlan(role=role, cpus=cores, threads=1, memory_bytes=None)
        worker = spawner.spawn(plan)
        return with_memory_read(worker.isolation, worker.pid)
    finally:
        spawner.close()


def _platform() -> Finding:
    found = f"{platform.system()} {platform.machine()}, kernel {platform.release()}"
    if platform.system() == "Linux" and platform.machine() == "x86_64":
        return Finding(name="platform", status="ok", found=found)
    return Finding(
        name="platform", status="missing", found=found, advice="use Linux on an x86-64 machine"
    )


def _python() -> Finding:
    found = platform.python_version()
    if sys.version_info < _LEAST_PYTHON:
        return Finding(
            name="python", status="missing", found=found, advice="use Python 3.11, 3.12 or 3.13"
        )
    if sys.version_info[:2] > _NEWEST_PYTHON:
        return Finding(
            name="python", status="note", found=found, advice="tested up to Python 3.13 only"
        )
    return Finding(name="python", status="ok", found=found)


def _package(name: str, advice: str, *, needed: bool = False) -> Finding:
    found = installed_version(name)
    if found is not None:
        return Finding(name=name, status="ok", found=found)
    status = "missing" if needed else "note"
    return Finding(name=name, status=status, found="not installed", advice=advice)


def _program(name: str, advice: str, *, needed: bool = False) -> Finding:
    path = shutil.which(name)
    if path is not None:
        return Finding(name=name, status="ok", found=path)
    status = "missing" if needed else "note"
    return Finding(name=name, status=status, found="not on the PATH", advice=advice)


def _sanitizer() -> Finding:
    path = installed_tool()
    if path is not None:
        return Finding(name="sanitizer", status="ok", found=str(path))
    return Finding(
        name="sanitizer",
        status="note",
        found=f"{NAME} is not installed",
        advice="only 'verify --sanitize' on a GPU needs it; it comes with CUDA's toolkit",
    )


def _cores() -> Finding:
    count = len(os.sched_getaffinity(0))
    if count > 1:
        return Finding(name="cores", status="ok", found=f"{count} usable")
    return Finding(
        name="cores",
        status="note",
        found="1 usable",
        advice="use two or more: on one core builds disturb what is being timed",
    )


def _memory() -> Finding:
    total_gb = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    found = f"{total_gb:.1f} GB"
    if total_gb >= _LEAST_MEMORY_GB:
        return Finding(name="memory", status="ok", found=found)
    return Finding(
        name="memory",
        status="note",
        found=found,
        advice=f"a run over all of level 1 may need {_LEAST_MEMORY_GB} GB: run fewer problems",
    )


def _isolation(isolation: Callable[[], str]) -> list[Finding]:
    try:
        held = isolation()
    except EvaluatorError as error:
        return [Finding(name="isolation", status="missing", found="none", advice=str(error))]
    names = set(held.split("+"))
    lacking = [one for one in PROTECTIONS if one.name not in names]
    return [
        Finding(name="isolation", status="ok", found=held or "none"),
        *(
            Finding(
                name="isolation",
                status="note",
                found=f"no {one.what}: {one.without}",
                advice=f"{one.cure}; until then judge only code that you trust not to be hostile",
            )
            for one in lacking
        ),
    ]


def _gpu() -> Finding:
    from evaluator.referee.cuda.device import gpu_count

    usable = gpu_count()
    if usable:
        found = f"{usable} NVIDIA GPU{'s' if usable != 1 else ''}; kernels are measured there"
        return Finding(name="gpu", status="ok", found=found)
    if any(Path("/dev").glob("nvidia[0-9]*")):
        return Finding(
            name="gpu",
            status="note",
            found="an NVIDIA device that nvidia-smi does not list",
            advice="install the driver's tools; until then kernels are measured on the CPU",
        )
    return Finding(name="gpu", status="ok", found="none seen; kernels are measured on the CPU")
