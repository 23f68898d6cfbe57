"""Completes C++ text to a program: how it is compiled, loaded and called through ctypes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from archives.configuration import Configuration, Space
from operators.sketches.module import Program, write_module
from problems.graph import OperatorGraph
from problems.problem import Problem

__all__ = ["FLAGS", "CppProgram", "write_program"]

FLAGS = (
    "-O3",
    "-march=native",
    "-fPIC",
    "-shared",
    "-fopenmp",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fno-thread-jumps",
    "-std=c++17",
    "-w",
)
"""How programs are compiled.

Never -ffast-math: linked in, it changes the whole process. Threading jumps through the selects of
`operators.sketches.cpp.maths` costs a quarter more instructions (GCC 12).
"""

_LETTERS = {"p": "ctypes.c_void_p", "l": "ctypes.c_long", "f": "ctypes.c_float"}
_IMPORTS = tuple(f"import {name}" for name in ("ctypes", "hashlib", "os", "subprocess", "tempfile"))
_LOADER = f'''
FLAGS = {list(FLAGS)!r}


def load_kernels(source, config):
    """Compile the C++ text for one configuration and load it."""
    flags = FLAGS + [f"-D{{name}}={{int(value)}}" for name, value in config.items()]
    flags += [f"-mprefer-vector-width={{config.get('VECTOR_BITS', 256)}}"]
    default = os.path.join(tempfile.gettempdir(), f"kernels-{{os.getuid()}}")
    folder = os.environ.get("EVOKERNEL_BUILD_DIR", default)
    os.makedirs(folder, mode=0o700, exist_ok=True)
    key = hashlib.sha256("\\0".join([source, *flags]).encode()).hexdigest()
    path = os.path.join(folder, f"{{key[:32]}}.so")
    if not os.path.exists(path):
        fresh = f"{{path}}.{{os.getpid()}}"
        command = ["g++", *flags, "-x", "c++", "-", "-o", fresh, "-lmvec", "-lm"]
        result = subprocess.run(command, input=source, capture_output=True, text=True)
        if result.returncode:
            raise RuntimeError(f"g++ failed on CPP_SOURCE:\\n{{result.stderr}}")
        os.replace(fresh, path)
    return ctypes.CDLL(path)
'''


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
    signatures = []
    for name, letters in program.functions.items():
        types = ", ".join(_LETTERS[letter] for letter in letters)
        signatures.append(f"KERNELS.{name}.argtypes = [{types}]")
        signatures.append(f"KERNELS.{name}.restype = None")
    definitions = (
        f'CPP_SOURCE = r"""\n{program.cpp.strip()}\n"""',
        _LOADER.strip(),
        "KERNELS = load_kernels(CPP_SOURCE, CONFIG)\n" + "\n".join(signatures),
    )
    return write_module(
        problem,
        graph,
        Program(
            summary=program.summary,
            device="cpu",
            space=program.space,
            configuration=program.configuration,
            imports=_IMPORTS,
            definitions="\n\n".join(definitions),
            values=program.values,
            body=program.body,
        ),
    )
