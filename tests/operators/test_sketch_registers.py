"""Programs written for machines with fewer or narrower vector registers."""

from __future__ import annotations

import pytest

from archives.configuration import read_configuration, read_space
from operators.sketches.cpp.registers import fit_registers
from operators.sketches.registry import SKETCHES
from problems.catalogue import load_level
from problems.problem import Scale
from problems.trace import trace

TILE = """
TUNE_PARAMS = {"ROWS": [4, 6, 8, 14], "VECTORS": [1, 2, 3, 4], "LANES": [8, 16], "PACK": [True]}
CONFIG = {"ROWS": 8, "VECTORS": 3, "LANES": 16, "PACK": True}
"""
SWEEP = """
TUNE_PARAMS = {"LANES": [16, 64], "VECTOR_BITS": [256, 512]}
CONFIG = {"LANES": 64, "VECTOR_BITS": 512}
"""


def test_a_tile_of_sums_fits_the_sixteen_registers_of_avx2() -> None:
    source = fit_registers(TILE, 256)
    assert read_space(source) == {
        "ROWS": (4, 6),
        "VECTORS": (1, 2, 3),
        "LANES": (8,),
        "PACK": (True,),
    }
    assert read_configuration(source) == {"ROWS": 6, "VECTORS": 2, "LANES": 8, "PACK": True}


def test_lanes_that_the_compiler_divides_stay() -> None:
    source = fit_registers(SWEEP, 256)
    assert read_space(source) == {"LANES": (16, 64), "VECTOR_BITS": (256,)}
    assert read_configuration(source) == {"LANES": 64, "VECTOR_BITS": 256}


def test_narrower_registers_than_any_choice_leave_the_smallest() -> None:
    assert read_space(fit_registers(TILE, 128))["LANES"] == (8,)


@pytest.mark.parametrize("bits", [0, 512])
def test_nothing_is_left_out_where_all_fits_or_nothing_is_known(bits: int) -> None:
    assert fit_registers(TILE, bits) == TILE


def test_a_program_without_parameters_stays() -> None:
    assert fit_registers("x = 1\n", 256) == "x = 1\n"


@pytest.mark.parametrize("number", [1, 4, 42, 50, 86])
def test_every_sketch_stands_in_its_space_on_a_smaller_machine(number: int) -> None:
    [problem] = load_level(1, Scale.SMALL, [number])
    graph = trace(problem.source)
    written = [sketch.write(problem, graph) for sketch in SKETCHES]
    sources = [fit_registers(source, 256) for source in written if source is not None]
    assert sources
    for source in sources:
        space, point = read_space(source), read_configuration(source)
        assert point.keys() == space.keys()
        assert all(point[name] in choices for name, choices in space.items())
