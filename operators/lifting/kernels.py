"""Triton kernels as Inductor writes them: taken out of its launcher's wrapping.

Each kernel is the text of a module of its own: imports, helper functions, and the kernel under two
decorators, one of which holds what Inductor's launcher wants to know. Here the kernel becomes a
plain function under `@triton.jit`, and what the launcher knew becomes a few fields.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["TritonKernel", "Unliftable", "read_kernel"]

_TEMPLATE_PARAMETERS = ("BLOCK_M", "BLOCK_N", "BLOCK_K", "GROUP_M", "ALLOW_TF32")


class Unliftable(Exception):
    """Generated code that this version cannot turn into a program.

    Args:
        reason: Stable code.
        detail: One line for people.
    """

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(f"{reason}: {detail}" if detail else reason)
        self.reason = reason
        self.detail = detail


@dataclass(frozen=True, slots=True, kw_only=True)
class TritonKernel:
    """One kernel.

    Attributes:
        name: Its name.
        text: Its definition under `@triton.jit`.
        helpers: Texts of the functions it calls, by name.
        arguments: Names of what it is called with, in order, without constants.
        constants: Names of its `tl.constexpr` parameters.
        grid: Inductor's name for the way its grid is computed.
        is_cooperative: Whether all its programs must run at the same time.
        template: Block sizes written into a template's text, by name; they are parameters now.
        sizes: Whole numbers that its text binds at the start, such as {"M": 4096}.
        warps: `num_warps` of a template; 0 of other kernels.
        stages: `num_stages` of a template; 0 of other kernels.
        is_even: Whether a template reads without a mask: K is a multiple of BLOCK_K.
    """

    name: str
    text: str
    helpers: Mapping[str, str]
    arguments: tuple[str, ...]
    constants: tuple[str, ...]
    grid: str
    is_cooperative: bool = False
    template: Mapping[str, int | bool] = field(default_factory=dict)
    sizes: Mapping[str, int] = field(default_factory=dict)
    warps: int = 0
    stages: int = 0
    is_even: bool = False


def read_kernel(source: str) -> TritonKernel:
    """Read the module that Inductor writes for one kernel.

    Raises:
        Unliftable: It is none of the forms that are known.
    """
    tree = ast.parse(source)
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    wrapped = [node for node in functions if _heuristic(node) is not None]
    if len(wrapped) != 1:
        raise Unliftable("unknown_kernel", f"{len(wrapped)} launchers in one kernel's module")
    node = wrapped[0]
    heuristic = _heuristic(node)
    assert heuristic is not None
    meta = _entries(_keyword(heuristic, "inductor_meta"))
    triton_meta = _entries(_keyword(heuristic, "triton_meta"))
    constants = tuple(a.arg for a in node.args.args if _is_constexpr(a.annotation))
    extra = _literal(meta.get("extra_launcher_args"))
    is_template = _name(heuristic.func).endswith(".template")
    sizes, fixed = _sizes(node), _fixed(node) if is_template else {}
    text = _text(source, node, fixed)
    return TritonKernel(
        name=node.name,
        text=text,
        helpers={
            one.name: "@triton.jit\n" + _lines(source, one) for one in functions if one is not node
        },
        arguments=tuple(
            [a.arg for a in node.args.args if not _is_constexpr(a.annotation)]
            + [str(name) for name in (extra if isinstance(extra, list) else [])]
        ),
        constants=(*constants, *fixed),
        grid=str(_literal(meta.get("grid_type")) or ""),
        is_cooperative=bool(_literal(triton_meta.get("launch_cooperative_grid"))),
        template=fixed,
        sizes=sizes,
        warps=_whole(_keyword(heuristic, "num_warps")) if is_template else 0,
        stages=_whole(_keyword(heuristic, "num_stages")) if is_template else 0,
        is_even=is_template and _is_even(node),
    )


def _heuristic(node: ast.FunctionDef) -> ast.Call | None:
    """The decorator that holds what Inductor's launcher wants to know."""
    for decorator in node.decorator_list:
        if isinstance(decorator, ast.Call) and _name(decorator.func).startswith(
            "triton_heuristics."
        ):
            return decorator
    return None


def _fixed(node: ast.FunctionDef) -> dict[str, int | bool]:
    """Block sizes that a template's text states as constants."""
    found: dict[str, int | bool] = {}
    for statement in node.body:
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            value = _literal(statement.value)
            if statement.target.id in _TEMPLATE_PARAMETERS and isinstance(value, int):
                found[statement.target.id] = value
    return found


def _sizes(node: ast.FunctionDef) -> dict[str, int]:
    """Whole numbers that are bound once at the function's top level."""
    found: dict[str, int] = {}
    for statement in node.body:
        target = None
        if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
            target = statement.targets[0]
        elif isinstance(statement, ast.AnnAssign):
            target = statement.target
        value = _literal(getattr(statement, "value", None))
        if isinstance(target, ast.Name) and type(value) is int:
            found.setdefault(target.id, value)
    return found


def _is_even(node: ast.FunctionDef) -> bool:
    return any(
        isinstance(statement, ast.AnnAssign)
        and isinstance(statement.target, ast.Name)
        and statement.target.id == "EVEN_K"
        and _literal(statement.value) is True
        for statement in node.body
    )


def _text(source: str, node: ast.FunctionDef, fixed: Mapping[str, object]) -> str:
    """The kernel's text under `@triton.jit`, its fixed block sizes as parameters."""
    lines = source.split("\n")
    dropped: set[int] = set()
    for statement in node.body:
        if not isinstance(statement, ast.AnnAssign) or not isinstance(statement.target, ast.Name):
            continue
        if statement.target.id in fixed:
            dropped |= set(range(statement.lineno - 1, statement.end_lineno or statement.lineno))
    assert node.end_lineno is not None
    body = [
        lines[number]
        for number in range(node.body[0].lineno - 1, node.end_lineno)
        if number not in dropped
    ]
    arguments = [ast.unparse(argument) for argument in node.args.args]
    arguments += [f"{name}: tl.constexpr" for name in fixed]
    head = f"def {node.name}({', '.join(arguments)}):"
    return "\n".join(["@triton.jit", head, *body])


def _lines(source: str, node: ast.FunctionDef) -> str:
    assert node.end_lineno is not None
    return "\n".join(source.split("\n")[node.lineno - 1 : node.end_lineno])


def _is_constexpr(annotation: ast.expr | None) -> bool:
    return annotation is not None and _name(annotation).endswith("constexpr")


def _keyword(call: ast.Call, name: str) -> ast.expr | None:
    return next((word.value for word in call.keywords if word.arg == name), None)


def _entries(node: ast.expr | None) -> dict[str, ast.expr]:
    """The entries of a dict display with literal names; values may be anything."""
    if not isinstance(node, ast.Dict):
        return {}
    return {
        str(key.value): value
        for key, value in zip(node.keys, node.values, strict=True)
        if isinstance(key, ast.Constant)
    }


def _literal(node: ast.AST | None) -> object:
    if not isinstance(node, ast.expr):
        return None
    try:
        return ast.literal_eval(node)
    except ValueError:
        return None


def _whole(node: ast.expr | None) -> int:
    value = _literal(node)
    return value if isinstance(value, int) else 0


def _name(node: ast.AST) -> str:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return f"{_name(node.value)}.{node.attr}"
    return ""
