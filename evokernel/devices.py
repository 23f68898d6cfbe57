"""Kinds of device: which one a run measures on, and what follows from that."""

from __future__ import annotations

from problems.errors import ConfigError
from problems.problem import Scale

__all__ = ["DEVICE_WORDS", "default_scale", "device_kind"]

DEVICE_WORDS = {"cpu": "the CPU", "cuda": "the GPU"}
"""Names of the kinds for people."""


def device_kind(option: str, address: str | None = None) -> str:
    """Return the kind of device that `--device` asks for: "cpu" or "cuda".

    Args:
        option: "auto" (a GPU where there is one), "cpu" or "cuda".
        address: Of a Ray cluster, which is joined, asked for its GPUs and left: this machine
            needs none then; None or "local": this machine is asked.

    Raises:
        ConfigError: It cannot be measured on.
        EvaluatorError: The cluster cannot be joined.
    """
    if option == "cpu":
        return "cpu"
    from evaluator.cluster import LOCAL, num_gpus_at
    from evaluator.referee.cuda.device import gpu_count

    address = address or LOCAL
    is_local = address == LOCAL
    if gpu_count() if is_local else num_gpus_at(address):
        return "cuda"
    if option == "cuda" and is_local:
        raise ConfigError(
            "--device cuda: no NVIDIA GPU was found here (nvidia-smi lists none): install the "
            "driver, or give --device cpu"
        )
    if option == "cuda":
        raise ConfigError(
            f"--device cuda: no node of the Ray cluster at {address} has a GPU ('ray status' lists "
            "what they have): add a node with one, or give --device cpu"
        )
    return "cpu"


def default_scale(kind: str) -> Scale:
    """Return the scale of bundled problems where none is asked for.

    Args:
        kind: "cpu" or "cuda"; a GPU takes KernelBench's own sizes, a CPU smaller ones.
    """
    return Scale.OFFICIAL if kind == "cuda" else Scale.SMALL
