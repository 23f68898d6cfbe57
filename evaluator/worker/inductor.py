"""Inductor as lifting sees it: what it writes, what it is called with, what it chose.

Written against torch 2.11 to 2.13; whatever reaches into Inductor is in this file.

Where Inductor would choose among templates for a product by timing each, the one nearest to a
preferred tile is taken instead: its block sizes become parameters of the lifted program, and the
search measures them where it measures everything else.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any
from unittest import mock

from problems.lifted import Kernel

__all__ = ["NotYet", "Record", "backend_of", "generated_module", "kernels_of", "needed", "watching"]

_PREFERRED_TILE = (128, 32, 128)
"""Of a template: rows, depth, columns."""
_TRIED = "evokernel_tried"
_BENCHMARK = ("get_args", "benchmark_compiled_module")


class NotYet(Exception):
    """The generated code was about to run for the first time."""


@dataclass(slots=True, kw_only=True)
class Record:
    """What is seen of one compilation.

    Attributes:
        codes: Texts that Inductor wrote, that of the whole model last: templates for products may
            be modules of their own.
        arguments: What the generated code was called with.
        results: What it returned.
        may_run: Whether it may run by now.
        vector_bits: Width of the vectors in its C++; 0: none.
    """

    codes: list[str] = field(default_factory=list)
    arguments: list[Any] = field(default_factory=list)
    results: list[Any] = field(default_factory=list)
    may_run: bool = False
    vector_bits: int = 0


def backend_of(record: Record, options: Mapping[str, object]) -> Callable[..., Any]:
    """Return Inductor under some options as a backend, the calls of its code recorded."""
    from torch._inductor.compile_fx import compile_fx, compile_fx_inner

    def inner(graph: Any, examples: Sequence[Any], **settings: Any) -> Any:  # noqa: ANN401
        # Typed as one of its bases.
        compiled: Any = compile_fx_inner(graph, examples, **settings)
        generated = compiled.current_callable
        record.vector_bits = _vector_bits()

        def recording(arguments: list[Any]) -> Any:  # noqa: ANN401
            record.arguments = list(arguments)
            if not record.may_run:
                raise NotYet
            results = generated(arguments)
            record.results = list(results)
            return results

        compiled.current_callable = recording
        return compiled

    def backend(graph: Any, examples: Sequence[Any]) -> Any:  # noqa: ANN401
        patches = {"fx_graph_cache": False, **options}
        return compile_fx(graph, examples, inner_compile=inner, config_patches=patches)

    return backend


@contextmanager
def watching(record: Record) -> Iterator[None]:
    """Keep the code that Inductor writes, and what each kernel may be launched with, in a block.

    Kernels in C++ are not built, and write zeros: there is nothing to be read of them in running.
    """
    from torch._functorch import config as functorch_config
    from torch._inductor import config
    from torch._inductor.async_compile import AsyncCompile
    from torch._inductor.cpu_vec_isa import VecISA
    from torch._inductor.graph import GraphLowering
    from torch._inductor.runtime.triton_heuristics import CachingAutotuner

    prepare = CachingAutotuner.__init__

    def keep_configurations(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401
        prepare(self, *args, **kwargs)
        setattr(self, _TRIED, list(self.configs or ()))

    with ExitStack() as stack:
        stack.enter_context(functorch_config.patch(enable_autograd_cache=False))
        stack.enter_context(
            mock.patch.object(GraphLowering, "save_output_code", record.codes.append)
        )
        stack.enter_context(mock.patch.object(CachingAutotuner, "__init__", keep_configurations))
        stack.enter_context(mock.patch.object(AsyncCompile, "cpp_pybinding", _not_built))
        # It would build and load four programs to ask which vectors there are.
        stack.enter_context(config.patch({"cpp.vec_isa_ok": True}))
        stack.enter_context(mock.patch.object(VecISA, "check_build", _refused))
        stack.enter_context(_choosing_one_template())
        yield


def _not_built(_: object, kinds: Sequence[str], *__: object) -> Callable[..., None]:
    """A kernel in C++ that zeroes what it would write to: an index of the next may lie there."""
    written = [at for at, kind in enumerate(kinds) if "*" in kind and "const" not in kind]

    def zero(*arguments: Any) -> None:  # noqa: ANN401 - tensors and sizes
        for at in written:
            arguments[at].zero_()

    return zero


def _refused(*_: object) -> bool:
    """Answer for vectors of bfloat16, VNNI and AMX, which `vec_isa_ok` says nothing about."""
    return False


def _vector_bits() -> int:
    from torch._inductor.cpu_vec_isa import pick_vec_isa

    vectors = pick_vec_isa()
    return int(vectors.bit_width()) if vectors else 0


@contextmanager
def _choosing_one_template() -> Iterator[None]:
    """Let Inductor see one template where it has several."""
    from torch._inductor.select_algorithm import add_preprocessing_fn, clear_preprocessing_fns

    add_preprocessing_fn(_one_template)
    try:
        yield
    finally:
        clear_preprocessing_fns(clear_defaults=False)


def _one_template(choices: list[Any]) -> list[Any]:
    """The template nearest to the preferred tile, else a library's call: one is not timed."""
    templates = [c for c in choices if type(c).__name__ == "TritonTemplateCaller"]
    if templates:
        return [min(templates, key=_distance)]
    libraries = [c for c in choices if type(c).__name__ == "ExternKernelCaller"]
    return libraries[:1] or choices


def _distance(choice: Any) -> float:  # noqa: ANN401 - one of Inductor's choices
    """How far a template's tile is from the preferred one, in doublings; TMA forms come last."""
    text = str(choice.info_dict().get("tile_shape", "()")).strip("()")
    sizes = [int(word) for word in text.split(",") if word.strip().lstrip("-").isdigit()]
    far = 0.0 if len(sizes) == len(_PREFERRED_TILE) else 100.0
    for size, wanted in zip(sizes, _PREFERRED_TILE, strict=False):
        far += abs(max(size, 1).bit_length() - wanted.bit_length())
    return far + (50.0 if "tma" in str(choice.name) else 0.0)


def needed(code: str) -> str:
    """Return the statements that define and call kernels: comments and a benchmark are as long."""
    lines = code.split("\n")
    kept = [
        node
        for node in ast.parse(code).body
        if not isinstance(node, ast.If)
        and not (isinstance(node, ast.FunctionDef) and node.name in _BENCHMARK)
    ]
    texts = ["\n".join(lines[node.lineno - 1 : node.end_lineno]) for node in kept]
    return "\n".join(texts) + "\n"


def generated_module() -> ModuleType:
    """Return the module that Inductor loaded last and that has a `call`.

    Raises:
        LookupError: There is none.
    """
    from torch._inductor.codecache import PyCodeCache

    for module in reversed(PyCodeCache.modules):
        if hasattr(module, "call"):
            return module
    raise LookupError("Inductor loaded no module")


def kernels_of(module: ModuleType) -> dict[str, Kernel]:
    """Return what the kernels of a module chose, and from what."""
    found = {}
    for name, value in vars(module).items():
        launchers = getattr(value, "launchers", None)
        if launchers:
            tried = getattr(value, _TRIED, ())
            found[name] = Kernel(
                picked=_point(launchers[0].config), tried=tuple(_point(one) for one in tried)
            )
        picked = getattr(value, "picked_kernel", None)
        if isinstance(picked, int):
            found[name] = Kernel(picked={"kernel": picked})
    return found


def _point(configuration: Any) -> dict[str, int]:  # noqa: ANN401 - one of Triton's
    point = {name: value for name, value in configuration.kwargs.items() if isinstance(value, int)}
    point["num_warps"] = int(configuration.num_warps)
    point["num_stages"] = int(configuration.num_stages)
    return point
