"""Tables for `ablation.py`: verdicts on the points of a world.

One file of JSON lines for each problem: a head, then a line for each measurement. Every point is
measured several times over, so that noise can be told from speed.
"""

from __future__ import annotations

import hashlib
import json
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

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
from benchmarks.json_lines import whole_lines
from problems.errors import ConfigError
from problems.problem import Problem

LEAST_PASSES = 3
"""Measurements of a point at least: a search sees one of them, and the others tell its worth."""
MOST_UNSTABLE = 3
"""Tries at a point for which the host was too busy or the evaluator failed, before it is left
without a verdict."""
_NAMES = "[0-9]-[0-9][0-9][0-9].jsonl"
"""See `path_of`: other files of the folder are no tables."""


@dataclass(slots=True, kw_only=True)
class Table:
    """The verdicts on the points of a world.

    Attributes:
        path: Its file.
        world: The world.
        measured: Verdicts by id of the candidate, in the order in which they were made.
        counts: Verdicts by number of the program and text of the point.
    """

    path: Path
    world: World
    measured: dict[str, list[Evaluation]] = field(default_factory=dict)
    counts: dict[tuple[int, str], list[Status]] = field(default_factory=dict)
    _hash: hashlib._Hash = field(default_factory=hashlib.sha256)

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
        text = to_text(head)
        path.write_text(text + "\n", encoding="utf-8")
        table = cls(path=path, world=world)
        table._count_in(text)
        return table

    @classmethod
    def read(cls, path: Path) -> Table:
        """Read a table; a last line that was not finished is left out, as it may be under way.

        Raises:
            ConfigError: The file is no table.
        """
        lines = whole_lines(path)
        table = cls(path=path, world=_world(path, lines[0] if lines else ""))
        table._count_in(lines[0])
        for line in lines[1:]:
            table._keep(line)
        return table

    @property
    def digest(self) -> str:
        """The sha256 of the file as far as it was read or written here, in hexadecimal."""
        return self._hash.hexdigest()

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
        text = to_text(line)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(text + "\n")
        self._keep(text)

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
        known = self._known(candidate)
        return known[_seen(candidate, seed, known)] if known else None

    def value(self, candidate: str, seed: int | None = None) -> float | None:
        """Return the median of the speedups of a candidate.

        Args:
            candidate: Its id.
            seed: Which search asks: the measurement that it saw is left out, since it was chosen
                for being high. None: all of them count.

        Returns:
            The median; None where nothing else was measured, or not most of it is a speedup.
        """
        known = self._known(candidate)
        if known and seed is not None:
            del known[_seen(candidate, seed, known)]
        speedups = [one.objective_speedup for one in known if one.objective_speedup is not None]
        return statistics.median(speedups) if 2 * len(speedups) > len(known) else None

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

    def _known(self, candidate: str) -> list[Evaluation]:
        """What is known of a candidate: a busy host's verdicts where there are no others."""
        found = self.measured.get(candidate, [])
        return [one for one in found if one.status is not Status.UNSTABLE] or list(found)

    def _keep(self, text: str) -> None:
        self._count_in(text)
        line = json.loads(text)
        evaluation = decode_evaluation(line["evaluation"])
        self.measured.setdefault(line["candidate"], []).append(evaluation)
        key = (line["program"], _text(line["configuration"]))
        self.counts.setdefault(key, []).append(evaluation.status)

    def _count_in(self, text: str) -> None:
        self._hash.update(text.encode() + b"\n")


def path_of(folder: Path, problem: Problem) -> Path:
    """Return the file of a problem's table."""
    return folder / f"{problem.level}-{problem.id:03d}.jsonl"


def table_paths(folder: Path) -> list[Path]:
    """Return the files of a folder's tables, in the order of their problems.

    Raises:
        ConfigError: There are none.
    """
    found = sorted(folder.glob(_NAMES))
    if not found:
        raise ConfigError(f"there are no tables in {folder}: let `record` make some")
    return found


def read_tables(folder: Path) -> list[Table]:
    """Return the tables of a folder, in the order of their problems.

    Raises:
        ConfigError: There are none, or a file is no table.
    """
    return [Table.read(path) for path in table_paths(folder)]


def _world(path: Path, text: str) -> World:
    """The world that the first line of a file tells of."""
    try:
        head = json.loads(text)
    except json.JSONDecodeError:
        head = None
    if not isinstance(head, dict) or "programs" not in head:
        raise ConfigError(f"{path} is no table of ablation.py: take another folder")
    return World(
        problem=decode_problem(head["problem"]),
        device=decode_device(head["device"]),
        referee_version=head["referee_version"],
        noise_floor=head["noise_floor"],
        programs=tuple((name, source) for name, source in head["programs"]),
    )


def _seen(candidate: str, seed: int, known: Sequence[Evaluation]) -> int:
    """Which of the measurements of a candidate a search sees."""
    digest = hashlib.sha256(f"{seed} {candidate}".encode()).digest()
    return int.from_bytes(digest[:4], "big") % len(known)


def _text(configuration: Configuration) -> str:
    return json.dumps(dict(configuration), sort_keys=True)
