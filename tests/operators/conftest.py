"""Loading programs and holding their outputs against the reference in float64."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest
import torch


@pytest.fixture
def load_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[str], ModuleType]]:
    """Return a function that loads a module's text; kernels are built in a folder of its own."""
    monkeypatch.setenv("EVOKERNEL_BUILD_DIR", str(tmp_path))
    loaded: list[str] = []

    def load(source: str) -> ModuleType:
        name = f"program{len(loaded)}_{tmp_path.name}"
        path = tmp_path / f"{name}.py"
        path.write_text(source)
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        loaded.append(name)
        spec.loader.exec_module(module)
        return module

    yield load
    for name in loaded:
        sys.modules.pop(name, None)


@pytest.fixture
def assert_close() -> Callable[[torch.Tensor, torch.Tensor, torch.Tensor], None]:
    """Return a function that holds an output to 16 times torch's own error, or 8 roundings."""

    def check(output: torch.Tensor, reference: torch.Tensor, exact: torch.Tensor) -> None:
        assert (output.shape, output.dtype) == (reference.shape, reference.dtype)
        if not output.is_floating_point():
            assert torch.equal(output, reference)
            return
        assert torch.equal(torch.isnan(output), torch.isnan(exact))
        assert torch.equal(torch.isinf(output), torch.isinf(exact))
        finite = torch.isfinite(reference) & torch.isfinite(exact)
        if not finite.any():
            return
        wide = exact[finite]
        own = (reference[finite].double() - wide).abs().max().item()
        error = (output[finite].double() - wide).abs().max().item()
        scale = wide.square().mean().sqrt().item()
        assert error <= max(16 * own, 8 * 2**-24 * scale)

    return check
