"""Completes C++ text to a program: how it is compiled, loaded and called through ctypes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from archives.configuration import Configuration, Space
from operators.cpp_loader import FLAGS, IMPORTS, loaded, loader, source_of
from operators.sketches.module import Program, write_module
from problems.graph import OperatorGraph
from problems.problem import Problem

__all__ = ["CppProgram", "write_program"]

_LETTERS = {"p": "ctypes.c_void_p", "l": "ctypes.c_long", "f": "ctypes.c_float"}


@dataclass(frozen=True, slots=True, kw_only=True)
class CppProgram:
    """What a sketch in C++ brings.

    Attributes:
        summary: See `Program`.
        space: Its `TUNE_PARAMS`. Each is passed to the compiler as -DNAME=VALUE (booleans as 0
            and 1); "VECTOR_BITS" (256 or 512) also sets the preferred width of vectors.
        configuration: Its default `CONFIG`.
        cpp: The C++ text. Functions to be called are `extern "C" void`.
        functions: For each C function called, the letters of its arguments: "p" for a pointer
            (pass `tensor.data_ptr()`), "l" for a long, "f" for a float.
        values: See `Program`.
        body: See `Program`; the functions are attributes of `KERNELS`.
    """

    summary: str
    space: Space
    configuration: Configuration
    cpp: str
    functions: Mapping[str, str]
    values: tuple[str, ...]
    body: tuple[str, ...]


def write_program(problem: Problem, graph: OperatorGraph, program: CppProgram) -> str | None:
    """Write a program in C++ out as a module; None where `write_module` finds it impossible."""
    types = {name: [_LETTERS[one] for one in each] for name, each in program.functions.items()}
    definitions = (
        source_of(program.cpp),
        loader(repr(list(FLAGS)), '"-lmvec", "-lm"'),
        loaded("CONFIG", types),
    )
    return write_module(
        problem,
        graph,
        Program(
            summary=program.summary,
            device="cpu",
            space=program.space,
            configuration=program.configuration,
            imports=IMPORTS,
            definitions="\n\n".join(definitions),
            values=program.values,
            body=program.body,
        ),
    )
