"""Which rewrites there are."""

from __future__ import annotations

from operators.rewrites.arithmetic import DOT_PRECISION, EXP2, RECIPROCAL
from operators.rewrites.grid import PERSISTENT, SEVERAL_TILES
from operators.rewrites.loops import PIPELINE, UNROLL
from operators.rewrites.memory import CACHE_MODIFIER, EVICTION_POLICY
from operators.rewrites.order import REVERSED, SWIZZLE
from operators.rewrites.rewrite import Rewrite

__all__ = ["REWRITES"]

REWRITES: tuple[Rewrite, ...] = (
    EVICTION_POLICY,
    CACHE_MODIFIER,
    PIPELINE,
    UNROLL,
    EXP2,
    RECIPROCAL,
    DOT_PRECISION,
    PERSISTENT,
    SEVERAL_TILES,
    SWIZZLE,
    REVERSED,
)
