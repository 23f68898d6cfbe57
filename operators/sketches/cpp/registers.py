"""Fits a written program to the vector registers of the machine that it is written for.

A register tile that is too large for the machine is not a bit slower, it is slower than no tile:
with vectors of 16 floats a matrix product takes 25 times as long on AVX2 as with vectors of 8,
since the compiler keeps them in memory. Such points are left out of the space, not tried.
"""

from __future__ import annotations

from collections.abc import Sequence

from archives.configuration import (
    Space,
    read_configuration,
    read_space,
    with_configuration,
    with_space,
)

__all__ = ["fit_registers"]

_FLOAT_BITS = 32
_FULL_WIDTH = 512
_REGISTERS = 16
"""Vector registers of AVX2; AVX-512 has 32, for which the spaces are made."""
_TILES = (
    ("ROWS", "VECTORS"),
    ("ROWS", "ACCUMULATORS"),
    ("OC_BLOCK", "VECTORS"),
    ("ROW_BLOCK", "VECTORS"),
)
"""Parameters whose product is a tile of sums."""
_MOST_ROWS, _MOST_VECTORS = 6, 3


def fit_registers(source: str, vector_bits: int) -> str:
    """Leave out of a program's space what a machine has no registers for.

    Args:
        source: A program; one without parameters stays as it is. "LANES" are floats of a vector
            that the program writes out, unless it has "VECTOR_BITS", the width that the compiler
            is to prefer; `_TILES` are kept in registers.
        vector_bits: Width of the machine's vector registers; 0: not known, nothing is left out.
    """
    space = dict(read_space(source))
    if not space or not 0 < vector_bits < _FULL_WIDTH:
        return source
    if "VECTOR_BITS" in space:
        space["VECTOR_BITS"] = _up_to(space["VECTOR_BITS"], vector_bits)
    elif "LANES" in space:
        space["LANES"] = _up_to(space["LANES"], vector_bits // _FLOAT_BITS)
    for rows, vectors in _tiles(space):
        space[rows] = _up_to(space[rows], _MOST_ROWS)
        space[vectors] = _up_to(space[vectors], _MOST_VECTORS)
    if space == dict(read_space(source)):
        return source
    return with_configuration(with_space(source, space), _nearest(source, space))


def _tiles(space: Space) -> list[tuple[str, str]]:
    return [tile for tile in _TILES if space.keys() >= set(tile)]


def _up_to(choices: Sequence[bool | int | float | str], most: int) -> tuple[int, ...]:
    """The numbers that are small enough, or the smallest one."""
    numbers = sorted(int(choice) for choice in choices)
    return tuple(number for number in numbers if number <= most) or (numbers[0],)


def _nearest(source: str, space: Space) -> dict[str, bool | int | float | str]:
    """The program's point, moved into the space, its tile and operands kept in registers."""
    point = dict(read_configuration(source))
    for name, choices in space.items():
        if name in point and point[name] not in choices:
            point[name] = choices[-1]
    for rows, vectors in _tiles(space):
        fitting = [v for v in space[vectors] if (int(point[rows]) + 1) * int(v) < _REGISTERS]
        point[vectors] = min(point[vectors], max(fitting, default=space[vectors][0]))
    return point
