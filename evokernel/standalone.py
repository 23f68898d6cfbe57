"""A candidate as a file of its own: runs without EvoKernel and guards what it was written for.

The candidate's text is kept; its class becomes the base of a `ModelNew` that checks number,
shape, type and device of its inputs on entry. A kernel is only known to be right for the inputs
it was measured on, so others are an error, or, with the fallback, are answered by the reference,
whose text the file then carries as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from textwrap import indent

from archives.evaluation import Evaluation
from operators.parts import rename_class
from problems.errors import ProblemError
from problems.graph import OperatorGraph, TensorSpec
from problems.problem import Problem

__all__ = ["standalone"]

_CHECK = '''

# What follows was added by the export: the kernel above, guarded.
import torch as _torch

_EXPECTED_INPUTS = (
{inputs}
)


def _mismatch(inputs):
    """Say in what way inputs are not those that the kernel was written for; "" where they are."""
    if len(inputs) != len(_EXPECTED_INPUTS):
        return f"got {{len(inputs)}} inputs, expected {{len(_EXPECTED_INPUTS)}}"
    for number, (value, expected) in enumerate(zip(inputs, _EXPECTED_INPUTS)):
        if expected is None:
            continue
        if not isinstance(value, _torch.Tensor):
            return f"input {{number}} is a {{type(value).__name__}}, expected a tensor"
        got = (tuple(value.shape), value.dtype, value.device.type)
        for name, found, wanted in zip(("shape", "dtype", "device"), got, expected):
            if found != wanted:
                return f"input {{number}} has {{name}} {{found}}, expected {{wanted}}"
    return ""

'''

_FAIL = '''
class ModelNew({kernel}):
    """The kernel above; other inputs than it was written for are an error."""

    def forward(self, *inputs):
        mismatch = _mismatch(inputs)
        if mismatch:
            raise ValueError(
                f"this kernel does not fit: {{mismatch}}. Use the reference for these inputs."
            )
        return super().forward(*inputs)
'''

_FALL_BACK = '''
_REFERENCE_SOURCE = {reference}


class ModelNew({kernel}):
    """The kernel above; other inputs than it was written for go to the reference."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self._construction = (args, kwargs)
        self._reference = ()

    def forward(self, *inputs):
        if not _mismatch(inputs):
            return super().forward(*inputs)
        if not self._reference:
            module = {{}}
            exec(_REFERENCE_SOURCE, module)
            args, kwargs = self._construction
            # In a tuple, so that it does not register its parameters a second time.
            self._reference = (module["Model"](*args, **kwargs),)
        reference = self._reference[0].train(self.training)
        state = {{**dict(self.named_parameters()), **dict(self.named_buffers())}}
        return _torch.func.functional_call(reference, state, inputs, strict=True)
'''


def standalone(
    problem: Problem,
    source: str,
    evaluation: Evaluation,
    graph: OperatorGraph,
    *,
    fallback: bool = False,
) -> str:
    """Return the text of a stand-alone module with a guarded `ModelNew`.

    Args:
        problem: The problem that the candidate solves.
        source: The candidate's text.
        evaluation: What is known of it, for the header.
        graph: The reference's graph; tells what the inputs look like.
        fallback: True: other inputs go to the reference, with the kernel's own parameters,
            which must be named as the reference's; False: they are an error.

    Raises:
        ProblemError: The candidate's text does not parse.
    """
    kernel = "GuardedKernel"
    while kernel in source:
        kernel += "_"
    try:
        renamed = rename_class(source, "ModelNew", kernel)
    except (SyntaxError, ValueError) as error:
        raise ProblemError(
            f"the candidate for {problem.label} does not parse ({error}): it cannot be exported"
        ) from error
    device = "cpu" if evaluation.device is None else evaluation.device.kind
    inputs = indent("\n".join(f"{_expected(spec, device)}," for spec in graph.inputs), " " * 4)
    guard = _FALL_BACK if fallback else _FAIL
    return (
        _header(problem, evaluation)
        + renamed.rstrip("\n")
        + "\n"
        + _CHECK.format(inputs=inputs)
        + guard.format(kernel=kernel, reference=_literal(problem.source))
    )


def _header(problem: Problem, evaluation: Evaluation) -> str:
    lines = [f"{problem.label}, {problem.scale} scale: a kernel found by EvoKernel."]
    if problem.precision != "fp32":
        lines.append(
            f"It is for {problem.precision}: after construction convert the parameters and "
            "buffers that the reference has, too, as the referee did."
        )
    interval = evaluation.interval
    if evaluation.speedup is not None and interval is not None:
        lines.append(
            f"{evaluation.speedup:.2f}x (99 % interval {interval.low:.2f} to {interval.high:.2f}): "
            f"{evaluation.latency_ms:.4f} ms against {evaluation.reference_ms or 0.0:.4f} ms of "
            "eager PyTorch."
        )
    if evaluation.device is not None and evaluation.device.kind == "cuda":
        lines += _of_the_gpu(evaluation)
    if evaluation.device is not None:
        versions = ", ".join(f"{k} {v}" for k, v in sorted(evaluation.device.versions.items()))
        lines.append(f"Measured on {evaluation.device} ({versions}).")
    lines.append(
        f"Rung {evaluation.rung.name.lower()}, referee {evaluation.referee_version or 'unknown'}."
    )
    return "".join(f"# {line}\n" for line in lines)


def _of_the_gpu(evaluation: Evaluation) -> Iterator[str]:
    """How it stands against torch's other settings, and against the device."""
    if evaluation.matched_speedup is not None:
        yield (
            f"{evaluation.matched_speedup:.2f}x against the fastest PyTorch setting that is no "
            "less accurate (TF32 off, default or on)."
        )
    if evaluation.roofline_share is not None:
        yield f"{evaluation.roofline_share:.0%} of what the device was measured to allow."


def _expected(spec: TensorSpec | float | int | bool | None, device: str) -> str:
    """An entry of the expected inputs; None stands for a plain number, which may be any."""
    if not isinstance(spec, TensorSpec):
        return "None"
    return f'({spec.shape!r}, _torch.{spec.dtype}, "{device}")'


def _literal(text: str) -> str:
    """A string literal, over several lines where that is possible."""
    plain = '"""' not in text and "\\" not in text and not text.endswith('"')
    return f'"""\\\n{text}"""' if plain else repr(text)
