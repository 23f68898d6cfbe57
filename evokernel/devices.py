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
        option: "auto", "cpu" or "cuda".

    Raises:
        ConfigError: It cannot be measured on.
    """
    if option == "cuda":
        raise ConfigError(
            "--device cuda: this release measures on the CPU only, GPUs follow: "
            "leave the option out, or give --device cpu"
        )
    return "cpu"


def default_scale(kind: str) -> Scale:
    """Return the scale of bundled problems where none is asked for.

    Args:
        kind: "cpu" or "cuda"; a GPU takes KernelBench's own sizes, a CPU smaller ones.
    """
    return Scale.OFFICIAL if kind == "cuda" else Scale.SMALL
