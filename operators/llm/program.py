"""What makes a text a program: a module with `ModelNew`, and parameters that can be read."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass

from archives.configuration import read_configuration, read_space
from problems.bindings import bindings, lacks_forward
from problems.syntax import parse

__all__ = ["Defect", "parameter_defect", "program_defect"]

MAX_CHARACTERS = 400_000
"""Longer texts are no kernels; the referee's own limit is 512 KiB."""

_MAX_QUOTED = 160
_NAMED = (ast.ClassDef, ast.FunctionDef)


@dataclass(frozen=True, slots=True, kw_only=True)
class Defect:
    """What is wrong with a reply.

    Attributes:
        reason: Stable code, such as "llm_syntax_error".
        sentence: What is wrong, where, and what to write instead; meant for the model.
    """

    reason: str
    sentence: str


def program_defect(source: str) -> Defect | None:
    """Return what keeps a text from being a program; None where nothing does.

    A program is a Python module that defines `ModelNew` at its top level, with a method `forward`
    of its own unless the class inherits from another one of the module.
    """
    if len(source) > MAX_CHARACTERS:
        return Defect(
            reason="llm_too_long",
            sentence=f"The program has {len(source)} characters, expected at most {MAX_CHARACTERS}",
        )
    try:
        tree = parse(source)
    except SyntaxError as error:
        return Defect(reason="llm_syntax_error", sentence=_syntax_sentence(source, error))
    bound = bindings(tree.body)
    if "ModelNew" not in bound:
        return Defect(reason="llm_no_model_new", sentence=_missing_sentence(bound))
    if lacks_forward(bound, "ModelNew"):
        return Defect(
            reason="llm_no_model_new",
            sentence="The class ModelNew has no method forward: give it one with the signature of "
            "Model's, written out in full",
        )
    return None


def parameter_defect(source: str) -> Defect | None:
    """Return what is wrong with a program's `TUNE_PARAMS` and `CONFIG`; None where nothing is.

    Neither needs to be declared. The program runs in spite of such a defect, but nobody can tune
    it.

    Args:
        source: A module that parses.
    """
    nodes: dict[str, ast.expr] = {}
    for node in parse(source).body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            nodes.update(dict.fromkeys(_assigned(node), node.value))
    sentence = ""
    if "TUNE_PARAMS" in nodes and not _is_empty(nodes["TUNE_PARAMS"]):
        sentence = _space_sentence(source, nodes)
    elif "CONFIG" in nodes and not _is_empty(nodes["CONFIG"]) and not read_configuration(source):
        sentence = _CONFIG_FORM
    return Defect(reason="llm_bad_parameters", sentence=sentence) if sentence else None


_CONFIG_FORM = (
    'CONFIG is no literal dictionary of values: write it at the top level as {"NAME": value, ...} '
    "with finite numbers, texts or booleans"
)


def _space_sentence(source: str, nodes: Mapping[str, ast.expr]) -> str:
    """What is wrong where a space is declared; "" where nothing is."""
    space = read_space(source)
    if not space:
        return _unreadable_space_sentence(nodes["TUNE_PARAMS"])
    if "CONFIG" not in nodes:
        return (
            "TUNE_PARAMS is declared without CONFIG: add a top-level literal CONFIG with one value "
            f"for each of {', '.join(space)}"
        )
    point = read_configuration(source)
    if not point:
        return _CONFIG_FORM
    if set(point) != set(space):
        names = ", ".join(sorted(set(point) ^ set(space)))
        return (
            f"CONFIG and TUNE_PARAMS do not name the same parameters, they differ in {names}: name "
            "each parameter in both"
        )
    for name, value in point.items():
        # True == 1 == 1.0 in Python, and yet they are different choices.
        if not any(type(one) is type(value) and one == value for one in space[name]):
            return (
                f"CONFIG[{name!r}] is {_clipped(repr(value))}, expected one of the values that "
                f"TUNE_PARAMS lists for it: {_clipped(repr(list(space[name])))}"
            )
    return ""


def _unreadable_space_sentence(node: ast.expr) -> str:
    form = (
        'write it at the top level as {"NAME": [value, value], ...} with non-empty lists of finite '
        "numbers, texts or booleans, all of them literals"
    )
    if isinstance(node, ast.Dict):
        for key, value in zip(node.keys, node.values, strict=True):
            if key is None or not _is_choices(value):
                where = "**" if key is None else _clipped(ast.unparse(key))
                return f"TUNE_PARAMS cannot be read at {where}: {form}"
    return f"TUNE_PARAMS is no literal dictionary of lists: {form}"


def _is_choices(node: ast.expr) -> bool:
    """Whether a node is a list of literals, a minus sign before a number included."""
    if not isinstance(node, ast.List | ast.Tuple) or not node.elts:
        return False
    return all(
        isinstance(one.operand if isinstance(one, ast.UnaryOp) else one, ast.Constant)
        for one in node.elts
    )


def _assigned(node: ast.stmt) -> list[str]:
    targets = node.targets if isinstance(node, ast.Assign) else []
    if isinstance(node, ast.AnnAssign):
        targets = [node.target]
    return [target.id for target in targets if isinstance(target, ast.Name)]


def _is_empty(node: ast.expr) -> bool:
    return isinstance(node, ast.Dict) and not node.keys


def _missing_sentence(bound: Mapping[str, ast.stmt]) -> str:
    expected = (
        "expected a class ModelNew at the top level, with the constructor and forward of Model"
    )
    if "Model" in bound:
        return f"The code defines Model and no ModelNew, {expected}"
    named = (name for name, node in bound.items() if isinstance(node, _NAMED))
    found = ", ".join(list(named)[:5])
    return f"The code defines no ModelNew{f' (only {found})' if found else ''}, {expected}"


def _syntax_sentence(source: str, error: SyntaxError) -> str:
    lines = source.split("\n")
    if error.lineno is None or not 1 <= error.lineno <= len(lines):
        return f"The program is no Python module: {_clipped(error.msg or 'it cannot be parsed')}"
    line = _clipped(lines[error.lineno - 1].strip())
    return f"The program is no Python module: {error.msg} in line {error.lineno}: {line}"


def _clipped(text: str) -> str:
    return text if len(text) <= _MAX_QUOTED else text[: _MAX_QUOTED - 1] + "…"
