"""How sliding windows are taken: the texts of `slide`, with their parameters and constants."""

from __future__ import annotations

from dataclasses import dataclass

from archives.configuration import Configuration, Space
from operators.sketches.patterns.windows import Windows
from operators.sketches.triton.convolution import block_from
from operators.sketches.triton.fours_text import fours_text, reach_ahead, vectors_of
from operators.sketches.triton.pooling_text import Reduction, windows_text

__all__ = [
    "Slide",
    "by_fours",
    "by_windows",
    "is_rolling",
    "reaches_outside",
    "windows_configuration",
    "windows_space",
    "windows_values",
]

_MOST_VECTORS = 16
"""Vectors, at most, that four neighbouring windows need of rows at once: all have registers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Slide:
    """A way to take all windows.

    Attributes:
        text: Text of the kernels and of `slide(x, taps, bias, out)`, given the constants.
        values: Constants of the geometry.
        space: Parameters.
        configuration: Their defaults.
    """

    text: str
    values: dict[str, int]
    space: Space
    configuration: Configuration


def by_windows(reduction: Reduction, windows: Windows, *, followed: bool = False) -> Slide:
    """Take each element of a window by itself; for `followed` see `windows_text`."""
    return Slide(
        text=windows_text(
            reduction,
            windows.kernel,
            rolling=is_rolling(windows),
            outside=reaches_outside(windows),
            followed=followed,
        ),
        values=windows_values(windows),
        space=windows_space(windows),
        configuration=windows_configuration(windows),
    )


def by_fours(reduction: Reduction, windows: Windows, *, followed: bool = False) -> Slide | None:
    """Take four neighbouring windows at once; None where they do not move by one element.

    For `followed` see `windows_text`.
    """
    if not _moves_by_one(windows):
        return None
    width, rows = block_from(windows.out[2], 64, 1024), windows.out[1] > 1
    lanes = max(1, 512 // width)
    return Slide(
        text=fours_text(reduction, windows, followed=followed),
        values=windows_values(windows) | {"AHEAD": reach_ahead(windows)},
        space={
            "BLOCK_C": (1, 2, 4),
            "BLOCK_H": (8, 16, 32, 64, 128) if rows else (1,),
            "BLOCK_W": tuple(b for b in (width, width // 2, width // 4) if b >= min(width, 128)),
            "UNROLL": (1, 2, 4) if rows else (1,),
            "num_warps": (1, 2, 4, 8),
        },
        configuration={
            "BLOCK_C": min(4, lanes),
            "BLOCK_H": 32 if windows.out[1] >= 128 else 16 if rows else 1,
            "BLOCK_W": width,
            "UNROLL": 2 if rows else 1,
            "num_warps": 4 if width >= 512 else 2,
        },
    )


def _moves_by_one(windows: Windows) -> bool:
    """Tell whether windows overlap, and each next one begins one row or column further."""
    depth, height, width = windows.kernel
    return (
        height * width > 1
        and windows.stride[1] == windows.stride[2] == 1
        and (height == 1 or windows.dilation[1] == 1)
        and height <= 16
        and depth * width <= 32
        and depth * len(vectors_of(windows)) <= _MOST_VECTORS
    )


def windows_values(windows: Windows) -> dict[str, int]:
    """Return the constants of a geometry, as the kernels name them."""
    groups = {
        "SIZE": windows.size,
        "OUT": windows.out,
        "KERNEL": windows.kernel,
        "STRIDE": windows.stride,
        "PADDING": windows.padding,
        "DILATION": windows.dilation,
    }
    return {
        f"{name}_{letter}": value
        for name, triple in groups.items()
        for letter, value in zip("DHW", triple, strict=True)
    } | {"OUTSIDE": int(reaches_outside(windows))}


def reaches_outside(windows: Windows) -> bool:
    """Tell whether windows reach beyond the input, on either side."""
    return any(
        padding or (out - 1) * stride + (kernel - 1) * dilation >= size
        for out, stride, kernel, dilation, size, padding in zip(
            windows.out,
            windows.stride,
            windows.kernel,
            windows.dilation,
            windows.size,
            windows.padding,
            strict=True,
        )
    )


def is_rolling(windows: Windows) -> bool:
    """Tell whether each next row of windows takes in one more row of the input."""
    return (
        1 < windows.kernel[1] <= 16
        and windows.stride[1] == windows.dilation[1] == 1
        and windows.kernel[0] * windows.kernel[2] <= 32
    )


def windows_space(windows: Windows) -> Space:
    """Return the parameters of `windows_text`'s kernels."""
    width = block_from(windows.out[2], 16, 1024)
    widths = tuple(b for b in (width, width // 2, width // 4) if b >= min(width, 64))
    if not is_rolling(windows):
        return {
            "BLOCK_C": (1, 2, 4),
            "BLOCK_H": (1, 2, 4, 8, 16) if windows.out[1] > 1 else (1,),
            "BLOCK_W": widths,
            "num_warps": (1, 2, 4, 8),
        }
    return {
        "ROLLING": (True, False),
        "BLOCK_C": (1, 2, 4),
        "BLOCK_H": (4, 8, 16, 32, 64),
        "BLOCK_W": widths,
        "UNROLL": (1, 2, 4),
        "num_warps": (1, 2, 4, 8),
    }


def windows_configuration(windows: Windows) -> Configuration:
    """Return the default point of `windows_space`."""
    width = block_from(windows.out[2], 16, 1024)
    lanes = max(1, 256 // width)
    if not is_rolling(windows):
        return {
            "BLOCK_C": 1,
            "BLOCK_H": min(8, 2 * lanes) if windows.out[1] > 1 else 1,
            "BLOCK_W": width,
            "num_warps": 4,
        }
    return {
        "ROLLING": True,
        "BLOCK_C": min(4, lanes),
        "BLOCK_H": 32 if windows.out[1] >= 128 else 16,
        "BLOCK_W": width,
        "UNROLL": 2,
        "num_warps": 4 if width >= 512 else 2,
    }
