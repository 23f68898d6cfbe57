"""The process that `interpreter` starts: runs cases on a device, prints verdicts as JSON."""

from __future__ import annotations

import importlib.util
import json
import sys
import tempfile
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch
import triton.language as tl
from triton.runtime import interpreter
from triton.runtime.interpreter import GridExecutor, InterpreterBuilder, TensorHandle

_ROOMS = (tl, tl.core)
"""The modules that a function may know the language by."""
_UNIT = {"float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}


def main(path: str, device: str) -> None:
    """Run the cases of a file; the last line printed holds the verdicts.

    Deterministic algorithms are asked for because `torch.empty` then gives NaN.
    """
    torch.use_deterministic_algorithms(device == "cpu")
    torch.set_default_device(device)
    torch.set_num_threads(1)
    _mend_products()
    if device == "cpu":
        _mend_calls()
    cases = json.loads(Path(path).read_text())
    verdicts = {}
    with tempfile.TemporaryDirectory() as folder:
        for index, (name, case) in enumerate(cases.items()):
            try:
                case["program"] = case["program"].replace('DEVICE = "cpu"', f'DEVICE = "{device}"')
                verdicts[name] = _verdict(case, Path(folder), index)
            except Exception:  # noqa: BLE001 - the verdict on whatever a program does
                verdicts[name] = traceback.format_exc()[-3000:]
    sys.stdout.write("\n" + json.dumps(verdicts) + "\n")


def _mend_products() -> None:
    """Make products of bfloat16 right: the interpreter holds their bits and multiplies those."""
    plain = InterpreterBuilder.create_dot

    def wide(handle: Any) -> Any:  # noqa: ANN401 - the interpreter's tensors have no types
        if handle.dtype.scalar != tl.bfloat16:
            return handle
        data = (handle.data.astype(np.uint32) << 16).view(np.float32)
        return TensorHandle(data, tl.float32)

    def create_dot(self: Any, a: Any, b: Any, *rest: Any) -> Any:  # noqa: ANN401 - the same
        return plain(self, wide(a), wide(b), *rest)

    InterpreterBuilder.create_dot = create_dot


def _mend_calls() -> None:
    """Patch the language once for a launch: the interpreter does so again at each call within it.

    There it changes nothing, since whatever is patched already is left alone and only the end of
    the launch takes it back, but it takes a quarter of all time.
    """
    patch_language, launch = interpreter._patch_lang, GridExecutor.__call__
    patched: set[tuple[bool, ...]] = set()

    def patch_once(fn: Any) -> Any:  # noqa: ANN401 - the interpreter has no types
        known = tuple(any(value is room for value in fn.__globals__.values()) for room in _ROOMS)
        if known in patched:
            return None  # calls do not look at it, and a launch is the first of its kind
        patched.add(known)
        return patch_language(fn)

    def launch_anew(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - the same
        patched.clear()
        launch(self, *args, **kwargs)

    interpreter._patch_lang = patch_once
    GridExecutor.__call__ = launch_anew


def _verdict(case: dict[str, Any], folder: Path, index: int) -> str:
    reference = _load(case["reference"], folder / f"reference{index}.py")
    program = _load(case["program"], folder / f"program{index}.py")
    dtype = getattr(torch, case["precision"])
    torch.manual_seed(0)
    init, drawn = reference.get_init_inputs(), reference.get_inputs()
    plain = reference.Model(*init).to(dtype)
    for parameter in plain.parameters():
        torch.nn.init.normal_(parameter)
    exact, candidate = reference.Model(*init).double(), program.ModelNew(*init).to(dtype)
    if list(plain.state_dict()) != list(candidate.state_dict()):
        return "the state dicts differ"
    candidate.load_state_dict(plain.state_dict())
    exact.load_state_dict(plain.state_dict())
    for where, inputs in _variations(case, drawn, dtype):
        kept = [x.clone() if isinstance(x, torch.Tensor) else x for x in inputs]
        with torch.no_grad():
            got, own = candidate(*inputs), plain(*inputs)
            wide = exact(*(_double(x) for x in inputs))
        pairs = zip(inputs, kept, strict=True)
        if any(isinstance(a, torch.Tensor) and not _same(a, b) for a, b in pairs):
            return f"{where}: an input was written to"
        wrong = _wrong(got, own, wide, case)
        for name, value in candidate.state_dict().items():
            wrong = wrong or _wrong_state(name, value, plain.state_dict()[name])
        if wrong:
            return f"{where}: {wrong}"
    return ""


def _variations(
    case: dict[str, Any], drawn: list[Any], dtype: torch.dtype
) -> Iterator[tuple[str, list[Any]]]:
    floating = [isinstance(x, torch.Tensor) and x.is_floating_point() for x in drawn]
    for factor, offset in case["variations"]:
        yield (
            f"x * {factor} + {offset}",
            [
                (x * factor + offset).to(dtype) if real else x
                for x, real in zip(drawn, floating, strict=True)
            ],
        )
    if case["specials"]:
        values = (float("nan"), float("inf"), -float("inf"))
        inputs = [x.to(dtype).clone() if r else x for x, r in zip(drawn, floating, strict=True)]
        for x in (x for x, real in zip(inputs, floating, strict=True) if real):
            for position, value in enumerate(values):
                x.view(-1)[position * x.numel() // 4 + position] = value
        yield "with NaN and infinities", inputs


def _wrong(got: torch.Tensor, own: torch.Tensor, exact: torch.Tensor, case: dict[str, Any]) -> str:
    """What is wrong with an output: the bound is that of the referee."""
    found, wanted = (got.shape, got.dtype, got.stride()), (own.shape, own.dtype, own.stride())
    if found != wanted:
        return f"the output is {found}, expected {wanted}"
    if not got.is_floating_point():
        return "" if torch.equal(got, own) else f"{int((got != own).sum())} indices differ"
    if not torch.equal(torch.isnan(got), torch.isnan(own)):
        return "NaN elsewhere than in the reference"
    if not torch.equal(torch.isinf(got), torch.isinf(own)):
        return "infinity elsewhere than in the reference"
    finite = torch.isfinite(own) & torch.isfinite(exact)
    if not finite.any():
        return ""
    wide = exact[finite]
    scale = wide.square().mean().sqrt().item()
    allowed = (own[finite].double() - wide).abs().max().item() * case["tolerance"]
    error = (got[finite].double() - wide).abs().max().item()
    bound = max(allowed, 8 * _UNIT[case["precision"]] * scale)
    return "" if error <= bound else f"an error of {error:.3g}, allowed are {bound:.3g}"


def _wrong_state(name: str, value: torch.Tensor, expected: torch.Tensor) -> str:
    close = torch.allclose(value.double(), expected.double(), rtol=1e-5, atol=1e-6)
    return "" if close or torch.isnan(expected).any() else f"{name} differs after the call"


def _same(a: torch.Tensor, b: torch.Tensor) -> bool:
    return torch.equal(torch.nan_to_num(a), torch.nan_to_num(b))


def _double(value: Any) -> Any:  # noqa: ANN401 - any input
    return (
        value.double() if isinstance(value, torch.Tensor) and value.is_floating_point() else value
    )


def _load(source: str, path: Path) -> ModuleType:
    """Load a text from a file, where Triton finds the source of kernels."""
    path.write_text(source)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
