"""Every sketch, in the order in which they are tried."""

from __future__ import annotations

from operators.sketches.cpp.attention import BLOCKED_ATTENTION
from operators.sketches.cpp.convolution import DIRECT_CONVOLUTION
from operators.sketches.cpp.depthwise import DEPTHWISE_ROWS, DEPTHWISE_SEPARABLE
from operators.sketches.cpp.matmul import BLOCKED_MATMUL, MATRIX_VECTOR
from operators.sketches.cpp.pooling import SEPARABLE_POOL
from operators.sketches.cpp.scan import SCAN_COLUMNS, SCAN_ROWS
from operators.sketches.cpp.sweeps import KEPT_SWEEP, ONLINE_SWEEP, SHIFTED_SWEEP, SWEEP
from operators.sketches.cpp.tiles import COLUMN_TILES
from operators.sketches.sketch import Sketch

__all__ = ["SKETCHES"]

SKETCHES: tuple[Sketch, ...] = (
    SWEEP,
    KEPT_SWEEP,
    ONLINE_SWEEP,
    SHIFTED_SWEEP,
    COLUMN_TILES,
    SCAN_ROWS,
    SCAN_COLUMNS,
    SEPARABLE_POOL,
    MATRIX_VECTOR,
    BLOCKED_MATMUL,
    DEPTHWISE_ROWS,
    DEPTHWISE_SEPARABLE,
    DIRECT_CONVOLUTION,
    BLOCKED_ATTENTION,
)
