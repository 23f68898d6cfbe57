"""Elementwise chains and rows in Triton's interpreter, every structural option included."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from operators.sketches.sketch import Sketch
from operators.sketches.triton.elementwise import TRITON_MAP
from operators.sketches.triton.groups import (
    TRITON_GROUPS,
    TRITON_GROUPS_ONLINE,
    TRITON_GROUPS_SHIFTED,
)
from operators.sketches.triton.split import (
    TRITON_SPLIT,
    TRITON_SPLIT_ONLINE,
    TRITON_SPLIT_SHIFTED,
)
from operators.sketches.triton.sweeps import (
    TRITON_HELD,
    TRITON_SWEEP,
    TRITON_SWEEP_ONLINE,
    TRITON_SWEEP_SHIFTED,
)
from problems.catalogue import load_level
from problems.problem import Problem, Scale
from tests.operators.sketches.made import made_problem
from tests.operators.sketches.triton.interpreter import (
    Case,
    case_of,
    cases_of,
    interpreted,
    on_device,
)

Shapes = list[tuple[int, ...]]
Entry = tuple[Sketch, str, Shapes, str, Mapping[str, Any]]


def problem(name: str, forward: str, shapes: Shapes, init: str = "pass") -> Problem:
    inputs = {f"x{index}": f"torch.randn({shape})" for index, shape in enumerate(shapes)}
    return made_problem(forward, inputs, init, name=name)


MAP = {"BLOCK": 64}
LAYER_NORM = "self.n = nn.LayerNorm({})"
ENTRIES: dict[str, Entry] = {
    # Elementwise chains.
    "two inputs": (TRITON_MAP, "torch.where(x0 > x1, x0.exp(), x1 * 2) - 3", [(5, 7)] * 2, "", MAP),
    "row, column": (TRITON_MAP, "(x0 + x1) * x2 / 3", [(9, 70), (70,), (9, 1)], "", MAP),
    "along the middle": (TRITON_MAP, "x0 * x1 - x1.abs()", [(3, 5, 33), (5, 1)], "", MAP),
    "logarithms": (
        TRITON_MAP,
        "torch.log(x0.abs() + 1) + F.softplus(x0) + x0.square().log1p()",
        [(129,)],
        "",
        MAP,
    ),
    "gates": (
        TRITON_MAP,
        "F.gelu(x0) + F.gelu(x0, approximate='tanh') + F.silu(x0) + F.mish(x0)",
        [(3, 65)],
        "",
        MAP,
    ),
    "pieces": (
        TRITON_MAP,
        "F.hardswish(x0) + F.relu6(x0) + F.leaky_relu(x0, 0.2) + F.hardtanh(x0)",
        [(4, 31)],
        "",
        MAP,
    ),
    "exponents": (
        TRITON_MAP,
        "x0 ** 3 + x0.abs() ** 0.5 + x0.sign() + F.selu(x0)",
        [(2, 3, 11)],
        "",
        MAP,
    ),
    "views": (
        TRITON_MAP,
        "(x0.view(2, 60) * 2).unsqueeze(1).view(2, 3, 20) + x1",
        [(6, 20), (3, 20)],
        "",
        MAP,
    ),
    "tanh": (TRITON_MAP, "torch.tanh(x0) - torch.expm1(x1)", [(640,), (640,)], "", MAP),
    "trigonometry": (TRITON_MAP, "torch.sin(x0) * torch.cos(x0)", [(100,)], "", MAP),
    "masks": (
        TRITON_MAP,
        "(x0 * ~((x0 > 0) & (x0 < 1))).masked_fill(x0 < -1, -1.0)",
        [(50,)],
        "",
        MAP,
    ),
    "roundings": (TRITON_MAP, "x0.round() + (3 * x0).trunc() + x0.floor()", [(90,)], "", MAP),
    "extremes": (
        TRITON_MAP,
        "torch.maximum(x0, x1) - torch.minimum(x0, x1) + x0.clamp(max=0)",
        [(8,), (8,)],
        "",
        MAP,
    ),
    "many tiles a program": (TRITON_MAP, "x0 * x0", [(1000,)], "", {"BLOCK": 32, "WAVES": 4}),
    # Rows that are held.
    "held softmax": (TRITON_HELD, "torch.softmax(x0, -1)", [(5, 37)], "", {"ROWS": 2}),
    "held log softmax": (TRITON_HELD, "torch.log_softmax(x0, 1)", [(3, 200)], "", {"WAVES": 2}),
    "held log of a sum": (TRITON_HELD, "torch.logsumexp(x0, 1)", [(5, 37)], "", {"ROWS": 2}),
    "held layer norm": (
        TRITON_HELD,
        "self.n(x0)",
        [(4, 3, 5, 7)],
        LAYER_NORM.format("(3, 5, 7)"),
        {},
    ),
    "held group norm": (
        TRITON_HELD,
        "self.n(x0)",
        [(2, 6, 5, 3)],
        "self.n = nn.GroupNorm(3, 6)",
        {},
    ),
    "held batch norm": (
        TRITON_HELD,
        "self.n(x0)",
        [(4, 3, 5, 7)],
        "self.n = nn.BatchNorm2d(3)",
        {},
    ),
    "held norms": (
        TRITON_HELD,
        "x0 / x0.norm(p=2, dim=1, keepdim=True) + F.normalize(x0, p=1)",
        [(6, 33)],
        "",
        {"ROWS": 4},
    ),
    "held extremes": (TRITON_HELD, "(x0 * 2).amax(1) - x0.amin(1)", [(5, 70)], "", {"ROWS": 4}),
    "held argmax": (TRITON_HELD, "torch.argmax(x0, -1)", [(5, 70)], "", {"ROWS": 4}),
    "held argmin of everything": (TRITON_HELD, "torch.argmin(x0)", [(5, 70)], "", {}),
    "held two dimensions": (TRITON_HELD, "x0.mean((1, 2), keepdim=True)", [(3, 4, 65)], "", {}),
    "held outer and inner": (TRITON_HELD, "x0.sum((0, 2))", [(3, 4, 65)], "", {}),
    "held mean of norms": (
        TRITON_HELD,
        "torch.relu(x0.norm(dim=1) - 1).mean() * 2",
        [(9, 50)],
        "",
        {"ROWS": 2, "WAVES": 2},
    ),
    "held columns": (TRITON_HELD, "torch.softmax(x0, 1)", [(2, 5, 3, 7)], "", {"ROWS": 16}),
    "held root mean square": (
        TRITON_HELD,
        "x0 / torch.sqrt((x0**2).mean(1, keepdim=True) + 1e-5)",
        [(2, 6, 4, 8)],
        "",
        {"ROWS": 32, "STAGES": 2},
    ),
    # Rows that are swept.
    "swept softmax": (TRITON_SWEEP, "torch.softmax(x0, 1)", [(3, 2500)], "", {"BLOCK": 1024}),
    "swept argmin": (TRITON_SWEEP, "torch.argmin(x0, 1)", [(2, 2100)], "", {"BLOCK": 512}),
    "swept extremes": (
        TRITON_SWEEP,
        "(x0.amax(1) - x0.amin(1)).mean()",
        [(5, 2300)],
        "",
        {"BLOCK": 512, "WAVES": 2},
    ),
    "swept online": (
        TRITON_SWEEP_ONLINE,
        "torch.log_softmax(x0, 1)",
        [(3, 2500)],
        "",
        {"BLOCK": 512, "POLICY": "evict_last"},
    ),
    "swept shifted": (
        TRITON_SWEEP_SHIFTED,
        "self.n(x0)",
        [(2, 6, 1050)],
        "self.n = nn.GroupNorm(3, 6)",
        {"BLOCK": 1024},
    ),
    "swept sum of columns": (
        TRITON_SWEEP,
        "x0.sum(1)",
        [(2, 300, 19)],
        "",
        {"ROWS": 8, "BLOCK": 32, "STAGES": 2},
    ),
    "swept argmax of columns": (
        TRITON_SWEEP,
        "torch.argmax(x0, 1)",
        [(2, 90, 130)],
        "",
        {"ROWS": 64, "BLOCK": 16, "WAVES": 2},
    ),
    "swept loss over columns": (
        TRITON_SWEEP,
        "x0.norm(dim=0).mean()",
        [(30, 33)],
        "",
        {"ROWS": 16, "BLOCK": 8},
    ),
    "swept weights along both": (
        TRITON_SWEEP,
        "(x0 * x1 + x2).sum(0) * x1",
        [(12, 20), (20,), (12, 1)],
        "",
        {"ROWS": 16, "BLOCK": 8},
    ),
    "swept outermost and middle": (
        TRITON_SWEEP,
        "x0.sum((0, 2))",
        [(3, 4, 5, 18)],
        "",
        {"ROWS": 16, "BLOCK": 4},
    ),
    # Rows that are split.
    "split losses": (
        TRITON_SPLIT,
        "F.mse_loss(x0, x1) + F.smooth_l1_loss(x0, x1)",
        [(9, 250)] * 2,
        "",
        {"BLOCK": 256, "WAVES": 4},
    ),
    "split softmax": (
        TRITON_SPLIT,
        "torch.softmax(x0, 0)",
        [(3000,)],
        "",
        {"BLOCK": 512, "WAVES": 3},
    ),
    "split norm": (TRITON_SPLIT, "x0 / x0.norm()", [(30, 80)], "", {"BLOCK": 256, "WAVES": 4}),
    "split argmax": (
        TRITON_SPLIT,
        "torch.argmax(x0, 1)",
        [(2, 2100)],
        "",
        {"BLOCK": 512, "WAVES": 8},
    ),
    "split total": (
        TRITON_SPLIT,
        "x0.norm(dim=1).mean()",
        [(3, 2100)],
        "",
        {"BLOCK": 512, "WAVES": 6},
    ),
    "split columns": (
        TRITON_SPLIT,
        "x0.sum(0)",
        [(2100, 19)],
        "",
        {"ROWS": 16, "BLOCK": 64, "WAVES": 8},
    ),
    "split batch norm": (
        TRITON_SPLIT,
        "self.n(x0)",
        [(2050, 3)],
        "self.n = nn.BatchNorm1d(3)",
        {"ROWS": 4, "BLOCK": 256, "WAVES": 5},
    ),
    "split online": (
        TRITON_SPLIT_ONLINE,
        "torch.softmax(x0, 1)",
        [(3, 2300)],
        "",
        {"BLOCK": 256, "WAVES": 12},
    ),
    "split shifted": (
        TRITON_SPLIT_SHIFTED,
        "self.n(x0)",
        [(2, 2500)],
        LAYER_NORM.format("2500"),
        {"BLOCK": 512, "WAVES": 4, "POLICY": "evict_last"},
    ),
    "swept weights of whole tiles": (
        TRITON_SWEEP,
        "self.n(x0)",
        [(2, 4, 32768)],
        "self.n = nn.GroupNorm(2, 4)",
        {"BLOCK": 8192},
    ),
    # Rows whose length is no multiple of a vector, in whole tensors that are.
    "odd held": (TRITON_HELD, "torch.softmax(x0, 1)", [(8, 33)], "", {"ROWS": 2}),
    "odd held with weights": (
        TRITON_HELD,
        "x0 * x1 / x0.abs().sum(1, keepdim=True) * x2",
        [(4, 57), (57,), (4, 1)],
        "",
        {"ROWS": 1},
    ),
    "odd held sum": (TRITON_HELD, "x0.exp().sum(1)", [(4, 33)], "", {"ROWS": 4}),
    "odd sweep": (
        TRITON_SWEEP,
        "x0 / x0.norm(dim=1, keepdim=True)",
        [(4, 2111)],
        "",
        {"BLOCK": 256},
    ),
    "odd argmax": (TRITON_SWEEP, "torch.argmax(x0, 1)", [(4, 2113)], "", {"BLOCK": 512}),
    "odd sweep online": (
        TRITON_SWEEP_ONLINE,
        "torch.log_softmax(x0, 1)",
        [(4, 2114)],
        "",
        {"BLOCK": 512},
    ),
    "odd split": (
        TRITON_SPLIT,
        "x0 / x0.abs().mean(1, keepdim=True)",
        [(4, 2113)],
        "",
        {"BLOCK": 256, "WAVES": 12},
    ),
    "odd group": (
        TRITON_GROUPS,
        "x0 / x0.abs().mean(1, keepdim=True)",
        [(4, 8201)],
        "",
        {"BLOCK": 4096, "TILES": 4, "WAVES": 1},
    ),
    # Rows of groups: the interpreter runs programs one by one, so a group has one member.
    "group softmax": (
        TRITON_GROUPS,
        "torch.softmax(x0, 1)",
        [(2, 8200)],
        "",
        {"BLOCK": 16384, "TILES": 1},
    ),
    "group tiles": (
        TRITON_GROUPS,
        "x0 / x0.norm(dim=1, keepdim=True)",
        [(2, 8200)],
        "",
        {"BLOCK": 4096, "TILES": 4, "WAVES": 1},
    ),
    "group online": (
        TRITON_GROUPS_ONLINE,
        "torch.log_softmax(x0, 1)",
        [(2, 8200)],
        "",
        {"BLOCK": 4096, "TILES": 4},
    ),
    "group shifted": (
        TRITON_GROUPS_SHIFTED,
        "self.n(x0)",
        [(2, 8200)],
        LAYER_NORM.format("8200"),
        {"BLOCK": 8192, "TILES": 2},
    ),
    "group weights of whole tiles": (
        TRITON_GROUPS,
        "self.n(x0)",
        [(2, 4, 32768)],
        "self.n = nn.GroupNorm(2, 4)",
        {"BLOCK": 32768, "TILES": 4, "WAVES": 1},
    ),
    "group batch norm": (
        TRITON_GROUPS,
        "self.n(x0)",
        [(3, 2, 2800)],
        "self.n = nn.BatchNorm1d(2)",
        {"BLOCK": 4096, "TILES": 4},
    ),
}


# Inputs with NaN and infinities too: each structure, each kind of reduction.
SPECIALS = (
    "pieces",
    "extremes",
    "held softmax",
    "held log of a sum",
    "held extremes",
    "held argmax",
    "held columns",
    "swept softmax",
    "swept argmin",
    "swept extremes",
    "swept online",
    "split argmax",
    "split online",
    "group online",
    "odd held",
    "odd argmax",
    "odd sweep online",
)
HALVES = ("gates", "held log softmax", "held group norm", "split losses", "swept sum of columns")
# Every structural option of a sketch, one by one.
SWITCHED: dict[str, Entry] = {
    "switched map": (TRITON_MAP, "x0 * x1 + x0.abs()", [(9, 70), (70,)], "", MAP),
    "switched held": (TRITON_HELD, "torch.softmax(x0, -1)", [(5, 37)], "", {"ROWS": 2}),
    "switched sweep": (TRITON_SWEEP, "torch.softmax(x0, 1)", [(3, 2100)], "", {"BLOCK": 1024}),
    "switched online": (
        TRITON_SWEEP_ONLINE,
        "torch.log_softmax(x0, 1)",
        [(3, 2100)],
        "",
        {"BLOCK": 1024},
    ),
    "switched shifted": (
        TRITON_SWEEP_SHIFTED,
        "self.n(x0)",
        [(3, 2100)],
        LAYER_NORM.format("2100"),
        {"BLOCK": 1024},
    ),
}
# Of the catalogue: what the entries above do not hold, at the defaults.
CATALOGUE = {
    TRITON_MAP: (5, 12, 19, 21, 26, 88),
    TRITON_HELD: (34, 36, 95, 99),
    TRITON_SWEEP: (51,),
    TRITON_SPLIT: (40, 98, 100),
}


def _cases() -> dict[str, Case]:
    cases = {}
    for name, (sketch, forward, shapes, init, changes) in ENTRIES.items():
        case = problem(name, forward, shapes, init or "pass")
        cases[name] = case_of(sketch, case, changes, specials=name in SPECIALS)
        for precision in ("bfloat16", "float16") if name in HALVES else ():
            cases[f"{name} in {precision}"] = case_of(sketch, case, changes, precision=precision)
    for name, (sketch, forward, shapes, init, changes) in SWITCHED.items():
        case = problem(name, forward, shapes, init or "pass")
        cases |= cases_of(sketch, case, changes, variations=((-2.0, 0.5),))
    for sketch, ids in CATALOGUE.items():
        for one in load_level(1, Scale.TINY, ids):
            cases[f"{sketch.name} {one.name}"] = case_of(sketch, one)
    one = problem("ignored", "F.cross_entropy(x0, x1)", [(8, 11), (8,)])
    targets = "torch.tensor([0, 10, -100, 3, 4, 5, 6, -100])"
    one = replace(one, source=one.source.replace("torch.randn((8,))", targets))
    cases["ignored targets"] = case_of(TRITON_HELD, one, {"ROWS": 2})
    one = problem("ties", "torch.argmax(x0, 1)", [(7, 70)])
    equal = one.source.replace("torch.randn((7, 70))", "torch.randint(0, 3, (7, 70)).float()")
    one = replace(one, source=equal)
    cases["ties go to the first"] = case_of(TRITON_HELD, one, {"ROWS": 2})
    return cases


CASES = _cases()


@pytest.fixture(scope="module")
def verdicts() -> dict[str, str]:
    return interpreted(CASES)


@pytest.mark.parametrize("name", CASES)
def test_programs_do_what_their_references_do(name: str, verdicts: dict[str, str]) -> None:
    assert verdicts[name] == ""


def _device_cases() -> dict[str, Case]:
    """What the interpreter cannot run: programs side by side, functions of the device."""
    softmax = problem("softmax", "torch.softmax(x0, 1)", [(300, 20000)])
    norm = problem("norm", "x0 / x0.norm(dim=1, keepdim=True)", [(40, 30001)])
    layer = problem("layer", "self.n(x0)", [(5, 32768)], LAYER_NORM.format("32768"))
    power = problem("power", "(x0.abs() + 1) ** 1.7 - x0 ** -3", [(7, 33)])
    cases = {"power": case_of(TRITON_MAP, power)}
    for sketch, one in (
        (TRITON_GROUPS, softmax),
        (TRITON_GROUPS_ONLINE, softmax),
        (TRITON_GROUPS, norm),
        (TRITON_GROUPS_SHIFTED, layer),
    ):
        for tiles in (1, 2, 4):
            changes = {"BLOCK": 4096, "TILES": tiles, "num_warps": 8}
            cases[f"{sketch.name} {one.name} {tiles}"] = case_of(sketch, one, changes)
    return cases


@pytest.mark.gpu
def test_the_device_agrees() -> None:
    verdicts = on_device(CASES | _device_cases())
    assert {name: wrong for name, wrong in verdicts.items() if wrong} == {}
