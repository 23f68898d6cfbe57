from pathlib import Path
from typing import Any

import pytest

from evaluator.worker.machine_code import examine
from tests.evaluator.worker_harness import ProblemHarness, ZygoteHarness
from tests.evaluator.worker_programs import CPP_RELU, CPP_SOFTMAX, RELU, SOFTMAX, as_candidate


def _census(zygote: ZygoteHarness, problem: str, source: str, build: Path) -> dict[str, Any]:
    opened = ProblemHarness(zygote, problem, sets=1)
    candidate = opened.candidate(source, build=str(build), build_writable=True)
    assert candidate.opened["ok"], candidate.opened
    facts = candidate.worker.demand("census", index=0, base=0, calls=3)
    candidate.close()
    opened.close()
    assert isinstance(facts, dict)
    return facts


def test_a_kernel_of_its_own_is_seen(zygote: ZygoteHarness, tmp_path: Path) -> None:
    facts = _census(zygote, RELU, CPP_RELU, tmp_path)
    assert facts["launches"] == 1
    assert facts["own_kernel_share"] > 0.99
    assert facts["reuse"] == "registers"
    assert facts["vector_bits"] in {128, 256}
    assert facts["work"] in {32, 48, 64, 96}


def test_several_sweeps_are_reuse_in_the_cache(zygote: ZygoteHarness, tmp_path: Path) -> None:
    facts = _census(zygote, SOFTMAX, CPP_SOFTMAX, tmp_path)
    assert (facts["launches"], facts["reuse"]) == (1, "cache")
    assert facts["own_kernel_share"] > 0.99


def test_library_calls_are_counted_as_such(zygote: ZygoteHarness, tmp_path: Path) -> None:
    source = as_candidate(RELU).replace("torch.relu(x)", "torch.relu(x.view(1000, 64)).exp() + 1")
    facts = _census(zygote, RELU, source, tmp_path)
    assert facts["launches"] == 3
    assert (facts["own_kernel_share"], facts["reuse"]) == (0.0, "library")
    assert (facts["work"], facts["vector_bits"]) == (None, None)


def test_calls_that_fail_later_cost_their_own_fact_alone(
    zygote: ZygoteHarness, tmp_path: Path
) -> None:
    # Facts are read off fresh models, the spread off the one that was opened.
    source = as_candidate(RELU).replace(
        "    def forward(self, x):",
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.opened = not hasattr(torch, 'opened')\n"
        "        torch.opened = True\n\n"
        "    def forward(self, x):\n"
        "        assert not self.opened",
    )
    facts = _census(zygote, RELU, source, tmp_path)
    assert (facts["launches"], facts["spread"]) == (1, None)


def test_a_fig_leaf_kernel_has_a_small_share(zygote: ZygoteHarness, tmp_path: Path) -> None:
    source = CPP_RELU.replace(
        "return y", "return torch.softmax(torch.softmax(x, 1).exp().sort(1)[0], 1)"
    )
    facts = _census(zygote, RELU, source, tmp_path)
    assert facts["launches"] == 5
    assert facts["own_kernel_share"] < 0.5
    assert facts["reuse"] == "library"


_LISTING = """
lib.so:     file format elf64-x86-64
 22 .bss          {bss}  0000000000004008  0000000000004008  00003000  2**0

0000000000001130 <kernel>:
    1130:\tpush   %rbp
    1131:\tmov    %rsp,%rbp
    1134:\tsub    $0x{frame:x},%rsp
    1138:\tvmovups (%rsi,%rax,1),%{reg}0
    113c:\tvfmadd231ps 0x40(%rdi,%rax,1),%{reg}2,%{reg}0
    1140:\tvaddps -0x50(%rbp),%{reg}0,%{reg}0
    1144:\tvmulps 0x100(%rip),%{reg}0,%{reg}0        # 2000 <constant>
    1148:\tvmovups %{reg}0,(%rdx,%rax,1)
    114c:\tadd    $0x40,%rax
    1150:\tcmp    %rax,%rcx
    1154:\tjne    1138 <kernel+0x8>
    1158:\tvmovss (%rsi,%rax,4),%xmm0
    115c:\tvmovss %xmm0,(%rdx,%rax,4)
    1160:\tcmp    %rax,%rcx
    1164:\tjne    1158 <kernel+0x28>
    1168:\tjmp    1138 <kernel+0x8>
    116c:\tret
"""


@pytest.mark.parametrize(("register", "bits"), [("zmm", 512), ("ymm", 256), ("xmm", 128)])
def test_the_main_loop_tells_width_and_work(register: str, bits: int) -> None:
    code = examine([_LISTING.format(bss="00000008", frame=64, reg=register)])
    assert (code.vector_bits, code.work, code.vector_loops) == (bits, 3 * bits // 8, 1)
    assert not code.reuses_cache


@pytest.mark.parametrize(("bss", "frame"), [("00000008", 4096), ("00001000", 64)])
def test_a_tile_is_reuse_in_the_cache(bss: str, frame: int) -> None:
    assert examine([_LISTING.format(bss=bss, frame=frame, reg="ymm")]).reuses_cache


def test_code_without_vectors_is_scalar() -> None:
    lines = _LISTING.format(bss="00000008", frame=64, reg="ymm").splitlines()
    scalar = "\n".join(line for line in lines if "ymm" not in line)
    code = examine([scalar])
    assert (code.vector_bits, code.work, code.vector_loops) == (0, 8, 0)
    assert examine([]).work is None
