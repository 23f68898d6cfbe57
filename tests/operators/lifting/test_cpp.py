"""Inductor's C++: kernels that become functions of a program, and those that do not."""

from __future__ import annotations

import pytest

from operators.lifting.cpp import call_of, definitions_of
from operators.lifting.generated import CppKernel
from operators.lifting.kernels import Unliftable

INCLUDE = "#include <torch/csrc/inductor/cpp_prefix.h>"
TYPES = ("const float*", "float*", "const int64_t")


def kernel(text: str = "{ out[0] = in[0] + by; }", types: tuple[str, ...] = TYPES) -> CppKernel:
    head = 'extern "C"  void  kernel(const float* in, float* out, const int64_t by)'
    return CppKernel(types=types, text=f"\n{INCLUDE}\n{head}\n{text}\n")


def test_kernels_share_what_they_include_and_have_names_of_their_own() -> None:
    source, *_, signatures = definitions_of({"one": kernel(), "two": kernel()}, 256)
    assert source.count(INCLUDE) == 1
    assert "void one(const float* in" in source
    assert "void two(const float* in" in source
    assert "void  kernel" not in source
    assert signatures.count("ctypes.c_void_p, ctypes.c_void_p, ctypes.c_long]") == 2


@pytest.mark.parametrize(("bits", "name"), [(512, "AVX512"), (256, "AVX2"), (0, "DEFAULT")])
def test_it_is_compiled_for_the_vectors_it_was_written_for(bits: int, name: str) -> None:
    _, _, load, _ = definitions_of({"one": kernel()}, bits)
    assert f"'-DCPU_CAPABILITY_{name}'" in load


def test_a_call_hands_over_pointers_and_numbers() -> None:
    assert call_of("one", kernel(), ["x", "buf0", "3"]) == (
        "KERNELS.one(x.data_ptr(), buf0.data_ptr(), 3)"
    )
    with pytest.raises(Unliftable, match="one takes"):
        call_of("one", kernel(), ["x"])


@pytest.mark.parametrize(
    ("kernel_", "bits", "reason"),
    [
        (kernel(types=("const float*", "float*", "struct sizes")), 256, "unknown_kernel"),
        (kernel('{}\nextern "C" void kernel() {}'), 256, "unknown_kernel"),
        (kernel('{ const char* text = R"""(x)"""; }'), 256, "unknown_kernel"),
        (kernel(), 384, "unknown_vectors"),
    ],
    ids=["a type", "two functions", "quotes", "vectors"],
)
def test_what_is_not_known_is_not_lifted(kernel_: CppKernel, bits: int, reason: str) -> None:
    with pytest.raises(Unliftable) as caught:
        definitions_of({"one": kernel_}, bits)
    assert caught.value.reason == reason
