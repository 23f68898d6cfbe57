"""Programs of the sketches over terms, on shapes and options that the catalogue lacks."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

import pytest
import torch

from archives.configuration import read_configuration, read_space, with_configuration
from operators.sketches.cpp.sweeps import KEPT_SWEEP, ONLINE_SWEEP, SHIFTED_SWEEP, SWEEP
from operators.sketches.cpp.tiles import COLUMN_TILES
from operators.sketches.sketch import Sketch
from problems.problem import Problem, Scale
from problems.trace import trace
from tests.operators.sketches.made import made_problem

SKETCHES = (SWEEP, KEPT_SWEEP, ONLINE_SWEEP, SHIFTED_SWEEP, COLUMN_TILES)
Check = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], None]
Load = Callable[[str], ModuleType]


def problem(forward: str, shapes: list[tuple[int, ...]], init: str = "pass") -> Problem:
    inputs = {f"x{index}": f"torch.randn({shape})" for index, shape in enumerate(shapes)}
    return made_problem(forward, inputs, init, name="case")


def variations(inputs: list[torch.Tensor]) -> list[list[torch.Tensor]]:
    """As drawn, scaled, small, negated."""
    return [[x * factor for x in inputs] for factor in (1.0, 30.0, 0.01, -1.0)]


def hold(case: Problem, sketch: Sketch, load: Load, check: Check, **changes: int | bool) -> None:
    """Assert that a sketch's program does what its reference does."""
    source = sketch.write(case, trace(case.source))
    assert source is not None
    if changes:
        source = with_configuration(source, {**read_configuration(source), **changes})
    torch.manual_seed(0)
    reference = load(case.source)
    model = reference.Model()
    double = reference.Model().double()
    new = load(source).ModelNew()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter)
    new.load_state_dict(model.state_dict())
    double.load_state_dict(model.state_dict())
    with torch.no_grad():
        for inputs in variations(reference.get_inputs()):
            before = [x.clone() for x in inputs]
            output = new(*inputs)
            check(output, model(*inputs), double(*(x.double() for x in inputs)))
            assert all(torch.equal(x, y) for x, y in zip(inputs, before, strict=True))
    for name, value in new.state_dict().items():
        torch.testing.assert_close(value, model.state_dict()[name], rtol=1e-5, atol=1e-6)


Cases = dict[str, tuple[str, list[tuple[int, ...]]]]

POINTWISE: Cases = {
    "chain of two inputs": ("torch.where(x0 > x1, x0.exp(), x1 * 2) - 3", [(5, 7), (5, 7)]),
    "row, column and scalar": ("(x0 + x1) * x2 / 3", [(9, 70), (70,), (9, 1)]),
    "vector along the middle": ("x0 * x1 - x1.abs()", [(3, 5, 33), (5, 1)]),
    "logarithms": ("torch.log(x0.abs() + 1) + F.softplus(x0) + x0.square().log1p()", [(129,)]),
    "gates": ("F.gelu(x0) + F.gelu(x0, approximate='tanh') + F.silu(x0) + F.mish(x0)", [(3, 65)]),
    "pieces": (
        "F.hardswish(x0) + F.relu6(x0) + F.leaky_relu(x0, 0.2) + F.hardtanh(x0)",
        [(4, 31)],
    ),
    "exponents": ("x0 ** 3 + x0.abs() ** 0.5 + x0.sign() + F.selu(x0)", [(2, 3, 11)]),
    "views": ("(x0.view(2, 60) * 2).unsqueeze(1).view(2, 3, 20) + x1", [(6, 20), (3, 20)]),
    "trigonometry": ("torch.sin(x0) * torch.cos(x0) + (x0 * x0 + 1) ** 1.5", [(100,)]),
    "masks": ("(x0 * ~((x0 > 0) & (x0 < 1))).masked_fill(x0 < -1, -1.0)", [(50,)]),
    "truths": ("torch.where((x0 > 0) + (x0 > 1), x0, x0 * 2)", [(40,)]),
    "numbers as truths": ("torch.where(torch.logical_and(x0, x1), x1, x0)", [(40,), (40,)]),
    "extremes": ("torch.maximum(x0, x1) - torch.minimum(x0, x1) + x0.clamp(max=0)", [(8,), (8,)]),
}


@pytest.mark.parametrize("name", POINTWISE)
def test_pointwise_chains(name: str, load_program: Load, assert_close: Check) -> None:
    forward, shapes = POINTWISE[name]
    hold(problem(forward, shapes), SWEEP, load_program, assert_close, LANES=16, BLOCK=1024)


@pytest.mark.parametrize(
    "forward", ["torch.div(x0, x1, rounding_mode='floor')", "torch.round(x0, decimals=2) + x1"]
)
def test_other_roundings_are_left_alone(forward: str) -> None:
    case = problem(forward, [(8,), (8,)])
    assert SWEEP.write(case, trace(case.source)) is None


@pytest.mark.parametrize(("stream", "calls", "library"), [(True, 1, False), (False, 3, True)])
def test_pointwise_options(
    load_program: Load, assert_close: Check, stream: bool, calls: int, library: bool
) -> None:
    hold(
        problem("F.softplus(x0) * x1", [(7, 1031), (1031,)]),
        SWEEP,
        load_program,
        assert_close,
        STREAM=stream,
        CALLS=calls,
        LIBRARY_MATHS=library,
        BLOCK=1024,
    )


ROWS: dict[str, tuple[str, list[tuple[int, ...]], str]] = {
    "softmax": ("torch.softmax(x0, -1)", [(5, 37)], "pass"),
    "log softmax": ("torch.log_softmax(x0, 1)", [(3, 200)], "pass"),
    "log of a sum": ("torch.logsumexp(x0 * 2, 1, True) - x0.amax(1, True)", [(5, 70)], "pass"),
    "layer norm": ("self.n(x0)", [(4, 3, 5, 7)], "self.n = nn.LayerNorm((3, 5, 7))"),
    "group norm": ("self.n(x0)", [(2, 6, 5, 3)], "self.n = nn.GroupNorm(3, 6)"),
    "instance norm": ("self.n(x0)", [(2, 3, 9, 5)], "self.n = nn.InstanceNorm2d(3)"),
    "batch norm": ("self.n(x0)", [(4, 3, 5, 7)], "self.n = nn.BatchNorm2d(3)"),
    "norms": ("x0 / x0.norm(p=2, dim=1, keepdim=True) + F.normalize(x0, p=1)", [(6, 33)], "pass"),
    "sum of a chain": ("(x0.abs() + 1).sum(-1)", [(3, 4, 65)], "pass"),
    "extreme of a chain": ("(x0 * 2).amax(1) - x0.amin(1)", [(5, 70)], "pass"),
    "argmax": ("torch.argmax(x0, -1)", [(5, 70)], "pass"),
    "argmin of everything": ("torch.argmin(x0)", [(5, 70)], "pass"),
    "two dimensions at once": ("x0.mean((1, 2), keepdim=True)", [(3, 4, 65)], "pass"),
    "outer and inner": ("x0.sum((0, 2))", [(3, 4, 65)], "pass"),
    "softmax of everything": ("torch.softmax(x0, 0)", [(3000,)], "pass"),
    "mean of rows' norms": ("torch.relu(x0.norm(dim=1) - 1).mean()", [(9, 50)], "pass"),
    "loss": ("F.mse_loss(x0, x1) + F.smooth_l1_loss(x0, x1)", [(9, 250), (9, 250)], "pass"),
    "huber": ("F.huber_loss(x0, x1, reduction='sum', delta=0.5)", [(500,), (500,)], "pass"),
}


@pytest.mark.parametrize("name", ROWS)
def test_rows(name: str, load_program: Load, assert_close: Check) -> None:
    forward, shapes, init = ROWS[name]
    hold(problem(forward, shapes, init), SWEEP, load_program, assert_close, LANES=16, BLOCK=1024)


COLUMNS: Cases = {
    "sum": ("x0.sum(1)", [(2, 300, 19)]),
    "mean, kept": ("x0.mean(0, keepdim=True)", [(40, 21)]),
    "max": ("torch.max(x0, 1)[0] + torch.min(x0, 1).values", [(2, 9, 130)]),
    "argmax": ("torch.argmax(x0, 1)", [(2, 9, 130)]),
    "argmin, outermost": ("torch.argmin(x0, 0)", [(150, 17)]),
    "softmax over channels": ("torch.softmax(x0, 1)", [(2, 5, 3, 7)]),
    "root mean square": ("x0 / torch.sqrt((x0**2).mean(1, keepdim=True) + 1e-5)", [(2, 6, 4, 8)]),
    "loss over columns": ("x0.norm(dim=0).mean()", [(30, 33)]),
    "weights along both": ("(x0 * x1 + x2).sum(0) * x1", [(12, 20), (20,), (12, 1)]),
    "outermost and middle": ("x0.sum((0, 2))", [(3, 4, 5, 18)]),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_columns(name: str, load_program: Load, assert_close: Check) -> None:
    forward, shapes = COLUMNS[name]
    hold(problem(forward, shapes), COLUMN_TILES, load_program, assert_close, TILE=16)


def test_parts_of_a_row_are_joined(load_program: Load, assert_close: Check) -> None:
    case = problem("F.log_softmax(x0 * 1, 1)", [(3, 5000)])
    hold(case, ONLINE_SWEEP, load_program, assert_close, BLOCK=1024)


def test_batch_norm_along_columns_updates_its_buffers(
    load_program: Load, assert_close: Check
) -> None:
    case = problem("self.n(x0)", [(20, 18)], "self.n = nn.BatchNorm1d(18)")
    hold(case, COLUMN_TILES, load_program, assert_close, FUSED=False)


def test_an_outlier_at_the_start_of_a_row_costs_no_accuracy(load_program: Load) -> None:
    case = problem("self.n(x0)", [(2, 8, 64, 64)], "self.n = nn.GroupNorm(2, 8)")
    source = SHIFTED_SWEEP.write(case, trace(case.source))
    assert source is not None
    x = torch.rand(2, 8, 64, 64, generator=torch.Generator().manual_seed(1))
    x[:, ::4, 0, 0] = -800.0
    exact = load_program(case.source).Model().double()(x.double())
    ours = load_program(source).ModelNew()(x)
    error = (ours - exact).square().mean().sqrt() / exact.square().mean().sqrt()
    assert error < 8 * torch.finfo(torch.float32).eps


@pytest.mark.parametrize("sketch", SKETCHES, ids=lambda sketch: sketch.name)
def test_every_structural_option(sketch: Sketch, load_program: Load, assert_close: Check) -> None:
    forward = "self.n(x0)" if sketch is SHIFTED_SWEEP else "torch.softmax(x0, 1)"
    shape = (3, 40, 16) if sketch is COLUMN_TILES else (3, 1040)
    case = problem(forward, [shape], "self.n = nn.LayerNorm(1040)")
    source = sketch.write(case, trace(case.source))
    assert source is not None
    space = read_space(source)
    switches = [name for name in ("FUSED", "STREAM", "UNROLL") if name in space]
    widest = {"LANES": 128, "BLOCK": 1024} if "LANES" in space else {"TILE": 64}
    for end in (0, -1):
        changes = {name: int(space[name][end]) for name in switches}
        hold(case, sketch, load_program, assert_close, **widest, **changes)


@pytest.mark.parametrize(
    ("forward", "sketch"),
    [
        ("torch.softmax(x0, 1)", SWEEP),
        ("torch.softmax(x0, 1)", KEPT_SWEEP),
        ("torch.softmax(x0, 1)", ONLINE_SWEEP),
        ("torch.max(x0, 1)[0]", SWEEP),
        ("torch.argmax(x0, 1)", SWEEP),
        ("torch.argmin(x0, 0)", COLUMN_TILES),
        ("torch.min(x0, 0)[0]", COLUMN_TILES),
        ("torch.relu(x0)", SWEEP),
        ("torch.sigmoid(x0) + torch.tanh(x0) + F.elu(x0)", SWEEP),
    ],
)
def test_nan_and_infinity_end_where_torch_has_them(
    forward: str, sketch: Sketch, load_program: Load, assert_close: Check
) -> None:
    case = problem(forward, [(6, 40)])
    source = sketch.write(case, trace(case.source))
    assert source is not None
    x = torch.randn(6, 40, generator=torch.Generator().manual_seed(1))
    x[0, 3], x[0, 9] = float("nan"), float("nan")
    x[1, 2], x[2, 1] = float("inf"), -float("inf")
    x[3, :] = -float("inf")
    reference = load_program(case.source).Model()
    output = load_program(source).ModelNew()(x)
    assert_close(output, reference(x), reference(x.double()))


def test_ties_go_to_the_first(load_program: Load) -> None:
    for forward, sketch in (("torch.argmax(x0, 1)", SWEEP), ("torch.argmax(x0, 0)", COLUMN_TILES)):
        case = problem(forward, [(70, 90)])
        source = sketch.write(case, trace(case.source))
        assert source is not None
        x = torch.randint(0, 3, (70, 90), generator=torch.Generator().manual_seed(0)).float()
        expected = load_program(case.source).Model()(x)
        assert torch.equal(load_program(source).ModelNew()(x), expected)


def test_ignored_targets_do_not_count(load_program: Load) -> None:
    case = problem("F.cross_entropy(x0, x1)", [(8, 11), (8,)])
    text = case.source.replace("torch.randn((8,))", "torch.zeros(8, dtype=torch.long)")
    case = Problem(level=0, id=1, name="c", family="loss", scale=Scale.CUSTOM, source=text)
    source = SWEEP.write(case, trace(case.source))
    assert source is not None
    x = torch.randn(8, 11, generator=torch.Generator().manual_seed(0))
    target = torch.tensor([0, 10, -100, 3, 4, 5, 6, -100])
    expected = load_program(text).Model()(x, target)
    torch.testing.assert_close(load_program(source).ModelNew()(x, target), expected)


def test_what_is_not_contiguous_is_taken(load_program: Load) -> None:
    case = problem("torch.exp(x0) * x1", [(30, 20), (20,)])
    source = SWEEP.write(case, trace(case.source))
    assert source is not None
    x, y = torch.randn(20, 30).T, torch.randn(40)[::2]
    expected = load_program(case.source).Model()(x, y)
    torch.testing.assert_close(load_program(source).ModelNew()(x, y), expected)


def test_more_threads_change_nothing(load_program: Load) -> None:
    for forward in ("torch.softmax(x0, 1)", "x0.square().mean()", "torch.relu(x0)"):
        case = problem(forward, [(50, 3000)])
        source = SWEEP.write(case, trace(case.source))
        assert source is not None
        new = load_program(source).ModelNew()
        x = torch.randn(50, 3000, generator=torch.Generator().manual_seed(0))
        threads = torch.get_num_threads()
        results = []
        for count in (1, 2):
            torch.set_num_threads(count)
            results.append(new(x))
        torch.set_num_threads(threads)
        assert torch.equal(*results)
