"""A lifted program: the reference's own text, its forward replaced by the generated code."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from archives.configuration import Configuration, Space
from operators.cpp_loader import IMPORTS
from operators.lifting.body import CHECKED, REINTERPRET, Body, write_body
from operators.lifting.cpp import definitions_of
from operators.lifting.generated import Generated, read_generated
from operators.lifting.kernels import TritonKernel, Unliftable
from operators.lifting.launches import FOLDED_GRID
from operators.lifting.tuning import launches_of, tuning_of
from operators.parts import rename_class
from problems.lifted import Lifted
from problems.problem import Problem

__all__ = ["write_lifted"]

_DROPPED = frozenset({"get_inputs", "get_init_inputs"})
_TRITON = "from torch._inductor.runtime.triton_helpers import"
_IMPORTS = {
    "torch": "import torch",
    "triton": "import triton",
    "tl": "import triton.language as tl",
    "triton_helpers": "from torch._inductor.runtime import triton_helpers",
    "libdevice": f"{_TRITON} libdevice",
    "tl_math": f"{_TRITON} math as tl_math",
    "math": "import math",
    **{line.removeprefix("import "): line for line in IMPORTS},
}
"""What generated kernels may name, and the line that imports it."""
_HELPERS = {"checked": CHECKED, "reinterpret": REINTERPRET}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Parts:
    """What goes into the module besides the reference's text."""

    imports: tuple[str, ...]
    space: Space
    configuration: Configuration
    definitions: tuple[str, ...]
    forward: tuple[str, ...]


def write_lifted(problem: Problem, lifted: Lifted) -> str:
    """Write generated code out as the text of one stand-alone module.

    Args:
        problem: Its reference gives the constructor.
        lifted: What Inductor wrote for it; with a text.

    Raises:
        Unliftable: The generated code, or the reference's, has a form that is not known.
    """
    generated = read_generated(lifted.code)
    if generated.cpp and lifted.device != "cpu":
        raise Unliftable("cpp_kernels", "some of its kernels are for the CPU")
    reference = _reference(problem)
    inputs = [a.arg for a in (*reference.args.posonlyargs, *reference.args.args)][1:]
    if any(a.input is not None and a.input >= len(inputs) for a in lifted.arguments):
        raise Unliftable("unknown_signature", "forward takes its arguments as a whole")
    tuning = tuning_of(generated, lifted)
    body = write_body(generated, lifted, inputs, tuning.kernels, tuning.chosen)
    definitions = _definitions(generated, lifted, body)
    parts = _Parts(
        imports=_imports([*definitions, "\n".join(body.lines)]),
        space=tuning.space,
        configuration=tuning.point,
        definitions=definitions,
        forward=_forward(reference, body.lines),
    )
    return _composed(problem, lifted, body, parts)


def _definitions(generated: Generated, lifted: Lifted, body: Body) -> tuple[str, ...]:
    """Helpers and kernels, each once; a helper that two kernels define differently is renamed."""
    text = "\n".join(body.lines)
    parts = [_HELPERS[name].strip() for name in sorted(body.helpers)]
    if "folded_grid(" in text:
        parts.append(FOLDED_GRID.strip())
    if generated.cpp:
        parts += definitions_of(generated.cpp, lifted.vector_bits)
    helpers: dict[str, str] = {}
    kernels = []
    for kernel in generated.kernels.values():
        if not launches_of(generated, kernel.name):
            continue
        kernels.append(_with_helpers(kernel, helpers))
    return (*parts, *helpers.values(), *kernels)


def _with_helpers(kernel: TritonKernel, helpers: dict[str, str]) -> str:
    """Return a kernel's text after its helpers have joined those that are there."""
    text = kernel.text
    for name, helper in kernel.helpers.items():
        free, number = name, 1
        while helpers.get(free, _renamed(helper, name, free)) != _renamed(helper, name, free):
            number += 1
            free = f"{name}_{number}"
        helpers[free] = _renamed(helper, name, free)
        text = _renamed(text, name, free)
    return text


def _renamed(text: str, old: str, new: str) -> str:
    return text if old == new else re.sub(rf"\b{re.escape(old)}\b", new, text)


def _imports(texts: Sequence[str]) -> tuple[str, ...]:
    named = {
        node.id
        for text in texts
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Name)
    }
    return tuple(line for name, line in _IMPORTS.items() if name in named)


def _reference(problem: Problem) -> ast.FunctionDef:
    for node in ast.parse(problem.source).body:
        if isinstance(node, ast.ClassDef) and node.name == "Model":
            for method in node.body:
                if isinstance(method, ast.FunctionDef) and method.name == "forward":
                    if method.args.vararg or method.args.kwarg:
                        raise Unliftable("unknown_signature", "forward takes any arguments")
                    return method
    raise Unliftable("unknown_signature", "Model has no forward of its own")


def _forward(reference: ast.FunctionDef, lines: Sequence[str]) -> tuple[str, ...]:
    """The new method, with the reference's signature."""
    head = ast.FunctionDef(
        name="forward",
        args=reference.args,
        body=[ast.Pass()],
        decorator_list=[],
        returns=reference.returns,
        lineno=0,
    )
    first = ast.unparse(ast.fix_missing_locations(head)).split("\n")[0]
    return (first, *(f"    {line}" for line in lines))


def _composed(problem: Problem, lifted: Lifted, body: Body, parts: _Parts) -> str:
    source = rename_class(problem.source, "Model", "ModelNew")
    tree = ast.parse(source)
    lines = source.split("\n")
    at = _first_class(tree)
    replaced: list[tuple[int, int, list[str]]] = []
    for first, last, new in _edits(tree, parts.forward):
        replaced.append((first, last, new))
    declared = _declared(parts, lifted.device)
    inserted = ["", "", *"\n\n\n".join(declared).split("\n"), "", ""]
    replaced.append((at, at - 1, inserted))
    for first, last, new in sorted(replaced, reverse=True):
        lines[first - 1 : last] = new
    header = _docstring(tree)
    if header is not None:
        lines[header[0] - 1 : header[1]] = []
    summary = _summary(problem, lifted, body)
    future = [line for line in lines if line.startswith("from __future__ ")]
    lines = [line for line in lines if line not in future]
    imports = [line for line in parts.imports if line not in lines]
    text = "\n".join([f'"""{summary}"""', "", *future, *imports, *lines])
    text = re.sub(r"\n{4,}", "\n\n\n", text).rstrip() + "\n"
    _require_known_names(text)
    return text


def _declared(parts: _Parts, device: str) -> list[str]:
    space = "".join(f"    {name!r}: {list(values)!r},\n" for name, values in parts.space.items())
    point = "".join(f"    {name!r}: {value!r},\n" for name, value in parts.configuration.items())
    texts = [f'DEVICE = "{device}"', *parts.definitions]
    if parts.space:
        texts.insert(0, f"TUNE_PARAMS = {{\n{space}}}\nCONFIG = {{\n{point}}}")
    return texts


def _edits(tree: ast.Module, forward: Sequence[str]) -> Iterator[tuple[int, int, list[str]]]:
    """Lines to replace: (first, last, new ones)."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name in _DROPPED:
            yield _first_line(node), node.end_lineno or node.lineno, []
        if isinstance(node, ast.ClassDef) and node.name == "ModelNew":
            for method in node.body:
                if isinstance(method, ast.FunctionDef) and method.name == "forward":
                    margin = " " * method.col_offset
                    new = [margin + line for line in forward]
                    yield _first_line(method), method.end_lineno or method.lineno, new


def _first_line(node: ast.FunctionDef | ast.ClassDef) -> int:
    return min([node.lineno, *(d.lineno for d in node.decorator_list)])


def _first_class(tree: ast.Module) -> int:
    """The line before which definitions are inserted: the first that is no import."""
    for node in tree.body:
        is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if not is_text and not isinstance(node, ast.Import | ast.ImportFrom):
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                return _first_line(node)
            return node.lineno
    raise Unliftable("unknown_module", "the reference's module holds nothing but imports")


def _docstring(tree: ast.Module) -> tuple[int, int] | None:
    first = tree.body[0]
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
        return first.lineno, first.end_lineno or first.lineno
    return None


def _summary(problem: Problem, lifted: Lifted, body: Body) -> str:
    libraries = (
        f"\nLibrary calls: {', '.join(dict.fromkeys(body.library))}.\n" if body.library else ""
    )
    return (
        f"Inductor's generated code for {problem.label}, as a module of its own.\n\n"
        f"Generated by torch {lifted.torch} under the options {lifted.options!r}.\n{libraries}"
    )


def _require_known_names(text: str) -> None:
    """Insist that every name that is read is bound somewhere in the module."""
    tree = ast.parse(text)
    bound: set[str] = set(dir(builtins))
    read: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            (read if isinstance(node.ctx, ast.Load) else bound).add(node.id)
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            bound.add(node.name)
        elif isinstance(node, ast.arg):
            bound.add(node.arg)
        elif isinstance(node, ast.alias):
            bound.add((node.asname or node.name).partition(".")[0])
    unknown = sorted(read - bound)
    if unknown:
        raise Unliftable("unknown_name", ", ".join(unknown))
