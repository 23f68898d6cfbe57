"""What a device was measured to reach: the rates that a ceiling is computed from."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

__all__ = ["Rates"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """Best rates seen on one device; None: it has no such unit.

    Attributes:
        read_gbps: Reading memory far larger than the caches, GB/s (10^9 bytes).
        write_gbps: Writing it, GB/s.
        copy_gbps: Copying it, bytes read plus bytes written, GB/s.
        fp32: Product of float32 matrices on the vector units, TFLOP/s; on a CPU
            also multiply-adds in its registers, whichever are faster.
        tf32: The same with TF32 operands on the matrix units, TFLOP/s.
        fp16: Product of 16-bit matrices with float32 sums, TFLOP/s.
        launch_ms: Shortest time measured around one tiny kernel, ms.
    """

    read_gbps: float
    write_gbps: float
    copy_gbps: float
    fp32: float
    launch_ms: float
    tf32: float | None = None
    fp16: float | None = None

    def __post_init__(self) -> None:
        given = (value for value in asdict(self).values() if value is not None)
        assert all(value > 0 for value in given), f"rates are positive, got {self}"

    def to_json(self) -> dict[str, Any]:
        """Return the rates as JSON-able data."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Rates:
        """Rebuild rates from `to_json`."""
        return cls(**data)
