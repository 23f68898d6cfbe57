"""Which GPU numbers come from: what the driver's own tool says of it."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from archives.evaluation import DeviceFingerprint
from evaluator.processes import worker_environment
from evaluator.referee.device import CoreSets, installed_version
from problems.errors import EvaluatorError

__all__ = [
    "Gpu",
    "core_sets",
    "cores_of",
    "environment_of",
    "fingerprint",
    "gpu_count",
    "gpu_of",
    "query",
]

_QUERY_S = 20.0
_TIMED_CORES = 2
_FEW_CORES = 4
_BUILD_JOBS = 4
_PASSED_ON = ("LD_LIBRARY_PATH", "CUDA_HOME", "CUDA_PATH", "TRITON_LIBCUDA_PATH")


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """One GPU.

    Attributes:
        index: Its number, as the driver counts.
        name: Its model.
        uuid: Its identity.
        driver: Version of the driver.
        memory_bytes: All of its memory.
        max_clock_mhz: The highest clock of its multiprocessors.
        capability: Its compute capability, such as "9.0".
    """

    index: int
    name: str
    uuid: str
    driver: str
    memory_bytes: int
    max_clock_mhz: int
    capability: str


def query(fields: Sequence[str], *, of: str = "gpu", uuid: str | None = None) -> list[list[str]]:
    """Ask nvidia-smi; one list of values for each GPU or process.

    Args:
        fields: Names of what to ask for.
        of: "gpu" or "compute-apps".
        uuid: Of the one GPU that is meant; None: all.

    Raises:
        EvaluatorError: There is no such program, or it fails.
    """
    program = shutil.which("nvidia-smi")
    if program is None:
        raise EvaluatorError(
            "no NVIDIA GPU was found: nvidia-smi is not on the PATH; install NVIDIA's driver, or "
            "measure on the CPU with --device cpu"
        )
    command = [program, f"--query-{of}={','.join(fields)}", "--format=csv,noheader,nounits"]
    command += [] if uuid is None else [f"--id={uuid}"]
    try:
        done = subprocess.run(  # noqa: S603 - the driver's own tool, fixed arguments
            command, capture_output=True, text=True, timeout=_QUERY_S, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise EvaluatorError(f"nvidia-smi did not answer in {_QUERY_S:.0f} s") from error
    if done.returncode:
        said = " ".join((done.stdout + done.stderr).split())
        raise EvaluatorError(f"nvidia-smi fails with code {done.returncode}: {said[:300]}")
    lines = [line for line in done.stdout.splitlines() if line.strip()]
    return [[word.strip() for word in line.split(",")] for line in lines]


@lru_cache(maxsize=1)
def _gpus() -> tuple[Gpu, ...]:
    """The GPUs that this process may use."""
    gpus = _all_gpus()
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    return gpus if visible is None else tuple(_visible(gpus, visible))


@lru_cache(maxsize=1)
def _all_gpus() -> tuple[Gpu, ...]:
    fields = ("index", "name", "uuid", "driver_version", "memory.total", "clocks.max.sm")
    rows = query((*fields, "compute_cap"))
    return tuple(
        Gpu(
            index=int(row[0]),
            name=row[1],
            uuid=row[2],
            driver=row[3],
            memory_bytes=int(float(row[4])) << 20,
            max_clock_mhz=int(float(row[5])) if row[5].replace(".", "").isdigit() else 0,
            capability=row[6],
        )
        for row in rows
    )


def _visible(gpus: Sequence[Gpu], visible: str) -> list[Gpu]:
    """The GPUs that CUDA_VISIBLE_DEVICES names, in its order."""
    names = [name.strip() for name in visible.split(",") if name.strip()]
    return [gpu for name in names for gpu in gpus if name in (str(gpu.index), gpu.uuid)]


def gpu_count() -> int:
    """Return how many GPUs this process may use; 0 where there is no driver."""
    try:
        return len(_gpus())
    except EvaluatorError:
        return 0


def cores_of(gpu: Gpu) -> CoreSets:
    """Return the cores for one GPU: two of its own, and those that the machine's GPUs share."""
    everyone = _all_gpus()
    return core_sets(place=everyone.index(gpu), places=len(everyone))


def gpu_of(number: int) -> Gpu:
    """Return a GPU by its number among those that this process may use.

    Raises:
        EvaluatorError: There is none.
    """
    gpus = _gpus()
    if not 0 <= number < len(gpus):
        raise EvaluatorError(
            f"GPU {number} was asked for, {len(gpus)} can be used here: look at nvidia-smi and "
            "CUDA_VISIBLE_DEVICES"
        )
    return gpus[number]


def fingerprint(gpu: Gpu) -> DeviceFingerprint:
    """Describe a GPU and the software that its numbers depend on."""
    versions = {
        "python": platform.python_version(),
        "torch": installed_version("torch") or "none",
        "triton": installed_version("triton") or "none",
        "driver": gpu.driver,
        "cuda": _cuda(),
        "os": f"{platform.system()} {platform.release()}",
    }
    return DeviceFingerprint(
        kind="cuda", name=gpu.name, uuid=gpu.uuid, threads=0, versions=versions
    )


@lru_cache(maxsize=1)
def _cuda() -> str:
    """Version of the CUDA compiler; "none" where there is none."""
    program = shutil.which("nvcc")
    if program is None:
        return "none"
    done = subprocess.run(  # noqa: S603 - a fixed command, found on the PATH
        [program, "--version"], capture_output=True, text=True, check=False
    )
    _, _, rest = done.stdout.partition("release ")
    return rest.partition(",")[0].strip() or "unknown"


def core_sets(
    available: Sequence[int] | None = None, *, place: int = 0, places: int = 1
) -> CoreSets:
    """Divide the cores: two for each GPU launch what is timed, the others build; few do both.

    Args:
        available: Cores to divide; by default those this process may use.
        place: Number of the GPU among those of the machine.
        places: How many GPUs the machine has.
    """
    cores = tuple(sorted(os.sched_getaffinity(0)) if available is None else available)
    if len(cores) < _FEW_CORES * places:
        return CoreSets(timed=cores, other=cores)
    first = _TIMED_CORES * place
    return CoreSets(timed=cores[first : first + _TIMED_CORES], other=cores[_TIMED_CORES * places :])


def environment_of(gpu: Gpu) -> dict[str, str]:
    """Return the whole environment that a zygote for a GPU's workers is started with."""
    environment = worker_environment()
    for name in ("MALLOC_MMAP_MAX_", "MALLOC_TRIM_THRESHOLD_", "MALLOC_TOP_PAD_"):
        # They keep pages for outputs, which lie on the device here.
        environment.pop(name)
    environment |= {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    if "CUDA_HOME" not in environment and (nvcc := shutil.which("nvcc")) is not None:
        environment["CUDA_HOME"] = os.path.dirname(os.path.dirname(os.path.realpath(nvcc)))
    environment["PATH"] = _with_tools(environment)
    return environment | {
        "CUDA_VISIBLE_DEVICES": gpu.uuid,
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "TORCH_CUDA_ARCH_LIST": gpu.capability,
        "MAX_JOBS": str(_BUILD_JOBS),
    }


def _with_tools(environment: Mapping[str, str]) -> str:
    """The path of commands, with nvcc's folder, and this interpreter's, where ninja may be."""
    folders = environment["PATH"].split(os.pathsep)
    home = environment.get("CUDA_HOME")
    for folder in (os.path.dirname(sys.executable), os.path.join(home, "bin") if home else ""):
        if folder and folder not in folders:
            folders.append(folder)
    return os.pathsep.join(folders)
