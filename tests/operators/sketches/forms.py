"""Problems over one expression, and forms of norms, variances and losses to hold sketches to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from problems.problem import Problem
from tests.operators.sketches.made import made_problem

__all__ = ["CONSTANTS", "FORMS", "REFUSED", "Form", "problem"]

_ROWS = "torch.randn(5, 37)"
_SHARES = "torch.rand(5, 37)"
_CLASSES = "torch.randint(0, 37, (5,))"
_SKIPPED = "torch.tensor([0, 36, -100, 4, -100])"
_ENDLESS = "torch.randn(5, 37).index_fill(0, torch.tensor([1, 3]), -float('inf'))"
_NOTHING = "torch.randn(5, 37).index_fill(0, torch.tensor([1, 3]), 0.0)"
_WITHIN: Mapping[str, Any] = {"variations": ((1.0, 0.0), (0.5, 0.25))}
_SPECIAL: Mapping[str, Any] = {"specials": True}


@dataclass(frozen=True, kw_only=True)
class Form:
    """What a reference computes.

    Attributes:
        forward: The expression that `forward` returns, over "x0", "x1" and so on.
        inputs: Expressions that make the inputs.
        init: The statement in the constructor.
        options: Options of the `Case`, such as whether inputs hold NaN and infinities too.
    """

    forward: str
    inputs: tuple[str, ...] = (_ROWS,)
    init: str = "pass"
    options: Mapping[str, Any] = field(default_factory=lambda: dict(_SPECIAL))


def problem(name: str, form: Form) -> Problem:
    """Return the problem of a form."""
    inputs = {f"x{index}": text for index, text in enumerate(form.inputs)}
    return made_problem(form.forward, inputs, form.init, name=name)


def _loss(call: str, *inputs: str, **options: Any) -> Form:  # noqa: ANN401 - fields of `Case`
    return Form(forward=f"F.{call}", inputs=inputs, options=options)


FORMS: Mapping[str, Form] = {
    "rms norm": Form(forward="self.n(x0)", init="self.n = nn.RMSNorm(37)"),
    "rms norm with eps": Form(forward="self.n(x0)", init="self.n = nn.RMSNorm(37, eps=0.1)"),
    "rms norm of planes": Form(forward="F.rms_norm(x0, (5, 7))", inputs=("torch.randn(3, 5, 7)",)),
    "rms norm of nothing": Form(forward="F.rms_norm(x0, (37,))", inputs=(_NOTHING,)),
    "variance": Form(forward="torch.var(x0, 1)"),
    "variance of columns": Form(forward="torch.var(x0, 0, correction=0, keepdim=True)"),
    "variance of everything": Form(forward="torch.var(x0) * 2"),
    "variance of planes": Form(
        forward="x0.var((0, 2), correction=2.5)", inputs=("torch.randn(3, 5, 7)",)
    ),
    "deviation": Form(forward="torch.std(x0, 1, unbiased=False)"),
    "deviation of everything": Form(forward="torch.std(x0)"),
    "standardised": Form(forward="(x0 - x0.mean(1, keepdim=True)) / x0.std(1, keepdim=True)"),
    "variance and mean": Form(
        forward="(lambda v, m: (x0 - m) * torch.rsqrt(v + 1e-5))(*torch.var_mean(x0, 1, "
        "correction=0, keepdim=True))"
    ),
    "deviation or mean": Form(forward="torch.maximum(*torch.std_mean(x0, 0))"),
    "log sum exp": Form(forward="torch.logsumexp(x0, 1)", inputs=(_ENDLESS,)),
    "log sum exp kept": Form(forward="x0 - torch.logsumexp(x0, 1, keepdim=True)"),
    "log sum exp of columns": Form(forward="torch.logsumexp(x0, 0)", inputs=(_ENDLESS,)),
    "log sum exp of everything": Form(forward="torch.logsumexp(x0, (0, 1))"),
    "cosine": _loss("cosine_similarity(x0, x1)", _ROWS, _NOTHING, **_SPECIAL),
    "cosine of columns": _loss("cosine_similarity(x0, x1, dim=0)", _ROWS, _ROWS),
    "cosine kept": Form(
        forward="x0 * F.cosine_similarity(x0, x1, dim=-1, eps=0.5).unsqueeze(1)",
        inputs=(_ROWS, _NOTHING),
    ),
    "cosine loss": Form(
        forward="(1 - self.c(x0, x1)).mean()",
        inputs=(_ROWS, _ROWS),
        init="self.c = nn.CosineSimilarity(dim=1)",
    ),
    "entropy": _loss("cross_entropy(x0, x1)", _ROWS, _SKIPPED, **_SPECIAL),
    "entropy smoothed": _loss("cross_entropy(x0, x1, label_smoothing=0.1)", _ROWS, _SKIPPED),
    "entropy smoothed sum": _loss(
        "cross_entropy(x0, x1, label_smoothing=0.3, reduction='sum')", _ROWS, _CLASSES
    ),
    "entropy smoothed rows": _loss(
        "cross_entropy(x0, x1, label_smoothing=0.1, reduction='none')", _ROWS, _SKIPPED
    ),
    "entropy of pixels": _loss(
        "cross_entropy(x0, x1, label_smoothing=0.1)",
        "torch.randn(3, 7, 5, 2)",
        "torch.randint(0, 7, (3, 5, 2))",
    ),
    "entropy of sequences": _loss(
        "cross_entropy(x0, x1)", "torch.randn(3, 7, 5)", "torch.randint(0, 7, (3, 5))"
    ),
    "entropy with weights": _loss(
        "cross_entropy(x0, x1, x2)", _ROWS, _SKIPPED, "torch.rand(37)", **_WITHIN
    ),
    "entropy of shares": _loss("cross_entropy(x0, x1.softmax(1))", _ROWS, _ROWS),
    "divergence": _loss(
        "kl_div(x0.log_softmax(1), x1.softmax(1), reduction='batchmean')", _ROWS, _ROWS
    ),
    "likelihood": _loss("nll_loss(x0, x1)", _ROWS, _SKIPPED),
    "likelihood sum": _loss("nll_loss(x0, x1, reduction='sum')", _ROWS, _CLASSES),
    "likelihood rows": _loss("nll_loss(x0, x1, reduction='none')", _ROWS, _SKIPPED),
    "likelihood with weights": _loss(
        "nll_loss(x0, x1, x2)", _ROWS, _SKIPPED, "torch.rand(37)", **_WITHIN
    ),
    "shares": _loss(
        "binary_cross_entropy(x0, x1)",
        f"{_SHARES}.index_fill(0, torch.tensor(1), 0.0).index_fill(0, torch.tensor(2), 1.0)",
        f"{_SHARES}.round()",
        variations=((1.0, 0.0),),
    ),
    "shares elements": _loss(
        "binary_cross_entropy(x0, x1, reduction='none')", _SHARES, _SHARES, **_WITHIN
    ),
    "shares sum": _loss(
        "binary_cross_entropy(x0.sigmoid(), x1, x2, reduction='sum')",
        _ROWS,
        _SHARES,
        "torch.rand(37)",
        **_WITHIN,
    ),
    "logits": _loss("binary_cross_entropy_with_logits(x0, x1)", _ROWS, _SHARES),
    "logits elements": _loss(
        "binary_cross_entropy_with_logits(x0, x1, reduction='none')", _ROWS, _SHARES, **_SPECIAL
    ),
    "logits sum": _loss(
        "binary_cross_entropy_with_logits(x0, x1, weight=x2, pos_weight=x3, reduction='sum')",
        _ROWS,
        _SHARES,
        "torch.rand(5, 1)",
        "torch.rand(37)",
    ),
    "log sigmoid": _loss("logsigmoid(x0)", _ROWS, **_SPECIAL),
    "gates": Form(forward="F.softplus(x0) + F.mish(x0) + F.hardswish(x0)"),
    "unit rows": _loss("normalize(x0)", _NOTHING, **_SPECIAL),
    "unit columns": _loss("normalize(x0, p=2, dim=0)", _ROWS, **_SPECIAL),
    "instance norm": Form(
        forward="self.n(x0)",
        inputs=("torch.randn(2, 3, 5, 4)",),
        init="self.n = nn.InstanceNorm2d(3, affine=True)",
    ),
    "group norm": Form(
        forward="self.n(x0)", inputs=("torch.randn(2, 6, 5)",), init="self.n = nn.GroupNorm(3, 6)"
    ),
    "in place": Form(forward="(x0 + 1).clamp_(max=2).mul_(x0).relu_().sub_(0.5)"),
    "cast": Form(forward="(x0 > 0).float() * x0.float()"),
}
"""What sketches over terms cover, by name."""

_LINEAR = "self.l = nn.Linear(37, 16)"

CONSTANTS: Mapping[str, Form] = {
    "number": Form(forward="x0 * torch.tensor(3.0) + torch.tensor(2)"),
    "number by condition": Form(forward="torch.where(x0 > 0, x0, torch.tensor(-1.0))"),
    "number in softmax": Form(forward="torch.softmax(x0 / torch.tensor(2.0), 1)"),
    "number after product": Form(
        forward="torch.relu(self.l(x0)) * torch.tensor(2.0)", init=_LINEAR, options={}
    ),
    "numbers of a vector": Form(forward="x0 * torch.full((37,), 2.0) - torch.ones_like(x0)"),
    "list": Form(forward="x0 + torch.tensor([1.0] * 37)"),
    "list after product": Form(
        forward="self.l(x0) + torch.tensor([2.0] * 16)", init=_LINEAR, options={}
    ),
    "product with list": Form(forward="x0 @ torch.tensor([[1.0, 2.0]] * 37)", options={}),
    "running sum of list": Form(forward="torch.cumsum(x0 * torch.tensor([2.0] * 37), 1)"),
    "places": Form(forward="x0 + torch.arange(37.0)"),
    "mask": Form(forward="x0 * torch.ones(5, 37).tril()"),
    "list after convolution": Form(
        forward="self.c(x0) * torch.tensor([[[2.0]]] * 4)",
        inputs=("torch.randn(2, 3, 9, 9)",),
        init="self.c = nn.Conv2d(3, 4, 3)",
        options={},
    ),
    "number after convolution": Form(
        forward="torch.minimum(self.c(x0), torch.tensor(0.5))",
        inputs=("torch.randn(2, 3, 9, 9)",),
        init="self.c = nn.Conv2d(3, 4, 3)",
        options={},
    ),
    "kernel of list": Form(
        forward="F.conv2d(x0, torch.tensor([[[[1.0, 2.0]]] * 3] * 4))",
        inputs=("torch.randn(2, 3, 9, 9)",),
        options={},
    ),
    "sequence of modules": Form(
        forward="self.s(x0)", init="self.s = nn.Sequential(nn.LayerNorm(37), nn.BatchNorm1d(37))"
    ),
}
"""Tensors made in `forward`, and state with numbers in its names: right, or left alone."""

REFUSED = (
    "x0 + torch.tensor([1.0] * 37)",
    "x0 + torch.arange(37.0)",
    "x0 @ torch.tensor([[1.0, 2.0]] * 37)",
    "x0 * torch.ones_like(x0).sum(1, keepdim=True)",
    "x0 * (x0 * 2).sum(1, keepdim=True).expand(5, 37).sum(1, keepdim=True)",
    "torch.var(x0, 1, correction=37)",
    "x0 * x0.half().float()",
    "(lambda y: y.view(185).add_(1).view(5, 37) + y)(x0 * 2)",
)
"""Expressions over 5 x 37 elements that no sketch takes for what they are not."""
