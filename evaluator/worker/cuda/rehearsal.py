"""A rehearsal: what is compiled at the first call is compiled before, and not launched.

Triton compiles a kernel when it is first launched, which takes a hundred times as long as most
calls, and then its launcher, and loads both. In a rehearsal its launches do that and nothing else,
so that building needs the CPU alone and does not keep others from the device. What comes out of a
rehearsal is garbage.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

__all__ = ["compile_errors", "rehearsing"]


@contextmanager
def rehearsing() -> Iterator[None]:
    """Let Triton's kernels be compiled but not launched."""
    from triton.compiler import CompiledKernel
    from triton.runtime.autotuner import Autotuner
    from triton.runtime.errors import OutOfResources
    from triton.runtime.jit import JITFunction

    launch, tune = JITFunction.run, Autotuner.run

    def compile_only(self: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        kernel = launch(self, *args, **{**kwargs, "warmup": True})
        if isinstance(kernel, CompiledKernel):
            # An autotuner goes on without the configurations that do not fit.
            with suppress(OutOfResources):
                kernel._init_handles()
        return kernel

    def compile_all(self: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        kwargs.pop("warmup", None)
        return self.warmup(*args, **kwargs)

    JITFunction.run = compile_only
    Autotuner.run = compile_all
    try:
        yield
    finally:
        JITFunction.run, Autotuner.run = launch, tune


def compile_errors() -> tuple[type[Exception], ...]:
    """Return what Triton raises where a kernel cannot be compiled for the device."""
    from triton.compiler.errors import CompilationError
    from triton.runtime.errors import OutOfResources, PTXASError

    return CompilationError, OutOfResources, PTXASError
