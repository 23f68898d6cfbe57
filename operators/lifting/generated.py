"""Inductor's output module, read: its kernels, and the function that calls them."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass

from operators.lifting.kernels import TritonKernel, Unliftable, read_kernel

__all__ = ["CppKernel", "Generated", "read_generated"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CppKernel:
    """A kernel in C++.

    Attributes:
        types: Of its arguments, in C.
        text: What it includes, and one function named "kernel".
    """

    types: tuple[str, ...]
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Generated:
    """What an output module holds.

    Attributes:
        kernels: Triton kernels by name.
        choices: Names of kernels by the name of a choice that Inductor makes at run time.
        cpp: C++ kernels by name.
        call: The function that allocates, and calls kernels and libraries.
        aliases: What the module's other top-level names stand for, such as "aten".
    """

    kernels: Mapping[str, TritonKernel]
    choices: Mapping[str, tuple[str, ...]]
    cpp: Mapping[str, CppKernel]
    call: ast.FunctionDef
    aliases: Mapping[str, str]


def read_generated(code: str) -> Generated:
    """Read an output module.

    Raises:
        Unliftable: It is none of the forms that are known.
    """
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError) as error:
        raise Unliftable("unknown_module", f"Inductor's code does not parse: {error}") from error
    kernels: dict[str, TritonKernel] = {}
    choices: dict[str, tuple[str, ...]] = {}
    cpp: dict[str, CppKernel] = {}
    aliases: dict[str, str] = {}
    for statement in tree.body:
        if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
            continue
        target, value = statement.targets[0], statement.value
        if not isinstance(target, ast.Name):
            continue
        made_by = ast.unparse(value.func) if isinstance(value, ast.Call) else ""
        if not isinstance(value, ast.Call) or not made_by.startswith("async_compile."):
            aliases[target.id] = ast.unparse(value)
        elif made_by == "async_compile.triton":
            kernels[target.id] = read_kernel(_text(value.args[1]))
        elif made_by == "async_compile.multi_kernel":
            choices[target.id] = _names(value.args[1])
        elif made_by == "async_compile.cpp_pybinding":
            types = tuple(ast.literal_eval(value.args[0]))
            cpp[target.id] = CppKernel(types=types, text=_text(value.args[1]))
        else:
            raise Unliftable("unknown_kernel", f"{target.id} is made by {made_by}")
    return Generated(kernels=kernels, choices=choices, cpp=cpp, call=_call(tree), aliases=aliases)


def _call(tree: ast.Module) -> ast.FunctionDef:
    found = [
        node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name == "call"
    ]
    if len(found) != 1:
        raise Unliftable("unknown_module", f"{len(found)} functions named call")
    return found[0]


def _text(node: ast.expr) -> str:
    if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
        raise Unliftable("unknown_kernel", "its text is no literal")
    return node.value


def _names(node: ast.expr) -> tuple[str, ...]:
    if not isinstance(node, ast.List) or not all(isinstance(e, ast.Name) for e in node.elts):
        raise Unliftable("unknown_kernel", "a choice is no list of kernels")
    return tuple(element.id for element in node.elts if isinstance(element, ast.Name))
