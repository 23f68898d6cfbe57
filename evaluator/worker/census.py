"""A census of a candidate's kernels: how many, how much of the time, and how they are built.

Counted apart from every timing, in a pass of its own: operations that reach torch's dispatcher
and compute, and calls into libraries that the candidate built itself (found through ctypes).
Covered: honest programs, whose facts are descriptors and shown to people. Not covered: a program
that lies about itself in its own process; no verdict rests on this.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from archives.evaluation import Reuse
from evaluator.worker.machine_code import MachineCode, disassemble, examine

__all__ = ["take_census"]

_LIBRARY_SHARE = 0.1
"""From this share of the time on, a library's operations are where reuse lives."""
_ALLOCATIONS = ("aten::empty", "aten::new_empty", "aten::_efficientzerotensor")


def take_census(
    construct: Callable[[], Any], arguments: Sequence[Sequence[object]], folders: Sequence[str]
) -> dict[str, Any]:
    """Construct a candidate once more, watched, and call it.

    Args:
        construct: Loads the program and returns its model.
        arguments: One list of inputs for each call; the first call warms up where there are more.
        folders: Where the candidate builds its libraries.

    Returns:
        The fields of `KernelFacts` that a CPU has.
    """
    native = _NativeCalls(folders=folders)
    with native.watched():
        model = construct()
    warm_up, *counted = arguments if len(arguments) > 1 else [arguments[0], arguments[0]]
    model(*warm_up)
    native.reset()
    library = _LibraryCalls()
    start = perf_counter()
    with library:
        for values in counted:
            model(*values)
    total_s = perf_counter() - start
    paths = native.paths or _loaded_from(folders)
    share = _own_share(native, library, total_s, has_own=bool(paths))
    code = _machine_code(paths)
    launches = native.count + library.count
    return {
        "launches": max(1, round(launches / len(counted))),
        "own_kernel_share": share,
        "reuse": _reuse(share, code),
        "work": code.work if code else None,
        "vector_bits": code.vector_bits if code else None,
    }


@dataclass(slots=True, kw_only=True)
class _NativeCalls:
    """Calls into libraries below certain folders.

    Attributes:
        folders: The folders.
        paths: Libraries that were loaded from there.
        count: Calls since the last reset.
        seconds: Time spent in them.
    """

    folders: Sequence[str]
    paths: list[str] = field(default_factory=list)
    count: int = 0
    seconds: float = 0.0

    def reset(self) -> None:
        """Count from zero again."""
        self.count = 0
        self.seconds = 0.0

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Watch the libraries that are loaded meanwhile, for good."""
        original = ctypes.CDLL
        loader = ctypes.cdll
        watching = self._watching(original)
        ctypes.CDLL = watching  # type: ignore[misc]
        ctypes.cdll = ctypes.LibraryLoader(watching)
        try:
            yield
        finally:
            ctypes.CDLL = original  # type: ignore[misc]
            ctypes.cdll = loader

    def _watching(self, original: type[ctypes.CDLL]) -> type[ctypes.CDLL]:
        calls = self

        class WatchedLibrary(original):  # type: ignore[misc, valid-type]
            def __init__(self, name: object, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401
                super().__init__(name, *args, **kwargs)
                if name is not None and _is_below(str(name), calls.folders):
                    calls.paths.append(str(name))
                    self._FuncPtr: Any = calls._counting(vars(self)["_FuncPtr"])

        return WatchedLibrary

    def _counting(self, pointer: Any) -> Any:  # noqa: ANN401 - a class made by ctypes
        calls = self

        class CountedFunction(pointer):  # type: ignore[misc]
            _flags_ = pointer._flags_
            _restype_ = pointer._restype_

            def __call__(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
                start = perf_counter()
                result = super().__call__(*args, **kwargs)
                calls.seconds += perf_counter() - start
                calls.count += 1
                return result

        return CountedFunction


class _LibraryCalls(TorchDispatchMode):
    """Operations that reach torch's dispatcher and compute something."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch types none of it
        self.count = 0
        self.seconds = 0.0

    def __torch_dispatch__(
        self,
        func: Any,  # noqa: ANN401
        types: Any,  # noqa: ANN401
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:  # noqa: ANN401
        start = perf_counter()
        result = func(*args, **(kwargs or {}))
        if _computes(func):
            self.seconds += perf_counter() - start
            self.count += 1
        return result


def _computes(func: Any) -> bool:  # noqa: ANN401 - an operator overload
    """Tell whether an operation does more than allocate or look at memory anew."""
    if func._schema.name.startswith(_ALLOCATIONS):
        return False
    returned = [value.alias_info for value in func._schema.returns]
    views = [alias is not None and not alias.is_write for alias in returned]
    return bool(views) and not all(views) and func is not torch.ops.aten._local_scalar_dense.default


def _own_share(
    native: _NativeCalls, library: _LibraryCalls, total_s: float, *, has_own: bool
) -> float:
    """Return the share of the kernels' time that is the candidate's own."""
    if not has_own:
        return 0.0
    own_s = native.seconds if native.count else max(total_s - library.seconds, 0.0)
    both_s = own_s + library.seconds
    return own_s / both_s if both_s > 0 else 0.0


def _reuse(share: float, code: MachineCode | None) -> Reuse | None:
    if 1 - share >= _LIBRARY_SHARE:
        return Reuse.LIBRARY
    if code is None:
        return None
    return Reuse.CACHE if code.reuses_cache else Reuse.REGISTERS


def _machine_code(paths: Sequence[str]) -> MachineCode | None:
    texts = [disassemble(path) for path in dict.fromkeys(paths)]
    found = [text for text in texts if text is not None]
    return examine(found) if found else None


def _loaded_from(folders: Sequence[str]) -> list[str]:
    """Return the libraries below the folders that this process has mapped."""
    paths = {
        line.split(maxsplit=5)[5]
        for line in Path("/proc/self/maps").read_text().splitlines()
        if line.count(" ") >= 5 and len(line.split(maxsplit=5)) == 6
    }
    return sorted(p for p in paths if ".so" in p and _is_below(p, folders))


def _is_below(path: str, folders: Sequence[str]) -> bool:
    resolved = Path(path).resolve()
    return any(resolved.is_relative_to(Path(folder).resolve()) for folder in folders)
