"""A world of 13 points for `benchmarks/ablation.py`: the reference and the landscape's program."""

from __future__ import annotations

from archives.configuration import with_space
from benchmarks.ablation_worlds import World
from tests.evokernel import landscape as valley

ZEROS = dict.fromkeys(valley.NAMES, 0)


def small_world() -> World:
    """The landscape's program in 12 points."""
    space = {"A": [0, 1, 6], "B": [0, 6], "C": [0, 5], "D": [0], "E": [0]}
    return World(
        problem=valley.problem(1),
        device=valley.DEVICE,
        referee_version="landscape-1",
        noise_floor=0.015,
        programs=(
            ("reference", valley.problem(1).source.replace("class Model:", "class ModelNew:")),
            ("valley", with_space(valley.PROGRAM, space)),
        ),
    )
