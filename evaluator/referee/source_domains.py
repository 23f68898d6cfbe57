"""Domains of inputs as the text of a problem's `get_inputs` shows them, where none are stated.

For tables and reports, which open no problem: nothing is run and nothing is drawn. A verdict takes
what its session has found in the values (`evaluator.worker.domains`).

Covered: straight-line code in which a triangle, a diagonal, a symmetric sum or product or a mask is
made by torch's own functions. Not covered: loops, helper functions and writing into parts; what
they touch counts as `REAL`, as does whatever else is not understood.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence

from problems.graph import OperatorGraph, TensorSpec
from problems.problem import Domain, DomainKind, Problem

__all__ = ["domains_from_source", "known_domains"]

_UPPER, _LOWER = DomainKind.UPPER_TRIANGULAR, DomainKind.LOWER_TRIANGULAR
_SYMMETRIC, _MASK = DomainKind.SYMMETRIC, DomainKind.MASK
_MATRICES = (_UPPER, _LOWER, _SYMMETRIC)
_FLIPPED: dict[DomainKind | None, DomainKind] = {
    _UPPER: _LOWER,
    _LOWER: _UPPER,
    _SYMMETRIC: _SYMMETRIC,
}
_SAME = (
    "bfloat16", "clone", "contiguous", "cpu", "cuda", "detach", "double", "float", "half", "to",
    "type",
)  # fmt: skip
"""Methods that leave values as they are, but for rounding."""
_TURNING = ("adjoint", "mT", "T", "t", "transpose")
_LAST_TWO: tuple[list[int], ...] = ([], [-1, -2], [-2, -1])
"""What `transpose` is told where it turns matrices."""


def known_domains(problem: Problem, graph: OperatorGraph) -> tuple[Domain, ...]:
    """Return the domains that a problem states, or else those that its source shows.

    Args:
        problem: The problem.
        graph: Its operator graph, whose inputs tell what is a matrix.
    """
    return problem.domains or domains_from_source(problem.source, graph.inputs)


def domains_from_source(source: str, inputs: Sequence[object]) -> tuple[Domain, ...]:
    """Read the domains of inputs off the text of a problem's module, without running it.

    Args:
        source: The module's text.
        inputs: Specs of the inputs as traced.

    Returns:
        One domain for each input, all `inferred`; empty where `get_inputs` cannot be read.
    """
    try:
        functions = [each for each in ast.parse(source).body if isinstance(each, ast.FunctionDef)]
        found = _read([each for each in functions if each.name == "get_inputs"])
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()
    if found is None or len(found) != len(inputs):
        return ()
    return tuple(
        Domain(kind=_fitting(kind, spec), inferred=True)
        for kind, spec in zip(found, inputs, strict=True)
    )


def _fitting(kind: DomainKind | None, spec: object) -> DomainKind:
    """The kind that was read, where the input can be of it."""
    if not isinstance(spec, TensorSpec):
        return DomainKind.SCALAR
    is_square = len(spec.shape) > 1 and spec.shape[-1] == spec.shape[-2] > 2
    return DomainKind.REAL if kind is None or (kind in _MATRICES and not is_square) else kind


def _read(functions: Sequence[ast.FunctionDef]) -> list[DomainKind | None] | None:
    """Follow the one definition from its first line to its `return`."""
    if len(functions) != 1:
        return None
    known: dict[str, DomainKind | None] = {}
    for statement in functions[0].body:
        if isinstance(statement, ast.Return):
            value = statement.value
            if _may_write(statement) or not isinstance(value, ast.List | ast.Tuple):
                return None
            return [_kind(each, known) for each in value.elts]
        if any(isinstance(each, ast.Return) for each in ast.walk(statement)):
            return None
        names = _targets(statement)
        if names is None or _may_write(statement):
            # It may write into anything that has a name by now.
            known.clear()
        elif isinstance(statement, ast.Assign):
            known |= dict.fromkeys(names, _kind(statement.value, known))
    return None


def _targets(statement: ast.stmt) -> list[str] | None:
    """Names that a statement binds; None where it may do more than that."""
    if isinstance(statement, ast.Assign):
        names = [each.id for each in statement.targets if isinstance(each, ast.Name)]
        return names if len(names) == len(statement.targets) else None
    if isinstance(statement, ast.Expr):
        value = statement.value
        is_seed = isinstance(value, ast.Call) and _callee(value) == "manual_seed"
        return [] if is_seed or isinstance(value, ast.Constant) else None
    return None


def _may_write(statement: ast.stmt) -> bool:
    """Tell whether a statement calls what may change a tensor in place."""
    return any(
        isinstance(each, ast.Call)
        and (
            isinstance(each.func, ast.Name)
            or _callee(each).endswith("_")
            or any(keyword.arg == "out" for keyword in each.keywords)
        )
        for each in ast.walk(statement)
    )


def _callee(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else ""


def _kind(value: ast.expr, known: Mapping[str, DomainKind | None]) -> DomainKind | None:
    """The kind of an expression's values; None: not known, or any real number."""
    if isinstance(value, ast.Name):
        return known.get(value.id)
    if isinstance(value, ast.UnaryOp) and isinstance(value.op, ast.USub):
        kind = _kind(value.operand, known)
        return kind if kind in _MATRICES else None
    if isinstance(value, ast.Compare):
        return _MASK
    if isinstance(value, ast.Attribute) and value.attr in _TURNING:
        return _FLIPPED.get(_kind(value.value, known))
    if isinstance(value, ast.BinOp):
        return _combined(value, known)
    return _called(value, known) if isinstance(value, ast.Call) else None


def _combined(value: ast.BinOp, known: Mapping[str, DomainKind | None]) -> DomainKind | None:
    left, right = _kind(value.left, known), _kind(value.right, known)
    if isinstance(value.op, ast.Add | ast.MatMult) and _are_mirrored(value.left, value.right):
        return _SYMMETRIC
    if isinstance(value.op, ast.Add | ast.Sub):
        return left if left == right and left in _MATRICES else None
    if isinstance(value.op, ast.Div):
        return left if left in _MATRICES and isinstance(value.right, ast.Constant) else None
    if not isinstance(value.op, ast.Mult):
        return None
    triangles = [kind for kind in (left, right) if kind in (_UPPER, _LOWER)]
    if triangles:
        return triangles[0]
    is_scaled = any(isinstance(each, ast.Constant) for each in (value.left, value.right))
    return _SYMMETRIC if is_scaled and _SYMMETRIC in (left, right) else None


def _are_mirrored(left: ast.expr, right: ast.expr) -> bool:
    """Tell whether two operands are a named matrix and its transpose, in either order."""
    names = [each for each in (left, right) if isinstance(each, ast.Name)]
    turned = [each for each in (left, right) if not isinstance(each, ast.Name)]
    if len(names) != 1:
        return False
    (other,) = turned
    call = other.func if isinstance(other, ast.Call) else other
    if isinstance(other, ast.Call) and [_number(each) for each in other.args] not in _LAST_TWO:
        return False
    if not isinstance(call, ast.Attribute) or not isinstance(call.value, ast.Name):
        return False
    return call.attr in _TURNING and call.value.id == names[0].id


def _called(call: ast.Call, known: Mapping[str, DomainKind | None]) -> DomainKind | None:
    name = _callee(call)
    if not isinstance(call.func, ast.Attribute):
        return None
    of_torch = isinstance(call.func.value, ast.Name) and call.func.value.id == "torch"
    arguments = call.args if of_torch else [call.func.value, *call.args]
    if name in ("triu", "tril"):
        return _triangle(name, arguments[1:], call.keywords)
    if name in ("diag", "diag_embed", "eye"):
        # Where it is a matrix, it is a triangle of either kind.
        return _UPPER
    if name == "bernoulli" or (
        name == "randint" and [_number(each) for each in call.args[:2]] == [0, 2]
    ):
        return _MASK
    if name in _TURNING and arguments:
        turns = [_number(each) for each in arguments[1:]] in _LAST_TWO
        return _FLIPPED.get(_kind(arguments[0], known)) if turns else None
    return _kind(arguments[0], known) if name in _SAME and not of_torch else None


def _triangle(
    name: str, arguments: Sequence[ast.expr], keywords: Sequence[ast.keyword]
) -> DomainKind | None:
    """The kind of what triu or tril leaves; None where more than a triangle may be left."""
    given = [*arguments, *(each.value for each in keywords if each.arg == "diagonal")]
    diagonal = _number(given[0]) if given else 0
    if diagonal is None:
        return None
    if name == "triu":
        return _UPPER if diagonal >= 0 else None
    return _LOWER if diagonal <= 0 else None


def _number(value: ast.expr) -> int | None:
    """A whole number as it is written; None: it is something else."""
    try:
        found = ast.literal_eval(value)
    except ValueError:
        return None
    return found if isinstance(found, int) else None
