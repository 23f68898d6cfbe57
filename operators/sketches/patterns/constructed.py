"""What a buffer holds, read from the expression that the reference registers it with.

A graph has the sizes of a buffer only, and the reference is not run here: the expression is
followed as text.

    self.register_buffer("bias", torch.tril(torch.ones(n, n)).view(1, 1, n, n))
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, replace

from operators.sketches.patterns.bands import Band, Number, joined, triangle, turned, typed
from problems.problem import Problem

__all__ = ["registered"]

_COMPARISONS = {
    ast.Eq: "eq",
    ast.NotEq: "ne",
    ast.Lt: "lt",
    ast.LtE: "le",
    ast.Gt: "gt",
    ast.GtE: "ge",
}
_ARITHMETIC = {ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul"}
_CASTS = {"bool": "bool", "float": "float32", "half": "float16", "int": "int32", "long": "int64"}
_DTYPES = ("bool", "float16", "bfloat16", "float32", "int32", "int64", "uint8")
_FILLED = {"ones": 1.0, "zeros": 0.0}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Matrix:
    """A constant matrix, and the texts of its numbers of rows and columns."""

    band: Band
    sizes: tuple[str, str]


_Value = _Matrix | Number | None


def registered(problem: Problem, name: str) -> Band | None:
    """Return what a buffer holds in its last two dimensions, those before being 1; None if unknown.

    Args:
        problem: The problem; its text registers the buffer once and touches it in `forward` only.
        name: The buffer's name in the state dict, such as "bias" or "attention.mask".
    """
    tree = ast.parse(problem.source)
    attribute = name.rpartition(".")[2]
    found: list[tuple[ast.expr, ast.FunctionDef]] = []
    for function in (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)):
        inside = list(ast.walk(function))
        found += [(e, function) for node in inside for e in _registration(node, attribute)]
        touched = any(isinstance(n, ast.Attribute) and n.attr == attribute for n in inside)
        if touched and function.name != "forward":
            return None
    if len(found) != 1:
        return None
    value = _value(*found[0])
    return value.band if isinstance(value, _Matrix) else None


def _registration(node: ast.AST, attribute: str) -> list[ast.expr]:
    """The expression with which a call registers a buffer, if it does."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return []
    if node.func.attr != "register_buffer" or len(node.args) < 2:
        return []
    name = node.args[0]
    return [node.args[1]] if isinstance(name, ast.Constant) and name.value == attribute else []


def _value(node: ast.expr, scope: ast.FunctionDef) -> _Value:
    """What an expression is; None where that is unknown."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, bool | int | float) else None
    if isinstance(node, ast.Name):
        return _local(node.id, scope)
    if isinstance(node, ast.Attribute):
        return _attribute(node, scope)
    if isinstance(node, ast.UnaryOp):
        name = {ast.USub: "neg", ast.Invert: "bitwise_not"}.get(type(node.op), "")
        return _applied(name, [_value(node.operand, scope)])
    if isinstance(node, ast.BinOp):
        values = [_value(node.left, scope), _value(node.right, scope)]
        return _applied(_ARITHMETIC.get(type(node.op), ""), values)
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        values = [_value(node.left, scope), _value(node.comparators[0], scope)]
        return _applied(_COMPARISONS.get(type(node.ops[0]), ""), values)
    if isinstance(node, ast.Subscript):
        return _lifted(_value(node.value, scope), node.slice)
    return _called(node, scope) if isinstance(node, ast.Call) else None


def _local(name: str, scope: ast.FunctionDef) -> _Value:
    """A variable that is assigned once and not written into."""
    assigned: list[ast.expr] = []
    stores = 0
    for node in ast.walk(scope):
        if isinstance(node, ast.Name) and node.id == name:
            stores += not isinstance(node.ctx, ast.Load)
        if isinstance(node, ast.Assign) and [ast.unparse(t) for t in node.targets] == [name]:
            assigned.append(node.value)
        if isinstance(node, ast.Attribute | ast.Subscript) and ast.unparse(node.value) == name:
            stores += not isinstance(node.ctx, ast.Load)
            stores += isinstance(node, ast.Attribute) and node.attr.endswith("_")
    if len(assigned) != 1 or stores != 1:
        return None
    parts = ast.walk(assigned[0])
    recursive = any(isinstance(part, ast.Name) and part.id == name for part in parts)
    return None if recursive else _value(assigned[0], scope)


def _attribute(node: ast.Attribute, scope: ast.FunctionDef) -> _Value:
    if ast.unparse(node) in ("torch.inf", "math.inf", "np.inf"):
        return float("inf")
    value = _value(node.value, scope) if node.attr in ("T", "mT") else None
    return _swapped(value) if isinstance(value, _Matrix) else None


def _applied(name: str, values: list[_Value]) -> _Value:
    """An operation on each element."""
    operands = [value for value in values if value is not None]
    matrices = [value for value in operands if isinstance(value, _Matrix)]
    if len(operands) != len(values) or len({matrix.sizes for matrix in matrices}) > 1:
        return None
    result = joined(name, [v.band if isinstance(v, _Matrix) else v for v in operands])
    if result is None:
        return None
    return _Matrix(band=result, sizes=matrices[0].sizes) if matrices else result.low


def _swapped(matrix: _Matrix) -> _Matrix:
    return _Matrix(band=turned(matrix.band), sizes=matrix.sizes[::-1])


def _lifted(value: _Value, index: ast.expr) -> _Value:
    """A matrix to which an index adds dimensions of 1 in front."""
    parts = list(index.elts) if isinstance(index, ast.Tuple) else [index]
    texts = [ast.unparse(part) for part in parts]
    while texts and texts[-1] == ":":
        texts.pop()
    return value if isinstance(value, _Matrix) and set(texts) <= {"None"} else None


def _called(node: ast.Call, scope: ast.FunctionDef) -> _Value:
    """A call of a function of torch, or of a tensor's method."""
    keywords = {k.arg or "": k.value for k in node.keywords}
    if isinstance(node.func, ast.Name):
        texts = [ast.unparse(argument).strip("'\"+").lower() for argument in node.args]
        number = {"-inf": -float("inf"), "inf": float("inf")}.get(texts[0]) if texts else None
        return number if node.func.id == "float" and len(texts) == 1 else None
    if not isinstance(node.func, ast.Attribute):
        return None
    name, arguments = node.func.attr, list(node.args)
    if ast.unparse(node.func.value) == "torch":
        if name in (*_FILLED, "full"):
            return _made(name, arguments, keywords, scope)
    else:
        arguments.insert(0, node.func.value)
    first = _value(arguments[0], scope) if arguments else None
    if name in ("tril", "triu"):
        return _cut(name, first, [*arguments[1:], *keywords.values()])
    if name in ("view", "reshape", "unsqueeze", "contiguous", "clone", "t", *_CASTS, "to", "type"):
        return _moved(name, first, arguments[1:]) if not keywords else None
    return _applied(name, [_value(a, scope) for a in arguments]) if not keywords else None


def _made(
    name: str, arguments: list[ast.expr], keywords: dict[str, ast.expr], scope: ast.FunctionDef
) -> _Value:
    """A matrix of one value."""
    value: _Value = _FILLED.get(name)
    if name == "full" and len(arguments) == 2:
        value = _value(arguments.pop(), scope)
    if len(arguments) == 1 and isinstance(arguments[0], ast.Tuple | ast.List):
        arguments = list(arguments[0].elts)
    sizes = [ast.unparse(argument) for argument in arguments]
    if value is None or isinstance(value, _Matrix) or len(sizes) < 2 or {*sizes[:-2]} - {"1"}:
        return None
    if set(keywords) - {"dtype", "device"}:
        return None
    made = _Matrix(band=Band(low=value, high=value), sizes=(sizes[-2], sizes[-1]))
    return _cast(made, _dtype(keywords["dtype"])) if "dtype" in keywords else made


def _cut(name: str, value: _Value, rest: list[ast.expr]) -> _Value:
    """A triangle of a matrix."""
    if not isinstance(value, _Matrix) or len(rest) > 1:
        return None
    diagonal = 0
    if rest:
        text = ast.unparse(rest[0])
        if not text.removeprefix("-").isdecimal():
            return None
        diagonal = int(text)
    band = triangle(name, value.band, diagonal)
    return replace(value, band=band) if band is not None else None


def _moved(name: str, value: _Value, rest: list[ast.expr]) -> _Value:
    """A matrix in another dtype or with dimensions of 1 in front, or turned."""
    if not isinstance(value, _Matrix):
        return None
    if name in _CASTS and not rest:
        return _cast(value, _CASTS[name])
    if name in ("to", "type") and len(rest) == 1:
        return _cast(value, _dtype(rest[0]))
    texts = [ast.unparse(argument) for argument in rest]
    if name in ("view", "reshape"):
        same = tuple(texts[-2:]) == value.sizes and not {*texts[:-2]} - {"1"}
        return value if same else None
    if name == "t":
        return _swapped(value)
    kept = texts == ["0"] if name == "unsqueeze" else not texts
    return value if kept else None


def _dtype(node: ast.expr) -> str:
    """The name of a dtype of torch; "" if it is none that is known."""
    known = isinstance(node, ast.Attribute) and node.attr in _DTYPES
    return node.attr if known and isinstance(node, ast.Attribute) else ""


def _cast(matrix: _Matrix, dtype: str) -> _Value:
    band = typed(matrix.band, dtype) if dtype else None
    return replace(matrix, band=band) if band is not None else None
