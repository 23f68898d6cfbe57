"""Worlds for `ablation.py`: what a search without a language model can reach on a problem.

A world is the programs of the sketches that fit, each with a part of its space that can be recorded
as a whole. What is bred from them (other points, mixed points, shared parameters) stays inside.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass

from archives.candidate import Candidate
from archives.configuration import (
    Configuration,
    Space,
    read_configuration,
    read_space,
    with_configuration,
    with_space,
)
from archives.evaluation import DeviceFingerprint
from evaluator.evaluator import Capacity
from operators.seeds import reference_as_candidate
from operators.sketches.cpp.registers import fit_registers
from operators.sketches.registry import SKETCHES
from operators.sketches.sketch import Sketch
from problems.graph import OperatorGraph
from problems.problem import Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """The programs of a problem.

    Attributes:
        problem: The problem.
        device: Where they are measured.
        referee_version: Version of the measuring protocol.
        noise_floor: Relative speedup below which nothing is claimed.
        programs: (name, source) of the reference, and of each sketch with the part of its space
            that is recorded.
    """

    problem: Problem
    device: DeviceFingerprint
    referee_version: str
    noise_floor: float
    programs: tuple[tuple[str, str], ...]

    @classmethod
    def write(cls, problem: Problem, graph: OperatorGraph, capacity: Capacity, least: int) -> World:
        """Write the programs of a problem.

        Args:
            problem: The problem.
            graph: What its reference does.
            capacity: Of the evaluator that measures.
            least: Points that all programs together keep at least, where they have them.
        """
        device = capacity.device
        written = [
            (sketch.name, fit_registers(source, device.vector_bits))
            for sketch in SKETCHES
            if sketch.device == device.kind and (source := sketch.write(problem, graph)) is not None
        ]
        share = math.ceil(least / max(1, len(written)))
        return cls(
            problem=problem,
            device=device,
            referee_version=capacity.referee_version,
            noise_floor=capacity.noise_floor,
            programs=(
                ("reference", reference_as_candidate(problem)),
                *((name, _thinned_program(source, share)) for name, source in written),
            ),
        )

    @property
    def sketches(self) -> tuple[Sketch, ...]:
        """The programs as sketches, as they were when the world was written."""
        return tuple(
            Sketch(name=name, device=self.device.kind, write=_Recorded(source))
            for name, source in self.programs[1:]
        )

    def points(self) -> Iterator[tuple[int, Configuration]]:
        """Yield each point: the number of its program and its configuration."""
        for number, (_, source) in enumerate(self.programs):
            space = read_space(source)
            for values in itertools.product(*space.values()):
                yield number, dict(zip(space, values, strict=True))

    def candidate(self, number: int, configuration: Configuration) -> Candidate:
        """Return a program standing at a point."""
        source = self.programs[number][1]
        if configuration:
            source = with_configuration(source, configuration)
        return Candidate.of(self.problem.key, source)


@dataclass(frozen=True, slots=True)
class _Recorded:
    """Stands in for the function of a sketch."""

    source: str

    def __call__(self, problem: Problem, graph: OperatorGraph) -> str:
        return self.source


def thinned(space: Space, start: Configuration, least: int) -> Space:
    """Leave choices out of a space, as long as so many points remain.

    Whichever parameter has the most choices loses one from their middle, two choices at least stay,
    and the start's always does.

    Args:
        space: The space.
        start: The program's own point.
        least: Points that remain at least, where the space has them.
    """
    kept = {name: list(choices) for name, choices in space.items()}

    def can_lose(name: str) -> bool:
        size = math.prod(len(choices) for choices in kept.values())
        return len(kept[name]) > 2 and size // len(kept[name]) * (len(kept[name]) - 1) >= least

    while names := [name for name in kept if can_lose(name)]:
        name = max(names, key=lambda one: len(kept[one]))
        others = [choice for choice in kept[name][1:-1] if choice != start[name]]
        others = others or [choice for choice in kept[name] if choice != start[name]]
        kept[name].remove(others[len(others) // 2])
    return kept


def _thinned_program(source: str, least: int) -> str:
    space = read_space(source)
    return (
        with_space(source, thinned(space, read_configuration(source), least)) if space else source
    )
