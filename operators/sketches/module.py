"""Writes a sketch out as one stand-alone Python module with `ModelNew`.

A sketch brings its kernels' text, its parameters and the lines of `forward`; this module adds
what every program shares: the reference's constructor (so that state dicts agree) and checks of
the arguments. The text runs without EvoKernel.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from keyword import iskeyword

from archives.configuration import Configuration, Space
from problems.graph import OperatorGraph, TensorSpec, is_constant
from problems.problem import Problem

__all__ = ["Program", "local_names", "state_text", "write_module"]

_RESERVED = frozenset(
    {
        "CONFIG",
        "KERNELS",
        "attend",
        "blocks",
        "checked",
        "convolve",
        "ctypes",
        "functools",
        "groups",
        "hashlib",
        "members",
        "middle",
        "most",
        "multiply",
        "os",
        "out",
        "parts",
        "parts_of_rows",
        "portions",
        "processors",
        "programs",
        "self",
        "slide",
        "span",
        "tiles",
        "tl",
        "torch",
        "triton",
    }
)
"""Names that programs bind or call themselves."""
_DROPPED = frozenset({"get_inputs", "get_init_inputs"})
_CHECKED = '''
def checked(name, tensor, shape, dtype):
    """Insist on what the kernel was written for; return the tensor, contiguous."""
    if not isinstance(tensor, torch.Tensor):
        raise ValueError(f"{name} is a {type(tensor).__name__}, expected a tensor of {shape}")
    got = (tuple(tensor.shape), tensor.dtype, tensor.device.type)
    if got != (shape, dtype, DEVICE):
        raise ValueError(f"{name} is {got}, this kernel is for {(shape, dtype, DEVICE)} only")
    return tensor.contiguous()
'''


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """What a sketch hands to `write_module`.

    Attributes:
        summary: The module's docstring, one sentence on the schedule.
        device: "cpu" or "cuda": where `forward` insists that its tensors are.
        space: Its `TUNE_PARAMS`.
        configuration: Its default `CONFIG`.
        imports: Lines that import what the text needs, besides `import torch`.
        definitions: Module-level text of the kernels; `CONFIG` is bound before it.
        values: Names of the graph's values that `body` uses: inputs, parameters and buffers.
            Each is checked on entry, made contiguous and bound to its name in `local_names`.
        body: The lines of `forward` after the checks, without indentation of their own level.
            They may use `torch`, `CONFIG`, `self` and the definitions, and return the output.
    """

    summary: str
    device: str
    space: Space
    configuration: Configuration
    imports: tuple[str, ...]
    definitions: str
    values: tuple[str, ...]
    body: tuple[str, ...]


def local_names(problem: Problem, graph: OperatorGraph) -> dict[str, str] | None:
    """Return the local variable in `forward` of each input, parameter and buffer.

    Returns:
        Names by value ("input0" -> "x", "param:conv.weight" -> "conv_weight"), valid both in
        Python and in C++; None where the reference's forward cannot be called positionally.
    """
    forward = _forward(problem)
    if forward is None:
        return None
    arguments = [a.arg for a in (*forward.args.posonlyargs, *forward.args.args)][1:]
    if forward.args.vararg or forward.args.kwonlyargs or len(arguments) != len(graph.inputs):
        return None
    taken = set(_RESERVED)
    names: dict[str, str] = {}
    state = [f"param:{name}" for name in graph.parameters]
    state += [f"buffer:{name}" for name in graph.buffers]
    inputs = [f"input{index}" for index in range(len(arguments))]
    for value, wanted in (
        *zip(inputs, arguments, strict=True),
        *((value, value.partition(":")[2].replace(".", "_")) for value in state),
    ):
        name = wanted
        while name in taken:
            name += "_"
        taken.add(name)
        names[value] = name
    return names


def state_text(value: str) -> str:
    """Return the text by which `forward` reaches a parameter or buffer, such as "self.weight".

    Args:
        value: Its name as a value, such as "param:conv.weight". A `Sequential` gives its modules
            numbers for names, which no attribute has in Python's syntax.
    """
    kind, _, name = value.partition(":")
    if all(part.isidentifier() and not iskeyword(part) for part in name.split(".")):
        return f"self.{name}"
    return f"self.get_{'parameter' if kind == 'param' else 'buffer'}({name!r})"


def write_module(problem: Problem, graph: OperatorGraph, program: Program) -> str | None:
    """Write a program out as the text of one stand-alone module.

    Args:
        problem: Its reference's constructor, constants and imports are kept.
        graph: Gives the shapes that `forward` insists on.
        program: What the sketch brings.

    Returns:
        The text; None where the reference's class cannot be taken over, or where the program
        needs a tensor that the reference holds in no parameter or buffer.
    """
    names = local_names(problem, graph)
    model = _model(problem)
    if names is None or model is None or any(map(is_constant, program.values)):
        return None
    lines = _forward_lines(problem, graph, program, names)
    cls = ast.unparse(_renamed(model)) + "\n\n" + _indented(lines, 4)
    kept = _kept(problem, model)
    imports = [*program.imports, "import torch"]
    imports += [text for text in map(ast.unparse, kept.imports) if text not in imports]
    parts = [
        f'"""{program.summary}\n\nWritten for {problem.label} with its own sizes and constructor '
        'arguments.\n"""',
        "\n".join(imports),
        f"TUNE_PARAMS = {_literal({k: list(v) for k, v in program.space.items()})}\n"
        f"CONFIG = {_literal(dict(program.configuration))}",
        f'DEVICE = "{program.device}"',
        _CHECKED.strip(),
        program.definitions.strip(),
        *(ast.unparse(statement) for statement in kept.definitions),
        cls,
    ]
    return "\n\n".join(parts) + "\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kept:
    imports: list[ast.stmt]
    definitions: list[ast.stmt]


def _model(problem: Problem) -> ast.ClassDef | None:
    for node in ast.parse(problem.source).body:
        if isinstance(node, ast.ClassDef) and node.name == "Model":
            return node
    return None


def _forward(problem: Problem) -> ast.FunctionDef | None:
    model = _model(problem)
    for node in model.body if model else ():
        if isinstance(node, ast.FunctionDef) and node.name == "forward":
            return node
    return None


def _renamed(model: ast.ClassDef) -> ast.ClassDef:
    """`Model` as `ModelNew`, without `forward` and docstrings of methods."""
    body = [
        node
        for node in model.body
        if not (isinstance(node, ast.FunctionDef) and node.name == "forward")
    ]
    renamed = ast.ClassDef(
        name="ModelNew",
        bases=model.bases,
        keywords=model.keywords,
        body=body or [ast.Pass()],
        decorator_list=model.decorator_list,
    )
    for node in ast.walk(renamed):
        if isinstance(node, ast.Name) and node.id == "Model":
            node.id = "ModelNew"
    return renamed


def _kept(problem: Problem, model: ast.ClassDef) -> _Kept:
    """The imports and definitions that the class needs, found through the names it uses."""
    statements = [
        node
        for node in ast.parse(problem.source).body
        if not (isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name in _DROPPED)
        and not (isinstance(node, ast.ClassDef) and node.name == "Model")
    ]
    wanted = _used(_renamed(model))
    chosen: set[int] = set()
    grown = True
    while grown:
        grown = False
        for index, node in enumerate(statements):
            if index not in chosen and wanted & set(_bound(node)):
                chosen.add(index)
                wanted |= _used(node)
                grown = True
    picked = [statements[index] for index in sorted(chosen)]
    imports = [node for node in picked if isinstance(node, ast.Import | ast.ImportFrom)]
    future = [node for node in imports if getattr(node, "module", "") == "__future__"]
    return _Kept(
        imports=[node for node in imports if node not in future],
        definitions=[node for node in picked if node not in imports],
    )


def _used(node: ast.AST) -> set[str]:
    return {child.id for child in ast.walk(node) if isinstance(child, ast.Name)}


def _bound(node: ast.stmt) -> Iterable[str]:
    """Names that a top-level statement binds."""
    if isinstance(node, ast.Import | ast.ImportFrom):
        return [(alias.asname or alias.name).partition(".")[0] for alias in node.names]
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return [node.name]
    return [
        child.id
        for child in ast.walk(node)
        if isinstance(child, ast.Name) and isinstance(child.ctx, ast.Store)
    ]


def _forward_lines(
    problem: Problem, graph: OperatorGraph, program: Program, names: Mapping[str, str]
) -> list[str]:
    arguments = [names[f"input{index}"] for index in range(len(graph.inputs))]
    lines = [f"def forward({', '.join(['self', *arguments])}):"]
    for value in program.values:
        spec = graph.spec(value)
        name = names[value]
        if isinstance(spec, TensorSpec):
            _, _, attribute = value.partition(":")
            source = state_text(value) if attribute else name
            shown = f"self.{attribute}" if attribute else name
            lines.append(
                f'    {name} = checked("{shown}", {source}, {spec.shape}, torch.{spec.dtype})'
            )
    return lines + [f"    {line}" for line in program.body]


def _indented(lines: Iterable[str], width: int) -> str:
    return "\n".join(" " * width + line if line else line for line in lines)


def _literal(value: Mapping[str, object]) -> str:
    """A dict, one entry a line."""
    return "{\n" + "".join(f"    {name!r}: {item!r},\n" for name, item in value.items()) + "}"
