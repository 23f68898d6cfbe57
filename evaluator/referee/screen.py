"""Static rules over a candidate's syntax tree: a tripwire, not the defence.

What the rules catch costs no process, and its author gets a clear reason. Whoever hides behind
`__import__("thr" + "eading")` passes here and meets the referee's clock and memory instead. Rules
are few and narrow: honest code compiles with `subprocess` and loads with `ctypes`.

Source: published accounts of how kernel benchmarks were fooled; `tests/zoo/cheats/`.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass

__all__ = ["Finding", "screen"]

MAX_SOURCE_BYTES = 512 * 1024
FORBIDDEN_MODULES = frozenset(
    {"gc", "inspect", "multiprocessing", "pickle", "signal", "socket", "socketserver", "urllib",
     "http", "asyncio", "atexit", "faulthandler", "resource", "mmap", "evaluator", "evokernel",
     "archives", "operators", "problems", "ray"}
)  # fmt: skip
THREAD_MODULES = frozenset({"threading", "_thread", "concurrent"})
PATCHED_ROOTS = frozenset({"torch", "time", "F", "builtins", "sys"})
TORCH_SWITCHES = ("torch.backends.", "torch._C.", "torch._inductor.config", "torch._dynamo.config")
FORBIDDEN_CALLS = {
    "os.fork": "background_process",
    "os.forkpty": "background_process",
    "os.kill": "background_process",
    "os._exit": "early_exit",
    "sys._getframe": "frame_access",
    "sys.settrace": "frame_access",
    "sys.setprofile": "frame_access",
    "torch.compile": "delegation_compile",
    "torch.set_num_threads": "thread_setting",
    "torch.set_num_interop_threads": "thread_setting",
    "torch.set_default_dtype": "global_state",
    "torch.set_float32_matmul_precision": "global_state",
    "torch.set_flush_denormal": "global_state",
}
LAZY_METHODS = frozenset({"__torch_function__", "__torch_dispatch__"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A rule that a candidate breaks.

    Attributes:
        reason: Stable code, such as "fallback_to_reference".
        line: Line in the source, from 1; 0 where none applies.
        log: One sentence for the author.
    """

    reason: str
    line: int
    log: str


def screen(source: str) -> Finding | None:
    """Return the first rule that a candidate's source breaks, or None.

    Args:
        source: Text of the candidate's module.
    """
    if len(source.encode("utf-8", "surrogatepass")) > MAX_SOURCE_BYTES:
        log = f"the source is larger than {MAX_SOURCE_BYTES} bytes: make it smaller."
        return Finding(reason="source_too_large", line=0, log=log)
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = getattr(error, "lineno", None) or 0
        return Finding(reason="syntax_error", line=line, log=f"the source does not parse: {error}")
    for rule in RULES:
        for finding in rule(tree):
            return finding
    return None


def _no_model(tree: ast.Module) -> Iterator[Finding]:
    """`ModelNew` must exist at the top level."""
    names = {node.name for node in tree.body if isinstance(node, ast.ClassDef)}
    names |= {
        target.id
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    names |= {
        alias.asname or alias.name
        for node in tree.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    if "ModelNew" not in names:
        log = (
            "the module defines no class ModelNew: define it with Model's constructor and forward."
        )
        yield Finding(reason="no_model_new", line=0, log=log)


def _reference(tree: ast.Module) -> Iterator[Finding]:
    """`ModelNew` must not inherit the reference, nor call it when its own code fails."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and node.name == "ModelNew":
            for base in node.bases:
                if _name(base).rpartition(".")[2] == "Model":
                    log = "ModelNew inherits Model: write forward anew instead."
                    yield _finding("fallback_to_reference", node, log)
        if isinstance(node, ast.FunctionDef) and node.name == "forward":
            yield from _fallbacks(node)


def _fallbacks(forward: ast.FunctionDef) -> Iterator[Finding]:
    log = (
        "forward catches a failure and returns a library's result instead: let it fail, or "
        "choose by shape before the call."
    )
    for node in ast.walk(forward):
        if isinstance(node, ast.Try) and any(_returns_call(h) for h in node.handlers):
            yield _finding("fallback_to_reference", node, log)
        if isinstance(node, ast.With):
            for item in node.items:
                if isinstance(item.context_expr, ast.Call) and _name(
                    item.context_expr.func
                ).endswith("suppress"):
                    yield _finding("fallback_to_reference", node, log)


def _returns_call(handler: ast.ExceptHandler) -> bool:
    """Whether a handler goes on with some computed value rather than raising."""
    raises = any(isinstance(node, ast.Raise) for node in ast.walk(handler))
    return not raises and any(isinstance(node, ast.Call) for node in ast.walk(handler))


def _imports(tree: ast.Module) -> Iterator[Finding]:
    """Modules that no kernel needs."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Import | ast.ImportFrom):
            continue
        names = [a.name for a in node.names] if isinstance(node, ast.Import) else [node.module]
        for name in filter(None, names):
            root = name.partition(".")[0]
            if root in THREAD_MODULES:
                log = f"the module imports {name}: use OpenMP inside the kernel instead."
                yield _finding("background_thread", node, log)
            if root in FORBIDDEN_MODULES or name.startswith("torch.multiprocessing"):
                log = f"the module imports {name}, which no kernel needs: remove it."
                yield _finding("forbidden_module", node, log)


def _patches(tree: ast.Module) -> Iterator[Finding]:
    """Assignments to attributes of torch, time and the like."""
    for node in ast.walk(tree):
        for target in _targets(node):
            name = _name(target)
            if not isinstance(target, ast.Attribute):
                continue
            if name.startswith(TORCH_SWITCHES):
                log = f"the module sets {name}: leave torch's global switches alone."
                yield _finding("global_state", target, log)
            elif name.partition(".")[0] in PATCHED_ROOTS:
                log = f"the module replaces {name}: leave other modules as they are."
                yield _finding("patched_module", target, log)
        if isinstance(node, ast.Call) and _name(node.func) == "setattr" and node.args:
            name = _name(node.args[0])
            if name.partition(".")[0] in PATCHED_ROOTS:
                log = f"the module replaces an attribute of {name}: leave other modules alone."
                yield _finding("patched_module", node, log)


def _targets(node: ast.AST) -> list[ast.expr]:
    if isinstance(node, ast.Assign):
        return node.targets
    return [node.target] if isinstance(node, ast.AugAssign | ast.AnnAssign) else []


def _calls(tree: ast.Module) -> Iterator[Finding]:
    """Calls that reach outside a kernel's business."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = _name(node.func)
            if reason := FORBIDDEN_CALLS.get(name, ""):
                yield _finding(reason, node, f"the module calls {name}: remove the call.")


def _lazy(tree: ast.Module) -> Iterator[Finding]:
    """Tensor subclasses and hooks that put the work off until somebody looks."""
    log = "forward must return plain tensors whose values are there already."
    for node in ast.walk(tree):
        bases = node.bases if isinstance(node, ast.ClassDef) else []
        for base in bases:
            if _name(base) in {"torch.Tensor", "Tensor"}:
                yield _finding("lazy_tensor", base, log)
        if isinstance(node, ast.FunctionDef) and node.name in LAZY_METHODS:
            yield _finding("lazy_tensor", node, log)
        if isinstance(node, ast.Call) and _name(node.func).endswith("_make_subclass"):
            yield _finding("lazy_tensor", node, log)


def _name(node: ast.AST) -> str:
    """Dotted name of an expression; "" where it is none."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        base = _name(node.value)
        return f"{base}.{node.attr}" if base else ""
    return ""


def _finding(reason: str, node: ast.stmt | ast.expr, log: str) -> Finding:
    return Finding(reason=reason, line=node.lineno, log=f"line {node.lineno}: {log}")


RULES: tuple[Callable[[ast.Module], Iterator[Finding]], ...] = (
    _no_model,
    _lazy,
    _reference,
    _imports,
    _patches,
    _calls,
)
