"""Whose a kernel on a GPU is: of the candidate, or of a library."""

from __future__ import annotations

from pathlib import Path

import pytest

from evaluator.worker.cuda.census import Launch, declared_by, facts_of
from evaluator.worker.cuda.owners import Declared, declared_in, is_library

SOURCE = '''
"""In a docstring: __global__ void described_gemm(float* x) {}"""
import torch
from torch.utils.cpp_extension import load_inline

# __global__ void commented_gemm(float* x) {}
CODE = r"""
#include <torch/extension.h>
// __global__ void slashed_gemm(float* x) {}
/* __global__ void starred_gemm(
   float* x) {} */
__global__ void sgemm_tiled(const float* x, float* y, int n) { }
extern "C" __global__ void my_gemm_kernel(float* x) { }
template <typename T, int TILE>
__global__ void __launch_bounds__(256, 2) conv_fprop(const T* x) { }
__global__ __launch_bounds__((THREADS)) void gemv_rows(float* x);
static __global__ __cluster_dims__(2, 1, 1) void wgrad_pass
    (float* x) { }
namespace mine { namespace inner {
__global__ void gemm_of_mine(float* x) { }
} }
namespace joined::path {
void __global__ gemm_joined(float* x) { }
}
namespace {
__global__ void gemm_hidden(float* x) { }
}
__global__ void ampere_sgemm_128x64_nn(float* x) { }
__global__ void vectorized_elementwise_kernel(float* x) { }
__global__ void Kernel2(float* x) { }
__global__ void kernel(float* x) { }
__global__ void softmax_warp_forward(float* x) { }
__global__ void enable_if(float* x) { }
__device__ float helper_gemm(float x) { return x; }
"""
'''
DECLARED = declared_by(SOURCE, [])


@pytest.mark.parametrize(
    "name",
    [
        "sgemm_tiled(float const*, float*, int)",
        "my_gemm_kernel",
        "void conv_fprop<float, 16>(float const*)",
        "void conv_fprop<c10::Half, 16>(c10::Half const*)",
        "gemv_rows(float*)",
        "wgrad_pass(float*)",
        "mine::inner::gemm_of_mine(float*)",
        "joined::path::gemm_joined(float*)",
        "(anonymous namespace)::gemm_hidden(float*)",
    ],
)
def test_what_the_source_declares_is_the_candidate_s_own(name: str) -> None:
    assert not is_library(name, declared=DECLARED)
    assert is_library(name), "by its name alone it sounds like a library's"


@pytest.mark.parametrize(
    "name",
    [
        "ampere_sgemm_128x64_nn",
        "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>>(int)",
        "void cutlass::Kernel2<cutlass_80_simt_sgemm_128x64_8x5_nn_align1>(Params)",
        "std::enable_if<!(false), void>::type internal::gemvx::kernel<int, float>(int)",
        "void internal::gemvx::kernel<int, float>(int)",
        "void (anonymous namespace)::softmax_warp_forward<float, float, float, 7>(float*)",
        "void others::sgemm_tiled<4>(float*)",
    ],
)
def test_a_library_s_kernel_stays_that_whatever_the_source_declares(name: str) -> None:
    assert is_library(name, declared=DECLARED)


@pytest.mark.parametrize(
    "name",
    [
        "described_gemm(float*)",
        "commented_gemm(float*)",
        "slashed_gemm(float*)",
        "starred_gemm(float*)",
        "helper_gemm(float)",
        "sm80_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize128x64x16",
        "nvjet_tst_128x8_64x12_1x2_h_bz_TNT",
        "void gemv2T_kernel_val<int, int, float, float>(float)",
    ],
)
def test_what_no_code_declares_goes_by_how_it_sounds(name: str) -> None:
    assert is_library(name, declared=DECLARED)


def test_a_name_of_a_library_is_not_triton_s_either() -> None:
    names = frozenset({"gemm_kernel", "ampere_sgemm_128x64_nn", "nvjet_tst_128x8"})
    assert not is_library("gemm_kernel", names)
    assert is_library("ampere_sgemm_128x64_nn", names)
    assert is_library("nvjet_tst_128x8", names)


def test_a_cheat_that_declares_a_library_s_namespace_gains_nothing() -> None:
    forged = declared_in(["namespace cutlass { __global__ void Kernel2(float* x) { } }"])
    assert forged == Declared(names=frozenset({"Kernel2"}), namespaces=frozenset({"cutlass"})), (
        "it is seen, and yet:"
    )
    assert is_library("void cutlass::Kernel2<cutlass_80_simt>(Params)", declared=forged)


def test_files_that_the_candidate_puts_together_count(tmp_path: Path) -> None:
    (tmp_path / "deeper").mkdir()
    (tmp_path / "deeper" / "rows.cu").write_text("__global__ void gemm_3(float* x) { }")
    (tmp_path / "notes.txt").write_text("__global__ void gemm_4(float* x) { }")
    source = "CODE = '__global__ void NAME(float* x) { }'.replace('NAME', f'gemm_{3}')"
    declared = declared_by(source, [str(tmp_path)])
    assert not is_library("gemm_3(float*)", declared=declared)
    assert is_library("gemm_4(float*)", declared=declared)


def test_a_text_that_is_no_python_declares_nothing() -> None:
    assert declared_by("def broken(:", []) == Declared()


def test_the_share_of_an_own_product_beside_a_library_s() -> None:
    own = Launch(name="sgemm_tiled(float const*, float*, int)", us=30.0, registers=128)
    library = Launch(name="ampere_sgemm_128x64_nn", us=10.0, registers=128)
    found = facts_of([own, library], 1, 4096, {}, DECLARED)
    assert found["own_kernel_share"] == 0.75
    assert found["registers"] == 128
