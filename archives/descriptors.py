"""Descriptors: what kind of kernel a candidate is, as a cell of the grid.

Each axis is one pure function from measured or compiled facts to a bin. Bins are fixed here, at
construction: a cell means the same in every generation and every run.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from archives.evaluation import KernelFacts, Reuse
from archives.grid import Cell
from problems.errors import ConfigError

__all__ = ["AXES", "DEFAULT_AXES", "NOT_MEASURED", "Axis", "axes_named", "describe", "dims_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """One axis of the grid.

    Attributes:
        name: Its name in configurations and reports.
        title: What it says of a kernel, for people.
        labels: One label for each bin, in order.
        bin_of: The bin of a candidate's facts, or None where the fact was not measured: the last
            bin, `NOT_MEASURED`, is for these.
    """

    name: str
    title: str
    labels: tuple[str, ...]
    bin_of: Callable[[KernelFacts], int | None]


NOT_MEASURED = "?"
"""Label of the bin of those whose fact nobody could measure: they are kernels all the same."""
_LAUNCH_EDGES = (1, 2, 4)
_WORK_EDGES_BYTES = (16, 64, 128, 256, 512, 1024, 4096, 16384)
_VECTOR_EDGES_BITS = (0, 128, 256)
_REGISTER_EDGES = (32, 64, 128)
_SHARED_EDGES_BYTES = (0, 16 << 10, 48 << 10, 96 << 10)
_PROGRAM_EDGES = (128, 1 << 10, 1 << 14, 1 << 18)
"""Programs: fewer than a device has processors, a few for each, and powers beyond."""
_REUSES = (Reuse.REGISTERS, Reuse.CACHE, Reuse.LIBRARY)


def _nothing(facts: KernelFacts) -> int | None:
    return 0


def _launches(facts: KernelFacts) -> int | None:
    return None if facts.launches is None else bisect.bisect_left(_LAUNCH_EDGES, facts.launches)


def _reuse(facts: KernelFacts) -> int | None:
    return None if facts.reuse is None else _REUSES.index(facts.reuse)


def _work(facts: KernelFacts) -> int | None:
    if facts.work is None:
        # A candidate of library calls alone has no loop of its own to measure.
        return 0 if facts.reuse is Reuse.LIBRARY else None
    return bisect.bisect_left(_WORK_EDGES_BYTES, facts.work)


def _vector(facts: KernelFacts) -> int | None:
    if facts.vector_bits is None:
        return 0 if facts.reuse is Reuse.LIBRARY else None
    return bisect.bisect_left(_VECTOR_EDGES_BITS, facts.vector_bits)


def _registers(facts: KernelFacts) -> int | None:
    return _gpu_bin(facts, facts.registers, _REGISTER_EDGES)


def _shared(facts: KernelFacts) -> int | None:
    return _gpu_bin(facts, facts.shared_bytes, _SHARED_EDGES_BYTES)


def _programs(facts: KernelFacts) -> int | None:
    return _gpu_bin(facts, facts.programs, _PROGRAM_EDGES)


def _gpu_bin(facts: KernelFacts, value: int | None, edges: Sequence[int]) -> int | None:
    """The bin of a fact about a GPU's kernel; a candidate of library calls alone has none."""
    if value is None:
        return 0 if facts.reuse is Reuse.LIBRARY else None
    return bisect.bisect_left(edges, value)


AXES: dict[str, Axis] = {
    "launches": Axis(
        name="launches",
        title="kernel launches per call",
        labels=("1", "2", "3-4", "5+", NOT_MEASURED),
        bin_of=_launches,
    ),
    "reuse": Axis(
        name="reuse",
        title="where reuse lives",
        labels=(*(reuse.value for reuse in _REUSES), NOT_MEASURED),
        bin_of=_reuse,
    ),
    "work": Axis(
        name="work",
        # Loads and stores of one iteration: scalar code up to 16, AVX2 from 64 (one register in,
        # one out), AVX-512 from 128, doubled by each unrolling; GPU programs begin above 1024.
        title="bytes per iteration (CPU) or program (GPU)",
        labels=(
            *("<=16", "<=64", "<=128", "<=256", "<=512", "<=1K", "<=4K", "<=16K", ">16K"),
            NOT_MEASURED,
        ),
        bin_of=_work,
    ),
    "vector": Axis(
        name="vector",
        title="bits of the vector registers used",
        labels=("scalar", "128", "256", "512", NOT_MEASURED),
        bin_of=_vector,
    ),
    "registers": Axis(
        name="registers",
        title="registers of a thread (GPU)",
        labels=("<=32", "<=64", "<=128", ">128", NOT_MEASURED),
        bin_of=_registers,
    ),
    "shared": Axis(
        name="shared",
        title="shared memory of a program (GPU)",
        labels=("0", "<=16K", "<=48K", "<=96K", ">96K", NOT_MEASURED),
        bin_of=_shared,
    ),
    "programs": Axis(
        name="programs",
        title="programs of a launch (GPU)",
        labels=("<=128", "<=1K", "<=16K", "<=256K", ">256K", NOT_MEASURED),
        bin_of=_programs,
    ),
    "none": Axis(
        name="none",
        # Alone it makes a grid of one cell: what a search is without an archive.
        title="nothing: all kernels are of one kind",
        labels=("any",),
        bin_of=_nothing,
    ),
}

DEFAULT_AXES = ("launches", "reuse", "work")
"""Axes that say something on a CPU and on a GPU."""


def axes_named(names: Sequence[str]) -> tuple[Axis, ...]:
    """Return the axes with the given names.

    Raises:
        ConfigError: A name is unknown or appears twice, or there is none.
    """
    if not names:
        raise ConfigError(f"the archive has no axis: name at least one of {', '.join(AXES)}")
    for name in names:
        if name not in AXES:
            raise ConfigError(
                f"the archive's axis {name!r} is unknown: expected one of {', '.join(AXES)}"
            )
    if len(set(names)) < len(names):
        raise ConfigError(f"an axis of the archive is named twice in {list(names)}: name it once")
    return tuple(AXES[name] for name in names)


def dims_of(axes: Sequence[Axis]) -> tuple[int, ...]:
    """Return the number of bins of each axis: the shape of the grid."""
    return tuple(len(axis.labels) for axis in axes)


def describe(facts: KernelFacts, axes: Sequence[Axis]) -> Cell:
    """Return the cell of a candidate."""
    bins = (axis.bin_of(facts) for axis in axes)
    return tuple(
        len(axis.labels) - 1 if index is None else index
        for axis, index in zip(axes, bins, strict=True)
    )
