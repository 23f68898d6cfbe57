"""Compulsory work: what was never looked at is not counted, what every program reads is."""

from __future__ import annotations

import pytest

from evaluator.referee.work import Work, work_of
from problems.problem import Domain, DomainKind
from problems.trace import trace

SOURCE = """
import torch
from torch import nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        {made}

    def forward(self, {names}):
        {body}


def get_inputs():
    return [{inputs}]


def get_init_inputs():
    return []
"""
SQUARE = "torch.rand(64, 64)"


def work(body: str, *inputs: str, made: str = "pass", kinds: tuple[DomainKind, ...] = ()) -> Work:
    """Return the work of a forward over inputs a, b and c."""
    names = ", ".join("abc"[: len(inputs)])
    source = SOURCE.format(made=made, names=names, body=body, inputs=", ".join(inputs))
    return work_of(trace(source), [Domain(kind=kind) for kind in kinds])


@pytest.mark.parametrize(
    ("body", "inputs", "read", "written"),
    [
        ("return a + 1", [SQUARE], 64 * 64, 64 * 64),
        ("return (a + 1)[:16]", [SQUARE], 16 * 64, 16 * 64),
        ("return torch.relu(a)[:, ::2]", [SQUARE], 32 * 64, 32 * 64),
        ("return a[:16].sum(1)", [SQUARE], 16 * 64, 16),
        ("x, y = a.chunk(2, 1); return x * torch.sigmoid(y)", [SQUARE], 64 * 64, 32 * 64),
        ("return a[:8].sum() + a[4:12].sum()", [SQUARE], 8 * 64, 1),
        ("return a[:, 0] + a[:, 5] + a[:, 5]", [SQUARE], 2 * 64, 64),
        ("return a[::2].sum(0) + a[1::2].sum(0)", [SQUARE], 64 * 64, 64),
        ("return a.t()", [SQUARE], 0, 0),
        ("b = a.sin(); return a.cos()", [SQUARE], 64 * 64, 64 * 64),
        ("return torch.zeros_like(a)", [SQUARE], 0, 64 * 64),
        ("return torch.cat([a, b])[:64]", [SQUARE, "torch.rand(8, 64)"], 64 * 64, 64 * 64),
        ("return torch.cat([a, b])[64:]", [SQUARE, "torch.rand(8, 64)"], 8 * 64, 8 * 64),
        ("return torch.stack([a, b], 1)[:, 1] + 1", [SQUARE, SQUARE], 64 * 64, 64 * 64),
        ("return F.pad(a, (0, 0, -8, -8)) * 2", [SQUARE], 48 * 64, 48 * 64),
        ("return a.unfold(1, 4, 1).sum(-1)", [SQUARE], 64 * 64, 61 * 64),
        ("return a + b", [SQUARE, "torch.rand(64)"], 64 * 64 + 64, 64 * 64),
        ("return a.expand(64, 64) * 2", ["torch.rand(64, 1)"], 64, 64 * 64),
        ("out = torch.empty_like(a); out[:32] = a[:32]; out[32:] = 0; return out", [SQUARE],
         32 * 64, 64 * 64),
        ("return a.relu_()", [SQUARE], 64 * 64, 64 * 64),
        ("return a.sin(), a.cos()", [SQUARE], 64 * 64, 2 * 64 * 64),
    ],
)  # fmt: skip
def test_each_wanted_element_is_read_and_written_once(
    body: str, inputs: list[str], read: int, written: int
) -> None:
    found = work(body, *inputs)
    assert (found.read_bytes, found.write_bytes) == (4 * read, 4 * written)


@pytest.mark.parametrize(
    ("body", "seen"),
    [
        ("return F.max_pool2d(a, 2)", 32 * 32),
        ("return F.avg_pool2d(a, 2, 3)", 22 * 32),  # gaps of one element move within a sector
        ("return F.max_pool2d(a, 2, 16)", 4 * (32 - 2 * 8)),
        ("return F.max_pool2d(a, 3, 1, 1)", 32 * 32),
        ("return F.conv2d(a, self.w, stride=4)", 3 * 8 * 32),
        ("return F.conv2d(a, self.w, dilation=15)", 6 * (32 - 2 * 8)),
        # Padding drops four outputs on each side, and the inputs that reach no others.
        ("return F.conv_transpose2d(a, self.w, padding=4)", 28 * 28),
    ],
)
def test_positions_that_no_window_covers_are_not_read(body: str, seen: int) -> None:
    found = work(
        body, "torch.rand(1, 1, 32, 32)", made="self.w = nn.Parameter(torch.rand(1, 1, 3, 3))"
    )
    weight = 9 if "self.w" in body else 0
    assert found.read_bytes == 4 * (seen + weight)


@pytest.mark.parametrize(
    ("body", "inputs", "compulsory"),
    [
        # Zeros hide what follows them, masks what they cover, indices what they do not name.
        ("return torch.cumprod(a, 1)", [SQUARE], 0),
        ("return torch.cumsum(a * b, 1)", [SQUARE, "torch.rand(64, 64) > 0.5"], 64 * 64),
        ("return torch.where(b, a, 0.0)", [SQUARE, "torch.rand(64, 64) > 0.5"], 64 * 64),
        ("return a[b]", [SQUARE, "torch.randint(0, 64, (8,))"], 8 * 8),
        ("return F.cross_entropy(a, b)", [SQUARE, "torch.randint(0, 64, (64,))"],
         4 * 64 * 64 + 8 * 64),
        # A constructor may prepare weights in another form.
        ("return a @ self.w", [SQUARE], 4 * 64 * 64),
        ("return a * self.mask", [SQUARE], 4 * 64 * 64),
    ],
)  # fmt: skip
def test_what_the_data_may_make_needless_is_never_hard(
    body: str, inputs: list[str], compulsory: int
) -> None:
    made = "self.w = nn.Parameter(torch.rand(64, 64)); "
    made += 'self.register_buffer("mask", torch.rand(64))'
    found = work(body, *inputs, made=made)
    assert found.read_bytes - found.avoidable_bytes == compulsory


def test_a_triangle_and_the_half_of_a_symmetric_matrix_are_avoidable() -> None:
    for kind in (
        DomainKind.UPPER_TRIANGULAR,
        DomainKind.LOWER_TRIANGULAR,
        DomainKind.SYMMETRIC,
    ):
        found = work("return a + 1", SQUARE, kinds=(kind,))
        assert found.read_bytes - found.avoidable_bytes == 4 * 64 * 65 // 2


def test_work_for_a_result_that_nobody_uses_is_not_counted() -> None:
    used = work("return a @ a", SQUARE)
    unused = work("b = a @ a; c = b @ b; return a @ a", SQUARE)
    assert unused == used
    assert work("return (a @ a)[:16]", SQUARE).flops == used.flops // 4


@pytest.mark.parametrize(
    "body",
    [
        "return F.scaled_dot_product_attention(a, b, c, is_causal=True)",
        "s = a @ b.mT / 3; m = torch.tril(torch.ones(64, 64)); "
        "return torch.softmax(s.masked_fill(m == 0, -1e9), -1) @ c",
        "s = a @ b.mT; m = torch.full((64, 64), -1e9).triu(1); return torch.softmax(s + m, -1) @ c",
    ],
)
def test_causal_attention_does_half_of_the_products(body: str) -> None:
    inputs = ["torch.rand(1, 2, 64, 8)"] * 3
    whole = work("return torch.softmax(a @ b.mT, -1) @ c", *inputs)
    assert whole.flops == 2 * (2 * 2 * 64 * 64 * 8)
    assert work(body, *inputs).flops == whole.flops // 2


def test_a_triangle_that_comes_from_the_input_halves_nothing() -> None:
    inputs = ["torch.rand(1, 2, 64, 8)"] * 3
    body = "s = a @ b.mT; return torch.softmax(s + s.tril(), -1) @ c"
    assert work(body, *inputs).flops == 2 * (2 * 2 * 64 * 64 * 8)


def test_one_query_of_attention_looks_at_every_key() -> None:
    body = "x = a @ self.w; return (torch.softmax(x @ x.mT, -1) @ x)[:, 0]"
    found = work(body, "torch.rand(2, 64, 8)", made="self.w = nn.Parameter(torch.rand(8, 8))")
    assert found.read_bytes == 4 * (2 * 64 * 8 + 8 * 8)
    row = work("return (a @ b)[:1]", SQUARE, SQUARE)
    assert row.read_bytes == 4 * (64 + 64 * 64)


def test_a_recurrence_needs_all_its_steps_for_the_last_one() -> None:
    found = work(
        "return self.rnn(a)[0][:, -1]",
        "torch.rand(4, 12, 16)",
        made="self.rnn = nn.GRU(16, 16, batch_first=True)",
    )
    weights = 4 * (2 * 48 * 16 + 2 * 48)
    assert found.read_bytes == 4 * 4 * 12 * 16 + weights
