"""How fast torch itself does a problem: eager at each TF32 setting, and compiled.

The problem is the benchmark's or the user's own and is trusted: `torch.compile` needs compilers,
caches and processes that no sandbox would grant. A protocol of events as the benchmark uses it:
cold cache, fresh contents for every call, median of the calls. Problems may be compiled beside each
other; whatever runs on the device has its turn there.
"""

from __future__ import annotations

import copy
import ctypes
import gc
import math
import platform
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from statistics import median
from types import ModuleType
from typing import Any, TypeVar

import torch
from torch import nn

from evaluator.worker.yardstick_turns import Turns

__all__ = ["describe_device", "measure_problem"]

_FLUSH_BYTES = {"cuda": 256 << 20, "cpu": 64 << 20}
_LEAST_CALLS = 5
_MOST_CALLS = 50
_CHUNK = 1 << 26
_DTYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
_TF32 = {"eager_strict": False, "eager_tf32": True}
_MODES = {"compile": None, "max_autotune": "max-autotune-no-cudagraphs"}
_PAUSES_S = (0.5, 1.0, 2.0, 4.0, 8.0)
"""Waits for memory that others have."""

Row = dict[str, Any]
T = TypeVar("T")


def measure_problem(
    request: dict[str, Any],
    turns: Turns,
    tell: Callable[[Row], None],
    report: Callable[[str], None],
) -> None:
    """Measure one problem under several settings, and tell each result as soon as it is known.

    Args:
        request: `source`, `precision`, `device` ("cuda" or "cpu"), `settings`, `seed`, `budget_s`,
            the seconds of timed calls for each setting, and `beside`, whether other processes use
            the device's memory.
        turns: At the device.
        tell: Receives one row for each setting: `setting`, `latency_ms`, `calls`, `build_s`,
            `error` (None: float64 failed) and `log`, why there is no time.
        report: Receives what is being done, for whoever has to say where it ended.

    Raises:
        Exception: Whatever the problem raises before its first call.
    """
    report("loading the problem")
    bench = _Bench(request, torch.device(request["device"]), turns)
    pauses_s = _PAUSES_S if request["beside"] else ()
    with torch.no_grad():
        ways: dict[str, _Way] = {}
        for setting in request["settings"]:
            report(f"compiling {setting}" if setting in _MODES else f"preparing {setting}")
            try:
                ways[setting] = _with_memory(partial(bench.prepare, setting), pauses_s)
            except Exception as error:  # noqa: BLE001 - compilers raise anything; it costs one row
                tell(_failed(setting, error))
        told: set[str] = set()

        def tell_once(row: Row) -> None:
            told.add(row["setting"])
            tell(row)

        def measure(*, insist: bool) -> None:
            left = {setting: way for setting, way in ways.items() if setting not in told}
            with turns.hold():
                _measure_all(bench, left, insist, tell_once, report)

        _with_memory(partial(measure, insist=not pauses_s), pauses_s, partial(measure, insist=True))


def _measure_all(
    bench: _Bench,
    ways: dict[str, _Way],
    insist: bool,
    tell: Callable[[Row], None],
    report: Callable[[str], None],
) -> None:
    """Measure what was prepared.

    Args:
        bench: The problem.
        ways: What to measure, by setting.
        insist: Whether to do without what there is no memory for.
        tell: Receives rows.
        report: Receives what is being done.

    Raises:
        OutOfMemoryError: There is no memory, and `insist` is False.
    """
    report("computing in float64")
    exact: list[torch.Tensor] | None = None
    why = ""
    try:
        exact = bench.in_float64()
    except (RuntimeError, TypeError, ValueError) as error:
        if isinstance(error, torch.OutOfMemoryError) and not insist:
            raise
        why = f"no float64 output: {_first_line(error)}"
    for setting, way in ways.items():
        report(f"measuring {setting}")
        try:
            tell({"setting": setting, **bench.measure(setting, way, exact), "log": why})
        except torch.OutOfMemoryError as error:
            if not insist:
                raise
            tell(_failed(setting, error))
        except Exception as error:  # noqa: BLE001 - kernels raise anything; it costs one row
            tell(_failed(setting, error))


def _with_memory(
    action: Callable[[], T], pauses_s: Sequence[float], last: Callable[[], T] | None = None
) -> T:
    """Do something; again after a pause where others have the memory that it needs.

    Args:
        action: May raise an `OutOfMemoryError`.
        pauses_s: Seconds to wait before each further try.
        last: What to do in the last try; None: the same.
    """
    for pause_s in pauses_s:
        try:
            return action()
        except torch.OutOfMemoryError:
            pass  # The error, and with it what it keeps alive, ends here.
        gc.collect()
        torch.cuda.empty_cache()
        time.sleep(pause_s)
    return (last or action)()


def describe_device(kind: str) -> dict[str, Any]:
    """Return name and versions of the device that is measured on.

    Args:
        kind: "cuda" or "cpu".
    """
    versions = {"python": platform.python_version(), "torch": str(torch.__version__)}
    if kind == "cpu":
        return {"name": "", "versions": versions}
    versions |= {"cuda": str(torch.version.cuda), "driver": _driver(), "triton": _triton()}
    return {"name": torch.cuda.get_device_name(), "versions": versions}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Way:
    """A problem that is ready to be called in one setting.

    Attributes:
        run: Calls it.
        build_s: Seconds of compiling it, turns at the device not waited for.
    """

    run: Callable[..., object]
    build_s: float = 0.0


class _Bench:
    """A problem that is open on a device."""

    def __init__(self, request: dict[str, Any], device: torch.device, turns: Turns) -> None:
        self._device = device
        self._turns = turns
        self._dtype = _DTYPES[request["precision"]]
        self._seed = int(request["seed"])
        self._budget_s = float(request["budget_s"])
        self._module = ModuleType("evokernel_problem")
        code = compile(request["source"], "problem.py", "exec", dont_inherit=True)
        exec(code, self._module.__dict__)  # noqa: S102 - a problem is a program
        torch.manual_seed(self._seed)
        with device:
            model = self._module.Model(*self._module.get_init_inputs())
        self.model: nn.Module = model.to(device, self._dtype)

    def prepare(self, setting: str) -> _Way:
        """Compile the problem for a setting, where that one compiles."""
        if setting not in _MODES:
            return _Way(run=self.model)
        torch._dynamo.reset()
        run = torch.compile(self.model, mode=_MODES[setting])
        with self._turns.hold():
            values = self._seeded()
        start, waited_s = time.perf_counter(), self._turns.waited_s
        with self._turns.while_compiling():
            run(*values)
            self._wait()
        took_s = time.perf_counter() - start
        return _Way(run=run, build_s=took_s - (self._turns.waited_s - waited_s))

    def draw(self) -> list[Any]:
        """Return fresh inputs on the device."""
        with self._device:
            values = self._module.get_inputs()
        return [self._placed(value) for value in values]

    def in_float64(self) -> list[torch.Tensor]:
        """Return the outputs for the inputs of the seed, computed in float64."""
        model = copy.deepcopy(self.model).double()
        values = [
            value.double()
            if isinstance(value, torch.Tensor) and value.is_floating_point()
            else value
            for value in self._seeded()
        ]
        return _tensors(model(*values))

    def measure(
        self, setting: str, way: _Way, exact: Sequence[torch.Tensor] | None
    ) -> dict[str, Any]:
        """Compare a setting's output with float64, and time it."""
        with _tf32(_TF32.get(setting)):
            outputs = _tensors(way.run(*self._seeded()))
            error = None if exact is None else _error(outputs, exact)
            del outputs
            times = self._times(way.run)
        return {
            "latency_ms": median(times),
            "calls": len(times),
            "build_s": way.build_s,
            "error": error,
        }

    def _times(self, run: Callable[..., object]) -> list[float]:
        flush = torch.empty(_FLUSH_BYTES[self._device.type], dtype=torch.uint8, device=self._device)
        times: list[float] = []
        run(*self.draw())  # Warms up what depends on where the inputs lie.
        end = time.perf_counter() + self._budget_s
        while len(times) < _LEAST_CALLS or (len(times) < _MOST_CALLS and time.perf_counter() < end):
            values = self.draw()
            flush.fill_(len(times) % 256)
            times.append(self._clock(run, values))
        return times

    def _clock(self, run: Callable[..., object], values: list[Any]) -> float:
        """Time of one call, in ms."""
        if self._device.type == "cpu":
            start_s = time.perf_counter()
            run(*values)
            return (time.perf_counter() - start_s) * 1e3
        start, end = _event(), _event()
        start.record()
        run(*values)
        end.record()
        end.synchronize()
        return float(start.elapsed_time(end))

    def _seeded(self) -> list[Any]:
        torch.manual_seed(self._seed)
        return self.draw()

    def _placed(self, value: object) -> object:
        if not isinstance(value, torch.Tensor):
            return value
        return value.to(self._device, self._dtype if value.is_floating_point() else value.dtype)

    def _wait(self) -> None:
        if self._device.type == "cuda":
            torch.cuda.synchronize()


def _failed(setting: str, error: Exception) -> Row:
    log = f"{type(error).__name__}: {_first_line(error)}"
    return {"setting": setting, "latency_ms": None, "error": None, "log": log}


def _event() -> torch.cuda.Event:
    event: torch.cuda.Event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
    return event


def _tensors(result: object) -> list[torch.Tensor]:
    values = list(result) if isinstance(result, list | tuple) else [result]
    return [value for value in values if isinstance(value, torch.Tensor)]


def _error(outputs: Sequence[torch.Tensor], exact: Sequence[torch.Tensor]) -> float:
    """Root mean square of the error over that of the output, of the worst output."""
    return max(
        (
            _deviation(got.flatten(), wanted.flatten())
            for got, wanted in zip(outputs, exact, strict=True)
            if got.is_floating_point()
        ),
        default=0.0,
    )


def _deviation(got: torch.Tensor, exact: torch.Tensor) -> float:
    """Error of one output, computed a part at a time; what is not finite has no say."""
    errors = squares = 0.0
    for start in range(0, len(exact), _CHUNK):
        wanted = exact[start : start + _CHUNK]
        error = got[start : start + _CHUNK].double() - wanted
        is_finite = error.isfinite()
        if not bool(is_finite.all()):
            error, wanted = error[is_finite], wanted[is_finite]
        errors += float(torch.dot(error, error))
        squares += float(torch.dot(wanted.double(), wanted.double()))
    if squares == 0.0:
        return float(errors > 0)
    return math.sqrt(errors / squares)


@contextmanager
def _tf32(permitted: bool | None) -> Iterator[None]:
    """Permit or forbid TF32 for products and convolutions; None: torch's defaults."""
    matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
    before = matmul.allow_tf32, cudnn.allow_tf32
    if permitted is not None:
        matmul.allow_tf32 = cudnn.allow_tf32 = permitted
    try:
        yield
    finally:
        matmul.allow_tf32, cudnn.allow_tf32 = before


def _driver() -> str:
    """Version of the GPU's driver; "unknown" where its library does not say."""
    buffer = ctypes.create_string_buffer(96)
    try:
        library = ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return "unknown"
    if library.nvmlInit_v2() or library.nvmlSystemGetDriverVersion(buffer, len(buffer)):
        return "unknown"
    return buffer.value.decode()


def _triton() -> str:
    try:
        return version("triton")
    except PackageNotFoundError:
        return "none"


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0][:300] if lines else "no message"
