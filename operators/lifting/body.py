"""The function that calls Inductor's kernels, rewritten into the lines of a `forward`."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from operators.lifting.cpp import call_of
from operators.lifting.generated import Generated
from operators.lifting.kernels import Unliftable
from operators.lifting.launches import Parameters, grid_of
from problems.lifted import Argument, Lifted, Output

__all__ = ["CHECKED", "REINTERPRET", "Body", "write_body"]

CHECKED = '''
def checked(name, tensor, shape, stride):
    """Insist on the layout that the kernels were generated for; return the tensor."""
    got = (tuple(tensor.shape), tuple(tensor.stride()))
    if any(size > 1 and a != b for size, a, b in zip(shape, got[1], stride)) or got[0] != shape:
        raise ValueError(f"{name} is {got}, these kernels are for {(shape, stride)} only")
    return tensor
'''
REINTERPRET = '''
def reinterpret(tensor, shape, stride, offset=0):
    """View a tensor's memory anew, some elements further on."""
    return torch.as_strided(tensor, shape, stride, tensor.storage_offset() + offset)
'''
_DROPPED = ("args.clear", "torch.cuda.set_device", "assert_alignment", "torch.cuda.synchronize")
_EXTERN = {
    "mm": "torch.mm",
    "bmm": "torch.bmm",
    "addmm": "torch.addmm",
    "baddbmm": "torch.baddbmm",
    "bias_addmm": "torch.addmm",
    "convolution": "torch.convolution",
    "_int_mm": "torch._int_mm",
    "_scaled_mm": "torch._scaled_mm",
}
"""Inductor's names for calls into libraries, and torch's."""
_EMPTY = {"empty_strided_cuda": "DEVICE", "empty_strided_cpu": "'cpu'"}
"""Inductor's allocations, and the text of their device."""


@dataclass(slots=True, kw_only=True)
class Body:
    """The lines of a `forward`, and what they need.

    Attributes:
        lines: Statements, without indentation of their own level.
        helpers: Names of the helper functions that they call: "checked", "reinterpret".
        library: Names of the library calls among them.
    """

    lines: list[str] = field(default_factory=list)
    helpers: set[str] = field(default_factory=set)
    library: list[str] = field(default_factory=list)


def write_body(
    generated: Generated,
    lifted: Lifted,
    inputs: Sequence[str],
    parameters: Mapping[str, Parameters],
    chosen: Mapping[str, str],
) -> Body:
    """Rewrite the calling function.

    Args:
        generated: The output module.
        lifted: What its `call` is given, and where the model's outputs are found.
        inputs: Names of the forward's arguments.
        parameters: What each kernel is launched with.
        chosen: Text that reads which kernel is meant, by the name of a choice.

    Raises:
        Unliftable: A statement is none of those that are known.
    """
    writer = _Writer(generated, lifted.arguments, inputs, parameters, chosen)
    writer.keep(output.source for output in lifted.outputs if output.source is not None)
    for statement in generated.call.body:
        writer.add(statement)
    if writer.results is None:
        raise Unliftable("unknown_module", "call returns no tuple")
    texts = [writer.output(output) for output in lifted.outputs]
    text = f"({', '.join(texts)},)" if lifted.several else texts[0]
    writer.body.lines.append(f"return {text}")
    return writer.body


class _Writer:
    """Rewrites one statement after the other."""

    def __init__(
        self,
        generated: Generated,
        arguments: Sequence[Argument],
        inputs: Sequence[str],
        parameters: Mapping[str, Parameters],
        chosen: Mapping[str, str],
    ) -> None:
        self._generated = generated
        self._arguments = arguments
        self._inputs = inputs
        self._parameters = parameters
        self._chosen = chosen
        self._renamed: dict[str, str] = {}
        self._bound: set[str] = set()
        self._streams: set[str] = set()
        self._returned: set[str] = set()
        self.body = Body()
        self.results: list[str] | None = None

    def keep(self, sources: Iterable[Argument]) -> None:
        """Note what is returned as it was given, and so must not be freed before."""
        self._returned |= {self._source(source) for source in sources}

    def add(self, statement: ast.stmt) -> None:
        """Rewrite a statement of the calling function."""
        if isinstance(statement, ast.With):
            for inner in statement.body:
                self.add(inner)
        elif isinstance(statement, ast.Return):
            self._return(statement)
        elif isinstance(statement, ast.Assign) and ast.unparse(statement.value) == "args":
            self._bind(statement.targets[0])
        elif isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
            self._effect(statement.value)
        elif isinstance(statement, ast.Assign | ast.AugAssign):
            self._assign(statement)
        elif isinstance(statement, ast.Delete):
            self._delete(statement)
        elif not isinstance(statement, ast.Pass):
            raise Unliftable("unknown_statement", ast.unparse(statement).split("\n")[0])

    def output(self, output: Output) -> str:
        """Return the text of one of the model's outputs."""
        assert self.results is not None
        if output.result is not None:
            text = self.results[output.result]
        else:
            assert output.source is not None
            text = self._source(output.source)
        if output.view is None:
            return text
        shape, stride, offset = output.view
        return f"torch.as_strided({text}, {shape}, {stride}, {offset})"

    def _bind(self, target: ast.expr) -> None:
        """Give the arguments of the generated code their values."""
        names = [ast.unparse(e) for e in target.elts] if isinstance(target, ast.Tuple) else []
        if len(names) != len(self._arguments):
            raise Unliftable("unknown_module", "call takes another number of arguments")
        for name, argument in zip(names, self._arguments, strict=True):
            source = self._source(argument)
            if argument.input is not None and not argument.is_number:
                self._renamed[name] = source
            else:
                self._bound.add(name)
                self.body.lines.append(f"{name} = {source}")

    def _source(self, argument: Argument) -> str:
        if argument.input is None:
            return argument.state
        name = self._inputs[argument.input]
        if argument.is_number:
            return f"torch.tensor({name}, dtype=torch.float64)"
        return name

    def _effect(self, call: ast.Call) -> None:
        name = ast.unparse(call.func)
        if name in _DROPPED:
            return
        if name == "assert_size_stride":
            self._check(call)
        elif name.endswith(".run"):
            self._launch(name.removesuffix(".run"), call)
        elif name in self._generated.cpp:
            arguments = [self._expression(argument) for argument in call.args]
            self.body.lines.append(call_of(name, self._generated.cpp[name], arguments))
        else:
            self.body.lines.append(self._expression(call))

    def _check(self, call: ast.Call) -> None:
        """Keep what is asserted of inputs and of what libraries return.

        The model's own tensors are what its constructor made them.
        """
        name, shape, stride = (ast.unparse(a) for a in call.args[:3])
        if name in self._bound:
            return
        name = self._renamed.get(name, name)
        self.body.helpers.add("checked")
        self.body.lines.append(f'checked("{name}", {name}, {shape}, {stride})')

    def _launch(self, name: str, call: ast.Call) -> None:
        arguments = [self._expression(argument) for argument in call.args]
        if name in self._generated.choices:
            word = "if"
            for index, kernel in enumerate(self._generated.choices[name]):
                self.body.lines.append(f"{word} {self._chosen[name]} == {index}:")
                self.body.lines.append("    " + self._triton(kernel, arguments))
                word = "elif"
        elif name in self._generated.kernels:
            self.body.lines.append(self._triton(name, arguments))
        else:
            raise Unliftable("unknown_kernel", f"{name} is launched and nowhere defined")

    def _triton(self, name: str, arguments: Sequence[str]) -> str:
        kernel = self._generated.kernels[name]
        parameters = self._parameters[name]
        if len(arguments) != len(kernel.arguments):
            raise Unliftable("unknown_kernel", f"{name} takes {kernel.arguments}")
        grid = grid_of(kernel, arguments, parameters)
        passed = [
            text
            for text, known in zip(arguments, kernel.arguments, strict=True)
            if not known.startswith("_grid_")
        ]
        passed += [f"{one}={parameters.read(one)}" for one in kernel.constants]
        passed += [f"{one}={parameters.read(one)}" for one in ("num_warps", "num_stages")]
        if kernel.is_cooperative:
            passed.append("launch_cooperative_grid=True")
        return f"{name}[{grid}]({', '.join(passed)})"

    def _assign(self, statement: ast.Assign | ast.AugAssign) -> None:
        if "get_raw_stream" in ast.unparse(statement.value):
            self._streams |= {ast.unparse(target) for target in _targets(statement)}
            return
        value = self._expression(statement.value)
        if isinstance(statement, ast.AugAssign):
            raise Unliftable("unknown_statement", ast.unparse(statement))
        targets = " = ".join(ast.unparse(target) for target in statement.targets)
        self.body.lines.append(f"{targets} = {value}")

    def _delete(self, statement: ast.Delete) -> None:
        """Free memory where the generated code does; streams were never bound."""
        names = [
            self._renamed.get(ast.unparse(target), ast.unparse(target))
            for target in statement.targets
            if ast.unparse(target) not in self._streams
        ]
        names = [name for name in names if name not in self._returned]
        if names:
            self.body.lines.append(f"del {', '.join(names)}")

    def _return(self, statement: ast.Return) -> None:
        if not isinstance(statement.value, ast.Tuple):
            raise Unliftable("unknown_module", "call returns no tuple")
        self.results = [self._expression(element) for element in statement.value.elts]

    def _expression(self, node: ast.expr) -> str:
        """Return an expression's text with Inductor's helpers replaced by torch's functions."""
        copy = ast.parse(ast.unparse(node), mode="eval").body
        for name in ast.walk(copy):
            if isinstance(name, ast.Name):
                name.id = self._renamed.get(name.id, name.id)
        return ast.unparse(_Renaming(self.body).visit(copy))


class _Renaming(ast.NodeTransformer):
    """Replaces Inductor's helpers in an expression.

    Args:
        body: Takes note of what is used.
    """

    def __init__(self, body: Body) -> None:
        self._body = body
        self._forms: Mapping[str, Callable[[ast.Call], ast.expr]] = {
            "reinterpret_tensor": self._reinterpret,
            **dict.fromkeys(_EMPTY, self._empty),
        }

    def visit_Call(self, node: ast.Call) -> ast.expr:
        """Replace a call, its arguments first."""
        self.generic_visit(node)
        name = ast.unparse(node.func)
        if name in self._forms:
            return self._forms[name](node)
        root, _, attribute = name.rpartition(".")
        if root == "extern_kernels":
            if attribute not in _EXTERN:
                raise Unliftable("unknown_library_call", attribute)
            self._body.library.append(attribute)
            node.func = _parsed(_EXTERN[attribute])
        elif name.startswith(("torch.ops.", "aten.", "inductor_ops.")):
            if name.startswith(("torch.ops.inductor", "inductor_ops")):
                raise Unliftable("unknown_library_call", name)
            self._body.library.append(name)
        return node

    def _reinterpret(self, node: ast.Call) -> ast.expr:
        self._body.helpers.add("reinterpret")
        node.func = _parsed("reinterpret")
        if len(node.args) == 4 and ast.unparse(node.args[3]) == "0":
            node.args.pop()
        return node

    def _empty(self, node: ast.Call) -> ast.expr:
        device = _EMPTY[ast.unparse(node.func)]
        shape, stride, dtype = (ast.unparse(argument) for argument in node.args)
        return _parsed(f"torch.empty_strided({shape}, {stride}, dtype={dtype}, device={device})")


def _targets(statement: ast.Assign | ast.AugAssign) -> list[ast.expr]:
    return statement.targets if isinstance(statement, ast.Assign) else [statement.target]


def _parsed(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body
