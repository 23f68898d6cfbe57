"""Every sketch; which of those that fit comes next is drawn at random."""

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
from operators.sketches.triton.attention import (
    ONLINE_ATTENTION,
    STAGED_ATTENTION,
    TILED_ATTENTION,
)
from operators.sketches.triton.convolution import NARROW_CONVOLUTION, SHIFTED_CONVOLUTION
from operators.sketches.triton.convolution_followed import (
    DEPTHWISE_FOLLOWED,
    FOURS_FOLLOWED,
    GATHERED_FOLLOWED,
    NARROW_FOLLOWED,
    NARROW_GATHERED_FOLLOWED,
    SHIFTED_FOLLOWED,
)
from operators.sketches.triton.convolution_gather import (
    GATHERED_CONVOLUTION,
    NARROW_GATHERED,
    NARROW_SEPARABLE,
    SEPARABLE_CONVOLUTION,
    STAGED_SEPARABLE,
)
from operators.sketches.triton.depthwise import DEPTHWISE_BY_FOURS, DEPTHWISE_CONVOLUTION
from operators.sketches.triton.elementwise import TRITON_MAP
from operators.sketches.triton.groups import (
    TRITON_GROUPS,
    TRITON_GROUPS_ONLINE,
    TRITON_GROUPS_SHIFTED,
)
from operators.sketches.triton.lookback import TRITON_SCAN_ONE_PASS
from operators.sketches.triton.matmul import PACKED_MATMUL, TILED_MATMUL
from operators.sketches.triton.matmul_followed import PACKED_FOLLOWED, TILED_FOLLOWED
from operators.sketches.triton.matmul_reduced import TILED_REDUCED
from operators.sketches.triton.matmul_wide import WIDE_MATMUL
from operators.sketches.triton.matvec import MATRIX_VECTOR as MATRIX_VECTOR_TRITON
from operators.sketches.triton.pooling import POOL_BY_FOURS, SLIDING_POOL
from operators.sketches.triton.scan import TRITON_SCAN
from operators.sketches.triton.split import (
    TRITON_SPLIT,
    TRITON_SPLIT_ONLINE,
    TRITON_SPLIT_SHIFTED,
)
from operators.sketches.triton.sweeps import (
    TRITON_HELD,
    TRITON_SWEEP,
    TRITON_SWEEP_ONLINE,
    TRITON_SWEEP_SHIFTED,
)
from operators.sketches.triton.tapwise import TAPWISE_CONVOLUTION

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
    TRITON_MAP,
    TRITON_HELD,
    TRITON_SWEEP,
    TRITON_SWEEP_ONLINE,
    TRITON_SWEEP_SHIFTED,
    TRITON_SPLIT,
    TRITON_SPLIT_ONLINE,
    TRITON_SPLIT_SHIFTED,
    TRITON_GROUPS,
    TRITON_GROUPS_ONLINE,
    TRITON_GROUPS_SHIFTED,
    TRITON_SCAN,
    TRITON_SCAN_ONE_PASS,
    MATRIX_VECTOR_TRITON,
    PACKED_MATMUL,
    TILED_MATMUL,
    WIDE_MATMUL,
    PACKED_FOLLOWED,
    TILED_FOLLOWED,
    TILED_REDUCED,
    SHIFTED_CONVOLUTION,
    NARROW_CONVOLUTION,
    GATHERED_CONVOLUTION,
    NARROW_GATHERED,
    TAPWISE_CONVOLUTION,
    SEPARABLE_CONVOLUTION,
    STAGED_SEPARABLE,
    NARROW_SEPARABLE,
    DEPTHWISE_CONVOLUTION,
    DEPTHWISE_BY_FOURS,
    SLIDING_POOL,
    POOL_BY_FOURS,
    ONLINE_ATTENTION,
    STAGED_ATTENTION,
    TILED_ATTENTION,
    SHIFTED_FOLLOWED,
    NARROW_FOLLOWED,
    GATHERED_FOLLOWED,
    NARROW_GATHERED_FOLLOWED,
    DEPTHWISE_FOLLOWED,
    FOURS_FOLLOWED,
)
