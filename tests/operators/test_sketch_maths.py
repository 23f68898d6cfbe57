from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from operators.cpp_loader import FLAGS
from operators.sketches.cpp.maths import PRELUDE, choice_of_maths, maths

REFERENCES: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "error_function": torch.erf,
    "exponential": torch.exp,
    "exponential_minus_1": torch.expm1,
    "hyperbolic_tangent": torch.tanh,
    "logarithm": torch.log,
    "logarithm_of_1_plus": torch.log1p,
    "logistic": torch.sigmoid,
}
SMALLEST = 2e-38  # what is smaller may become 0


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    text = "#define LIBRARY_MATHS 0\n" + PRELUDE + maths(REFERENCES)
    for name in REFERENCES:
        text += (
            f'extern "C" void v_{name}(const float *x, float *y, long n) {{\n'
            f"#pragma omp simd\nfor (long i = 0; i < n; i++) y[i] = {name}(x[i]); }}\n"
        )
    path: Path = tmp_path_factory.mktemp("maths") / "maths.so"
    command = ["g++", *FLAGS, "-x", "c++", "-", "-o", str(path), "-lmvec", "-lm"]
    subprocess.run(command, input=text, text=True, check=True)
    return ctypes.CDLL(str(path))


def values(name: str) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    parts = [
        (torch.rand(20000, generator=generator) * 2 - 1) * scale
        for scale in (1e-5, 0.01, 1.0, 10.0, 100.0)
    ]
    special = [0.0, float("inf"), -float("inf"), float("nan"), 88.7, 88.8, -200.0, 1e-40, 3e38]
    x = torch.cat([*parts, torch.tensor(special)])
    return x.abs() if name == "logarithm" else x


@pytest.mark.parametrize("name", sorted(REFERENCES))
def test_vector_maths_is_accurate_and_carries_nan_and_infinity(
    library: ctypes.CDLL, name: str
) -> None:
    x = values(name)
    y = torch.empty_like(x)
    function = getattr(library, f"v_{name}")
    function.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_long]
    function(x.data_ptr(), y.data_ptr(), x.numel())
    exact = REFERENCES[name](x.double())
    single = REFERENCES[name](x)
    assert torch.equal(y.isnan(), single.isnan())
    assert torch.equal(y.isinf(), single.isinf())
    ordinary = single.isfinite() & (exact.abs() > SMALLEST)
    relative = ((y.double() - exact).abs() / exact.abs())[ordinary]
    assert relative.max().item() < 8 * 2.0**-24
    assert (y[single.isfinite() & ~ordinary].abs() <= SMALLEST).all()


def test_only_what_is_called_is_written() -> None:
    text = maths(["logistic"])
    assert "float exponential(" in text
    assert "logarithm" not in text
    assert choice_of_maths(["logistic"])
    assert not choice_of_maths(["hyperbolic_tangent", "larger"])
