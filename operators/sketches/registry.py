"""Every sketch, in the order in which they are tried."""

from __future__ import annotations

from operators.sketches.attention import BLOCKED_ATTENTION
from operators.sketches.convolution import DIRECT_CONVOLUTION
from operators.sketches.depthwise import DEPTHWISE_ROWS, DEPTHWISE_SEPARABLE
from operators.sketches.matmul import BLOCKED_MATMUL, MATRIX_VECTOR
from operators.sketches.pooling import SEPARABLE_POOL
from operators.sketches.scan import SCAN_COLUMNS, SCAN_ROWS
from operators.sketches.sketch import Sketch
from operators.sketches.sweeps import KEPT_SWEEP, ONLINE_SWEEP, SHIFTED_SWEEP, SWEEP
from operators.sketches.tiles import COLUMN_TILES

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
