"""What runs under compute-sanitizer: a candidate, called once on inputs drawn for it.

    python -P sanitized.py ORDER_JSON

A script of its own: it is started afresh, where this project's packages cannot be found. It says
at the end that it came so far: where nothing was called, nothing was found either.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import nn
from torch.nn.parameter import is_lazy

__all__ = ["main"]


def main() -> None:
    """Load a problem and a candidate, and call the candidate.

    Raises:
        Exception: Whatever the two raise.
    """
    order = json.loads(Path(sys.argv[1]).read_text())
    dtype, device = getattr(torch, order["dtype"]), torch.device(order["device"])
    torch.set_grad_enabled(False)
    problem = _load("reference", order["source"])
    candidate = _load("candidate", order["candidate"])
    torch.manual_seed(order["seed"])
    # Drawn where they are needed: the host may have less room than the device.
    with device:
        init, drawn = problem["get_init_inputs"](), problem["get_inputs"]()
    model = candidate["ModelNew"](*init)
    if isinstance(model, nn.Module):
        _take_precision(model, problem["Model"](*init), dtype)
        model = model.to(device)
    values = [
        value.to(device, dtype if value.is_floating_point() else value.dtype)
        if isinstance(value, torch.Tensor)
        else value
        for value in drawn
    ]
    model(*values)
    if device.type == "cuda":
        torch.cuda.synchronize()
    sys.stdout.write(f"{order['called']}\n")


def _take_precision(model: nn.Module, reference: nn.Module, dtype: torch.dtype) -> None:
    """Convert what the reference has, too, as the referee does: see `state.take_precision`."""
    constructed = {
        name: value.dtype
        for name, value in _convertible(reference).items()
        if value.is_floating_point() or value.is_complex()
    }
    for name, value in _convertible(model).items():
        if name not in constructed or is_lazy(value):
            continue
        if value.dtype in (constructed[name], torch.float32):
            value.data = value.data.to(dtype)


def _convertible(model: nn.Module) -> dict[str, torch.Tensor]:
    """The tensors of the model's `state_dict`, and its buffers that are not persistent, by name."""
    found = dict(model.named_buffers(remove_duplicate=False))
    values = model.state_dict(keep_vars=True).items()
    return found | {name: v for name, v in values if isinstance(v, torch.Tensor)}


def _load(name: str, source: str) -> dict[str, Any]:
    """Run a program as a module of its own, whose file Triton and tracebacks find."""
    path = Path(f"{name}.py").absolute()
    path.write_text(source, "utf-8", "surrogatepass")
    module = ModuleType(name)
    module.__file__ = str(path)
    sys.modules[name] = module
    exec(compile(source, str(path), "exec", dont_inherit=True), module.__dict__)  # noqa: S102
    return module.__dict__


if __name__ == "__main__":
    main()
