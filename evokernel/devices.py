"""Kinds of device: which one a run measures on, and what follows from that."""

from __future__ import annotations

from problems.errors import ConfigError
from problems.problem import Scale

__all__ = ["DEVICE_WORDS", "default_scale", "device_kind"]

DEVICE_WORDS = {"cpu": "the CPU", "cuda": "the GPU"}
"""Names of the kinds for people."""


def device_kind(option: str) -> str:
    """Return the kind of device that `--device` asks for: "cpu" or "cuda".

    Args:
        option: "auto" (a GPU where there is one), "cpu" or "cuda".

    Raises:
        ConfigError: It cannot be measured on.
    """
    if option == "cpu":
        return "cpu"
    from evaluator.referee.cuda.device import gpu_count

    if gpu_count():
        return "cuda"
    if option == "cuda":
        raise ConfigError(
            "--device cuda: no NVIDIA GPU was found here (nvidia-smi lists none): install the "
            "driver, or give --device cpu"
        )
    return "cpu"


def default_scale(kind: str) -> Scale:
    """Return the scale of bundled problems where none is asked for.

    Args:
        kind: "cpu" or "cuda"; a GPU takes KernelBench's own sizes, a CPU smaller ones.
    """
    return Scale.OFFICIAL if kind == "cuda" else Scale.SMALL
