"""No candidate is faster than light: what the GPU's datasheet does not allow is no verdict."""

from __future__ import annotations

from evaluator.referee.hardware import Device, find_device
from evaluator.referee.possible import Limits
from problems.errors import ConfigError

__all__ = ["SpeedOfLight"]


class SpeedOfLight(Limits):
    """The bounds of problems on one GPU, each computed once. Usable from several threads."""

    def __init__(self, gpu_name: str) -> None:
        """Look the GPU up; one that the hardware table lacks is held against nothing.

        Args:
            gpu_name: As the driver reports it.
        """
        device: Device | None
        try:
            device = find_device(gpu_name)
        except ConfigError:
            device = None
        super().__init__(device)
