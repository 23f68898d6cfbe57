"""Turns at a device, for processes that compile beside each other and time one after the other.

Compiling takes processor time for the most part. What runs on the device meanwhile, such as the
trials by which Inductor chooses between kernels, takes the timing gate: nobody's trial and nobody's
time is disturbed by another one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import wraps
from importlib import import_module
from typing import Any

from evaluator.gate import Gate

__all__ = ["Turns"]

_ON_THE_DEVICE = (
    ("torch._inductor.runtime.benchmarking", "benchmarker", "benchmark_gpu"),
    ("torch._inductor.output_code", "CompiledFxGraph", "__call__"),
)
"""Where Inductor runs something while it compiles: module, class or instance, and method."""


class Turns:
    """One thread's turns at a device; whoever holds one may take another within it.

    Attributes:
        waited_s: Seconds spent waiting for turns so far.
    """

    def __init__(self, gate: Gate, waiting: Callable[[bool], None]) -> None:
        """Wait for nothing yet.

        Args:
            gate: The device's.
            waiting: Called with True before each wait for the gate, and with False after it.
        """
        self.waited_s = 0.0
        self._gate = gate
        self._waiting = waiting
        self._is_held = False

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Have the device alone for the block."""
        if self._is_held:
            yield
            return
        start = time.monotonic()
        self._waiting(True)
        with self._gate.exclusive():
            self._waiting(False)
            self.waited_s += time.monotonic() - start
            self._is_held = True
            try:
                yield
            finally:
                self._is_held = False

    @contextmanager
    def while_compiling(self) -> Iterator[None]:
        """Let Inductor take a turn for each thing that it runs on the device, in the block.

        Where this version of torch does these things elsewhere, the whole block is one turn.
        """
        owners = [(_owner(module, name), method) for module, name, method in _ON_THE_DEVICE]
        with ExitStack() as held:
            if any(owner is None for owner, _ in owners):
                held.enter_context(self.hold())
            else:
                for owner, method in owners:
                    held.enter_context(self._in_turns(owner, method))
            yield

    @contextmanager
    def _in_turns(self, owner: Any, method: str) -> Iterator[None]:  # noqa: ANN401 - any class
        original = getattr(owner, method)

        @wraps(original)
        def in_turn(*arguments: Any, **keywords: Any) -> Any:  # noqa: ANN401
            import torch

            with self.hold():
                result = original(*arguments, **keywords)
                if torch.cuda.is_available():
                    torch.cuda.synchronize()
                return result

        setattr(owner, method, in_turn)
        try:
            yield
        finally:
            setattr(owner, method, original)


def _owner(module: str, name: str) -> Any:  # noqa: ANN401 - any class
    """The class that has a method of Inductor; None where this version has no such thing."""
    try:
        found = getattr(import_module(module), name)
    except (AttributeError, ImportError):
        return None
    return found if isinstance(found, type) else type(found)
