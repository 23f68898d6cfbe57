"""Inductor's code as programs of their own: they do what the reference does."""

from __future__ import annotations

import ast

import pytest

from archives.configuration import read_configuration, read_space, with_configuration
from operators.lifting.kernels import TritonKernel, Unliftable, read_kernel
from operators.lifting.launches import grid_of, parameters_of
from operators.lifting.program import write_lifted
from problems.lifted import Argument, Kernel, Lifted, Output
from tests.operators.lifting.texts import GENERATED, lifted_text, problem_of
from tests.operators.sketches.triton.interpreter import Case, interpreted


def _case(name: str, changes: dict[str, int] | None = None) -> Case:
    problem = problem_of(name)
    program = write_lifted(problem, lifted_text(name))
    if changes:
        assert set(changes) <= set(read_space(program))
        program = with_configuration(program, {**read_configuration(program), **changes})
    for old, new in (
        ('DEVICE = "cuda"', 'DEVICE = "cpu"'),
        # The interpreter has none of the device's own library.
        ("libdevice.exp(", "tl.exp("),
        ("libdevice.rsqrt(", "tl.rsqrt("),
    ):
        program = program.replace(old, new)
    # The reference's sum is taken one after the other, that of a scan is a tree's.
    return Case(program=program, reference=problem.source, tolerance=64.0)


CASES = {name: _case(name) for name in GENERATED} | {
    "softmax_looped, other blocks": _case("softmax_looped", {"XBLOCK": 1, "R0_BLOCK": 256}),
    "batch_norm, other blocks": _case("batch_norm", {"XBLOCK_0": 4, "XBLOCK_1": 512}),
}


@pytest.fixture(scope="module")
def verdicts() -> dict[str, str]:
    return interpreted(CASES)


@pytest.mark.parametrize("name", CASES)
def test_a_lifted_program_does_what_the_reference_does(name: str, verdicts: dict[str, str]) -> None:
    assert verdicts[name] == ""


@pytest.mark.parametrize("name", GENERATED)
def test_a_lifted_program_stands_alone_and_declares_its_parameters(name: str) -> None:
    program = write_lifted(problem_of(name), lifted_text(name))
    assert "triton_heuristics" not in program
    assert "async_compile" not in program
    assert "get_inputs" not in program
    space, point = read_space(program), read_configuration(program)
    assert set(space) == set(point)
    assert all(value in space[one] for one, value in point.items())
    compile(program, name, "exec")


def test_library_calls_are_named_in_the_text() -> None:
    name = "transposed_convolution"
    program = write_lifted(problem_of(name), lifted_text(name))
    assert "Library calls: convolution." in (ast.get_docstring(ast.parse(program)) or "")
    assert "torch.convolution(x, arg0_1" in program
    assert read_space(program) == {}


_TEMPLATE = """
import triton
import triton.language as tl
from torch._inductor.runtime import triton_helpers, triton_heuristics

@triton_heuristics.template(
num_stages=3,
num_warps=8,
triton_meta={'signature': {'arg_A': '*fp32'}, 'device': DeviceProperties(type='cuda')},
inductor_meta={'kernel_name': 'triton_tem_fused_mm_0', 'grid_type': 'FixedGrid',
    'fixed_grid': ['_grid_0', '_grid_1', '_grid_2'],
    'extra_launcher_args': ['_grid_0', '_grid_1', '_grid_2']},
)
@triton.jit
def triton_tem_fused_mm_0(arg_A, arg_B, out_ptr0):
    EVEN_K : tl.constexpr = True
    ALLOW_TF32 : tl.constexpr = False
    GROUP_M : tl.constexpr = 8
    BLOCK_M : tl.constexpr = 64
    BLOCK_N : tl.constexpr = 128
    BLOCK_K : tl.constexpr = 32
    M = 1000
    N = 512
    K = 256
    pid = tl.program_id(0)
    a = tl.load(arg_A, mask=pid < M)
    tl.store(out_ptr0, a)
"""


def test_block_sizes_of_a_template_become_parameters() -> None:
    kernel = read_kernel(_TEMPLATE)
    assert kernel.constants == ("ALLOW_TF32", "GROUP_M", "BLOCK_M", "BLOCK_N", "BLOCK_K")
    assert "BLOCK_M : tl.constexpr = 64" not in kernel.text
    parameters = parameters_of(kernel, None, "")
    assert parameters.point["num_warps"] == 8
    assert parameters.space["ALLOW_TF32"] == (False, True)
    assert parameters.space["BLOCK_M"] == (16, 32, 64, 128, 256)
    arguments = ["a", "b", "c", "64", "1", "1"]
    grid = grid_of(kernel, arguments, parameters)
    point = {"BLOCK_M": 128, "BLOCK_N": 64}
    triton = type("triton", (), {"cdiv": staticmethod(lambda a, b: -(-a // b))})
    assert eval(grid, {"triton": triton, "CONFIG": point}) == (8 * 8, 1, 1)
    with pytest.raises(Unliftable, match="unknown_grid"):
        grid_of(kernel, ["a", "b", "c", "63", "1", "1"], parameters)


def test_block_sizes_that_the_text_is_wrong_for_are_not_tried() -> None:
    """Where sizes are multiples of the block, Inductor reads without a mask."""
    odd = read_kernel(_TEMPLATE.replace("K = 256", "K = 96"))
    assert parameters_of(odd, None, "").space["BLOCK_K"] == (16, 32)
    masked = read_kernel(_TEMPLATE.replace("K = 256", "K = 97").replace("= True", "= False"))
    assert parameters_of(masked, None, "").space["BLOCK_K"] == (16, 32, 64, 128)
    known = Kernel(picked={"XBLOCK": 1, "R0_BLOCK": 512, "num_warps": 16, "num_stages": 1})
    space = parameters_of(_reduction("SplitScanGrid"), known, "").space
    assert space["XBLOCK"] == (1,)
    assert space["R0_BLOCK"] == (256, 512, 1024, 2048)
    assert space["num_warps"] == (8, 16)
    tile = Kernel(picked={"XBLOCK": 64, "R0_BLOCK": 64, "num_warps": 16, "num_stages": 1})
    space = parameters_of(_reduction("Grid1D"), tile, "").space
    assert space["XBLOCK"] == space["R0_BLOCK"] == (16, 32, 64, 128), "no tiles of minutes"
    wide = Kernel(picked={"XBLOCK": 4096, "R0_BLOCK": 8192, "num_warps": 1, "num_stages": 1})
    space = parameters_of(_reduction("Grid1D"), wide, "").space
    assert max(space["XBLOCK"]) == 4096
    assert max(space["R0_BLOCK"]) == 8192
    assert space["num_warps"] == (1, 2)


def _reduction(grid: str) -> TritonKernel:
    return read_kernel(
        "@triton_heuristics.reduction(triton_meta={}, "
        f"inductor_meta={{'grid_type': '{grid}'}})\n@triton.jit\n"
        "def k(x, xnumel, r0_numel, XBLOCK: tl.constexpr, R0_BLOCK: tl.constexpr):\n    pass\n"
    )


@pytest.mark.parametrize(
    ("kind", "sizes", "grid"),
    [
        ("Grid1D", "xnumel", "(triton.cdiv(100, 8),)"),
        ("Grid2D", "ynumel, xnumel", "(triton.cdiv(200, 8), triton.cdiv(100, 4))"),
        (
            "Grid2DWithYZOverflow",
            "ynumel, xnumel",
            "folded_grid(triton.cdiv(200, 8), triton.cdiv(100, 4))",
        ),
        ("CooperativeReductionGrid", "xnumel, r0_numel", "(2, triton.cdiv(100, 8))"),
        ("SplitScanGrid", "xnumel, r0_numel", "(triton.cdiv(200, 64), 100)"),
        ("MixOrderReductionGrid", "xnumel, r0_numel", "(triton.cdiv(100, 16),)"),
    ],
)
def test_grids_are_those_of_inductor(kind: str, sizes: str, grid: str) -> None:
    point = {"XBLOCK": 8, "YBLOCK": 4, "R0_BLOCK": 64, "RSPLIT": 2, "RSPLIT_SIZE": 16}
    constants = ", ".join(f"{name}: tl.constexpr" for name in point)
    kernel = read_kernel(
        "@triton_heuristics.pointwise(triton_meta={}, "
        f"inductor_meta={{'grid_type': '{kind}'}})\n@triton.jit\n"
        f"def k(in_ptr0, {sizes}, {constants}):\n    pass\n"
    )
    known = Kernel(picked={**point, "num_warps": 4, "num_stages": 1})
    parameters = parameters_of(kernel, known, "")
    written = grid_of(kernel, ["x", "100", "200"][: len(kernel.arguments)], parameters)
    for name, value in point.items():
        written = written.replace(f'CONFIG["{name}"]', str(value))
    assert written == grid


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("async_compile.triton(", "async_compile.cuda(", "unknown_kernel"),
        ("'grid_type': 'Grid1D'", "'grid_type': 'SpiralGrid'", "unknown_grid"),
        ("return (buf3, )", "return buf3", "unknown_module"),
        ("buf3 = buf1", "buf3 = mystery(buf1)", "unknown_name"),
        ("del arg0_1", "while arg0_1: pass", "unknown_statement"),
        ("def call(", "def cull(", "unknown_module"),
        ("arg0_1, = args", "arg0_1, arg1_1 = args", "unknown_module"),
    ],
)
def test_what_is_not_known_is_refused_with_a_reason(old: str, new: str, reason: str) -> None:
    lifted = lifted_text("softmax_looped")
    assert old in lifted.code
    changed = Lifted(
        options=lifted.options,
        code=lifted.code.replace(old, new),
        arguments=lifted.arguments,
        outputs=lifted.outputs,
        kernels=lifted.kernels,
    )
    with pytest.raises(Unliftable) as refusal:
        write_lifted(problem_of("softmax_looped"), changed)
    assert refusal.value.reason == reason


def test_a_kernel_without_known_parameters_is_refused() -> None:
    lifted = lifted_text("cumsum")
    bare = Lifted(
        options="default",
        code=lifted.code,
        arguments=lifted.arguments,
        outputs=lifted.outputs,
        kernels={},
    )
    with pytest.raises(Unliftable, match="no_launch_parameters"):
        write_lifted(problem_of("cumsum"), bare)


def test_lifted_code_survives_json() -> None:
    lifted = Lifted(
        options="looped",
        code="x = 1\n",
        arguments=(Argument(input=0), Argument(state="self.w"), Argument(input=1, is_number=True)),
        outputs=(Output(result=0, view=((2, 3), (3, 1), 0)), Output(source=Argument(input=1))),
        several=True,
        kernels={"k": Kernel(picked={"XBLOCK": 8}, tried=({"XBLOCK": 8}, {"XBLOCK": 16}))},
        torch="2.11.0",
    )
    assert Lifted.from_json(lifted.to_json()) == lifted
    with pytest.raises(TypeError):
        Lifted.from_json({**lifted.to_json(), "colour": "red"})
