"""Completes Triton kernels to a program."""

from __future__ import annotations

from dataclasses import dataclass

from archives.configuration import Configuration, Space
from operators.sketches.module import Program, write_module
from problems.graph import OperatorGraph
from problems.problem import Problem

__all__ = ["TritonProgram", "write_program"]

_IMPORTS = ("import triton", "import triton.language as tl")


@dataclass(frozen=True, slots=True, kw_only=True)
class TritonProgram:
    """What a sketch in Triton brings.

    Attributes:
        summary: See `Program`.
        space: Its `TUNE_PARAMS`: block sizes, choices of structure, `num_warps`, `num_stages`.
        configuration: Its default `CONFIG`.
        kernels: The text of its `@triton.jit` functions and of Python helpers. Whatever depends
            on the configuration is a `tl.constexpr` argument of a kernel.
        values: See `Program`.
        body: See `Program`; launches take their parameters from `CONFIG`.
        imports: Lines that import more than `triton` and `triton.language as tl`.
    """

    summary: str
    space: Space
    configuration: Configuration
    kernels: str
    values: tuple[str, ...]
    body: tuple[str, ...]
    imports: tuple[str, ...] = ()


def write_program(problem: Problem, graph: OperatorGraph, program: TritonProgram) -> str | None:
    """Write a program in Triton out as a module; None where `write_module` finds it impossible."""
    return write_module(
        problem,
        graph,
        Program(
            summary=program.summary,
            device="cuda",
            space=program.space,
            configuration=program.configuration,
            imports=(*_IMPORTS, *program.imports),
            definitions=program.kernels,
            values=program.values,
            body=program.body,
        ),
    )
