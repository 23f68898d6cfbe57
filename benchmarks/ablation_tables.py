"""Tables for `ablation.py`: verdicts on the points of a world.

One file of JSON lines for each problem: a head, then a line for each measurement. Small worlds are
measured several times over, so that noise can be told from speed.
"""

from __future__ import annotations

import hashlib
import json
import statistics
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from archives.configuration import Configuration
from archives.encoding import (
    decode_device,
    decode_evaluation,
    decode_problem,
    encode_device,
    encode_evaluation,
    encode_problem,
    to_text,
)
from archives.evaluation import Evaluation, Status
from benchmarks.ablation_worlds import World

MOST_UNSTABLE = 3
"""Measurements of a point for which the host was too busy, before it is left without a verdict."""


@dataclass(slots=True, kw_only=True)
class Table:
    """The verdicts on the points of a world.

    Attributes:
        path: Its file.
        world: The world.
        measured: Verdicts by id of the candidate, those of a busy host last.
        counts: Verdicts by number of the program and text of the point.
    """

    path: Path
    world: World
    measured: dict[str, list[Evaluation]] = field(default_factory=dict)
    counts: dict[tuple[int, str], list[Status]] = field(default_factory=dict)

    @classmethod
    def create(cls, path: Path, world: World) -> Table:
        """Begin a table with its head."""
        head = {
            "problem": encode_problem(world.problem),
            "device": encode_device(world.device),
            "referee_version": world.referee_version,
            "noise_floor": world.noise_floor,
            "programs": world.programs,
        }
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(to_text(head) + "\n", encoding="utf-8")
        return cls(path=path, world=world)

    @classmethod
    def read(cls, path: Path) -> Table:
        """Read a table; a last line that was cut off is left out, and cut off the file too.

        Raises:
            ValueError: The file is no table.
        """
        text = path.read_text(encoding="utf-8")
        whole, _, rest = text.rpartition("\n")
        if rest:
            path.write_text(whole + "\n", encoding="utf-8")
        lines = [json.loads(line) for line in whole.splitlines()]
        if not lines or "programs" not in lines[0]:
            raise ValueError(f"{path} is no table of ablation.py")
        table = cls(path=path, world=_world(lines[0]))
        for line in lines[1:]:
            table._keep(line)
        return table

    def add(self, number: int, configuration: Configuration, found: Evaluation) -> None:
        """Add a verdict, and write it down at once."""
        line = {
            "candidate": self.world.candidate(number, configuration).id,
            "program": number,
            "configuration": dict(configuration),
            "evaluation": encode_evaluation(
                replace(
                    found, device=None, referee_version="", isolation="", log="",
                    configuration=None, configurations=(),
                )
            ),
        }  # fmt: skip
        with self.path.open("a", encoding="utf-8") as file:
            file.write(to_text(line) + "\n")
        self._keep(line)

    def lacks(self, number: int, configuration: Configuration, times: int) -> int:
        """Return how many of so many measurements a point lacks; 0 where the host stays busy."""
        found = self.counts.get((number, _text(configuration)), [])
        unstable = sum(status is Status.UNSTABLE for status in found)
        return 0 if unstable >= MOST_UNSTABLE else max(0, times - len(found) + unstable)

    def verdict(self, candidate: str, seed: int) -> Evaluation | None:
        """Return one of the measurements of a candidate, always the same for a seed.

        Args:
            candidate: Its id.
            seed: Which search asks.

        Returns:
            The verdict; None where the candidate was never measured.
        """
        found = self.measured.get(candidate)
        if not found:
            return None
        known = [one for one in found if one.status is not Status.UNSTABLE] or found
        digest = hashlib.sha256(f"{seed} {candidate}".encode()).digest()
        return known[int.from_bytes(digest[:4], "big") % len(known)]

    def value(self, candidate: str) -> float | None:
        """Return the median of the speedups of a candidate; None where most verdicts are bad."""
        found = self.measured.get(candidate, ())
        speedups = [one.objective_speedup for one in found if one.objective_speedup is not None]
        known = sum(one.status is not Status.UNSTABLE for one in found)
        return statistics.median(speedups) if 2 * len(speedups) > known else None

    @property
    def reference_ms(self) -> float:
        """The median time of the reference, in ms."""
        times = [
            one.reference_ms
            for found in self.measured.values()
            for one in found
            if one.reference_ms is not None
        ]
        return statistics.median(times) if times else 1.0

    @property
    def best(self) -> float:
        """The highest value of all candidates, the reference among them."""
        values = (self.value(candidate) for candidate in self.measured)
        return max((value for value in values if value is not None), default=1.0)

    @property
    def num_measurements(self) -> int:
        """How many verdicts there are, those of a busy host left out."""
        return sum(
            one.status is not Status.UNSTABLE for found in self.measured.values() for one in found
        )

    def _keep(self, line: Mapping[str, Any]) -> None:
        evaluation = decode_evaluation(line["evaluation"])
        self.measured.setdefault(line["candidate"], []).append(evaluation)
        key = (line["program"], _text(line["configuration"]))
        self.counts.setdefault(key, []).append(evaluation.status)


def read_tables(folder: Path) -> list[Table]:
    """Return the tables of a folder, in the order of their problems."""
    return [Table.read(path) for path in sorted(folder.glob("*.jsonl"))]


def _world(head: Mapping[str, Any]) -> World:
    return World(
        problem=decode_problem(head["problem"]),
        device=decode_device(head["device"]),
        referee_version=head["referee_version"],
        noise_floor=head["noise_floor"],
        programs=tuple((name, source) for name, source in head["programs"]),
    )


def _text(configuration: Configuration) -> str:
    return json.dumps(dict(configuration), sort_keys=True)
