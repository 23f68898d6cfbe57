"""Inductor's code for a few tiny problems, as it was generated."""

from __future__ import annotations

from pathlib import Path

from operators.lifting.generated import read_generated
from problems.catalogue import load_level
from problems.lifted import Argument, Kernel, Lifted, Output
from problems.problem import Problem, Scale

__all__ = ["GENERATED", "lifted_text", "problem_of"]

GENERATED = {
    "softmax_looped": (23, ("x",)),
    "cumsum": (89, ("x",)),
    "layer_norm": (40, ("self.ln.weight", "self.ln.bias", "x")),
    "mse_loss": (94, ("predictions", "targets")),
    "batch_norm": (
        33,
        (
            "x",
            "self.bn.num_batches_tracked",
            "self.bn.running_mean",
            "self.bn.running_var",
            "self.bn.weight",
            "self.bn.bias",
        ),
    ),
    "transposed_convolution": (61, ("self.conv_transpose3d.weight", "x")),
}
"""Problem of level 1 and arguments of the generated code, by the name of the file with the code.

Written by torch 2.13 with its Triton backend for CPUs, options "default" or "looped", shortened to
what is read.
"""
_FOLDER = Path(__file__).parent / "generated"
_BLOCKS = {"XBLOCK": 2, "YBLOCK": 4, "R0_BLOCK": 64, "num_warps": 4, "num_stages": 1}


def problem_of(name: str) -> Problem:
    """Return the problem that a text was generated for."""
    return load_level(1, Scale.TINY, [GENERATED[name][0]])[0]


def lifted_text(name: str) -> Lifted:
    """Return a generated text with what a run on the device would have told."""
    code = (_FOLDER / f"{name}.txt").read_text()
    arguments = tuple(
        Argument(state=source) if source.startswith("self.") else Argument(input=index)
        for index, source in _numbered(GENERATED[name][1])
    )
    kernels = {
        # Few programs: an interpreter takes a millisecond for each.
        one: Kernel(picked=_BLOCKS | ({"XBLOCK": 256} if "_poi_" in one else {}))
        for one in read_generated(code).kernels
    }
    return Lifted(
        options="default",
        code=code,
        arguments=arguments,
        outputs=(Output(result=0),),
        kernels=kernels,
        torch="2.13.0",
    )


def _numbered(sources: tuple[str, ...]) -> list[tuple[int, str]]:
    """Sources with the place of each among the inputs; a state's place is not used."""
    inputs = [source for source in sources if not source.startswith("self.")]
    return [(inputs.index(s) if s in inputs else -1, s) for s in sources]
