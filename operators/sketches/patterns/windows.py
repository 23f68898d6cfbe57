"""Geometry of sliding windows: what pooling and convolutions have in common."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["Windows", "merged"]

Triple = tuple[int, int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Windows:
    """Windows over depth, height and width; missing leading dimensions have size 1.

    Attributes:
        size: Input sizes.
        out: Output sizes.
        kernel: Taps of a window.
        stride: Distance of neighbouring windows.
        padding: Elements added in front.
        dilation: Distance of neighbouring taps.
    """

    size: Triple
    out: Triple
    kernel: Triple
    stride: Triple
    padding: Triple
    dilation: Triple

    @classmethod
    def of(
        cls,
        *,
        size: Sequence[int],
        out: Sequence[int],
        kernel: Sequence[int],
        stride: Sequence[int],
        padding: Sequence[int],
        dilation: Sequence[int],
    ) -> Windows:
        """Fill missing leading dimensions; a single value stands for all."""
        dims = len(size)
        return cls(
            size=_three(size, dims, 1),
            out=_three(out, dims, 1),
            kernel=_three(kernel, dims, 1),
            stride=_three(stride, dims, 1),
            padding=_three(padding, dims, 0),
            dilation=_three(dilation, dims, 1),
        )

    def values(self) -> dict[str, int]:
        """Return the values that the C++ texts use: ID, IH, IW, OD, ..., DW."""
        groups = {
            "I": self.size,
            "O": self.out,
            "K": self.kernel,
            "S": self.stride,
            "P": self.padding,
            "D": self.dilation,
        }
        return {
            f"{letter}{axis}": value
            for letter, triple in groups.items()
            for axis, value in zip("DHW", triple, strict=True)
        }


def merged(windows: Windows) -> Windows:
    """Join the last two dimensions as long as windows do not extend along the last.

    A column of windows of height 3 over rows of length W is a window of 3 taps, W apart, over one
    long row: long rows suit vectors.
    """
    for _ in range(2):
        plain = (
            windows.kernel[2] == windows.stride[2] == windows.stride[1] == 1
            and windows.padding[2] == 0
            and windows.size[2] == windows.out[2]
        )
        if not plain:
            break
        width = windows.size[2]
        windows = Windows(
            size=(1, windows.size[0], windows.size[1] * width),
            out=(1, windows.out[0], windows.out[1] * width),
            kernel=(1, windows.kernel[0], windows.kernel[1]),
            stride=(1, windows.stride[0], 1),
            padding=(0, windows.padding[0], windows.padding[1] * width),
            dilation=(1, windows.dilation[0], windows.dilation[1] * width),
        )
    return windows


def _three(values: Sequence[int], dims: int, fill: int) -> Triple:
    full = list(values) * dims if len(values) == 1 else list(values)
    first, second, third = [fill] * (3 - dims) + full[:dims]
    return first, second, third
