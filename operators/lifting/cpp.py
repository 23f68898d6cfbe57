"""Inductor's C++ for CPUs: its kernels as one text, and how that is compiled and called."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from operators.cpp_loader import FLAGS, loaded, loader, source_of
from operators.lifting.generated import CppKernel
from operators.lifting.kernels import Unliftable

__all__ = ["call_of", "definitions_of"]

_INCLUDE = re.compile(r"^\s*#include .*$", re.MULTILINE)
_HEAD = re.compile(r'extern\s+"C"\s+void\s+kernel\s*\(')
_POINTER, _LONG, _DOUBLE = "ctypes.c_void_p", "ctypes.c_long", "ctypes.c_double"
_CAPABILITIES = {512: "AVX512", 256: "AVX2", 0: "DEFAULT"}
"""torch's names for what its vectors are made of, by their bits.

Source: ATen/cpu/vec/vec.h of torch 2.11 to 2.13.
"""
_TORCH = "TORCH = os.path.dirname(torch.__file__)"
_LINKS = '"-L" + os.path.join(TORCH, "lib"), "-ltorch_cpu", "-lc10", "-lm"'
"""Libraries that are loaded by then, and have the functions which torch's headers name."""


def definitions_of(kernels: Mapping[str, CppKernel], vector_bits: int) -> tuple[str, ...]:
    """Return the definitions that give a program its kernels, as functions of `KERNELS`.

    Args:
        kernels: By name; at least one.
        vector_bits: Width of the vectors that they were written for.

    Raises:
        Unliftable: A kernel, or that width, is none of the forms that are known.
    """
    if vector_bits not in _CAPABILITIES:
        raise Unliftable("unknown_vectors", f"vectors of {vector_bits} bits")
    includes: dict[str, None] = {}
    texts, types = [], {}
    for name, kernel in kernels.items():
        includes |= dict.fromkeys(line.strip() for line in _INCLUDE.findall(kernel.text))
        texts.append(_renamed(name, kernel.text))
        types[name] = [_type_of(name, one) for one in kernel.types]
    return (
        source_of("\n".join(includes) + "\n\n" + "\n\n".join(texts)),
        _TORCH,
        loader(_flags(vector_bits), _LINKS),
        loaded("{}", types),
    )


def call_of(name: str, kernel: CppKernel, arguments: Sequence[str]) -> str:
    """Return the text of a call, its tensors given as pointers.

    Raises:
        Unliftable: It takes another number of arguments.
    """
    if len(arguments) != len(kernel.types):
        raise Unliftable("unknown_kernel", f"{name} takes {kernel.types}")
    passed = [
        f"{text}.data_ptr()" if _type_of(name, one) == _POINTER else text
        for text, one in zip(arguments, kernel.types, strict=True)
    ]
    return f"KERNELS.{name}({', '.join(passed)})"


def _renamed(name: str, text: str) -> str:
    """A kernel's text under its own name, without what it includes."""
    if len(_HEAD.findall(text)) != 1 or '"""' in text:
        raise Unliftable("unknown_kernel", f"{name} is not one function in C")
    body = _HEAD.sub(f'extern "C" void {name}(', _INCLUDE.sub("", text))
    return body.strip()


def _type_of(name: str, text: str) -> str:
    if text.endswith("*"):
        return _POINTER
    kind = text.removeprefix("const ").strip()
    if kind in ("int64_t", "long", "int"):
        return _LONG
    if kind == "double":
        return _DOUBLE
    raise Unliftable("unknown_kernel", f"{name} takes a {text}")


def _flags(vector_bits: int) -> str:
    """As sketches are compiled, but by C++20, as torch's headers ask, and for their vectors."""
    flags = [one for one in FLAGS if not one.startswith("-std=")]
    flags += ["-std=c++20", "-ffp-contract=off", f"-DCPU_CAPABILITY_{_CAPABILITIES[vector_bits]}"]
    return f'[*{flags!r}, "-I" + os.path.join(TORCH, "include")]'
