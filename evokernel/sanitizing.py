"""Looking at elites with NVIDIA's compute-sanitizer, where it is installed and works.

That it works is tried before anything is verified, on a small problem's reference, which has
nothing to be found. What it cannot look at later, for want of time or memory, is a finding.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path
from typing import Protocol

from archives.evaluation import DeviceFingerprint
from evaluator.sanitizing import CHECKS, MEMCHECK, Sanitized
from problems.catalogue import load_level
from problems.errors import ConfigError, EvaluatorError
from problems.problem import Problem, Scale

__all__ = ["NAME", "PLACES", "Sanitizer", "Tool", "find_tool", "installed_tool"]

NAME = "compute-sanitizer"
PLACES = ("/usr/local/cuda/bin",)
"""Where CUDA's toolkit is usually."""
TRIAL_ID = 19
"""Number of the problem of level 1 on which the tool is tried: a ReLU."""


class Tool(Protocol):
    """Runs one check of one candidate; `evaluator.local.LocalEvaluator` does."""

    async def sanitize(self, problem: Problem, source: str, tool: Path, check: str) -> Sanitized:
        """Call a candidate once under compute-sanitizer."""
        ...


def find_tool(device: DeviceFingerprint | None) -> Path:
    """Return where compute-sanitizer is.

    Args:
        device: What the run was measured on; None: nothing was measured.

    Raises:
        ConfigError: There is none, or nothing for it to look at.
    """
    if device is None or device.kind != "cuda":
        raise ConfigError(
            "--sanitize looks at kernels on an NVIDIA GPU, and this run was not measured on one: "
            "leave it out"
        )
    found = installed_tool()
    if found is None:
        raise ConfigError(
            f"{NAME} is neither on the PATH nor in {PLACES[0]} or CUDA_HOME: install it with "
            "CUDA's toolkit, or leave --sanitize out"
        )
    return found


def installed_tool() -> Path | None:
    """Return where compute-sanitizer is on this host; None: nowhere."""
    places = [os.environ.get("PATH", os.defpath), *PLACES]
    if "CUDA_HOME" in os.environ:
        places.append(str(Path(os.environ["CUDA_HOME"]) / "bin"))
    found = shutil.which(NAME, path=os.pathsep.join(places))
    return None if found is None else Path(found)


class Sanitizer:
    """Checks candidates one after the other.

    Args:
        runner: Runs the tool.
        path: Where the tool is.
    """

    def __init__(self, runner: Tool, path: Path) -> None:
        self._runner = runner
        self._path = path
        self._lock = asyncio.Lock()

    async def look(self, problem: Problem, source: str) -> tuple[Sanitized, ...]:
        """Check a candidate for accesses out of bounds and for races.

        Args:
            problem: The problem.
            source: Text of the candidate.

        Returns:
            One for each check, those that came to no end with a reason.
        """
        async with self._lock:
            return tuple([await self._check(problem, source, check) for check in CHECKS])

    async def require_works(self) -> None:
        """Hold the tool against a small problem's reference.

        Raises:
            ConfigError: It does not run here, or finds fault with that.
        """
        problem = load_level(1, Scale.TINY, (TRIAL_ID,))[0]
        source = f"{problem.source}\n\nModelNew = Model\n"
        async with self._lock:
            found = await self._check(problem, source, MEMCHECK)
        if found.errors != 0:
            said = found.log.strip().replace("\n", "; ") or "it says nothing"
            raise ConfigError(
                f"{NAME} does not work here, it fails on the reference of {problem.label} "
                f"({said}): leave --sanitize out"
            )

    async def _check(self, problem: Problem, source: str, check: str) -> Sanitized:
        try:
            return await self._runner.sanitize(problem, source, self._path, check)
        except EvaluatorError as error:
            return Sanitized(check=check, errors=None, log=str(error))
