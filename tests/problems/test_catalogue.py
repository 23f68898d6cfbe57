"""The bundled level 1 against the benchmark's facts, and the rules of its scales."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from problems.catalogue import load_level, parse_ids
from problems.errors import ConfigError, ProblemError
from problems.footprint import tensor_bytes
from problems.graph import TensorSpec
from problems.problem import DomainKind, Problem, Scale
from problems.trace import trace

FACTS: list[dict[str, Any]] = json.loads(
    (Path(__file__).parent / "level1_facts.json").read_text(encoding="utf-8")
)
OFFICIAL = load_level(1, Scale.OFFICIAL)
SMALL = load_level(1, Scale.SMALL)
TINY = load_level(1, Scale.TINY)

DOMAIN_OF_DRAW = {
    "rand": DomainKind.REAL,
    "(rand*rand())": DomainKind.REAL,
    "((rand+rand.T)/2)": DomainKind.SYMMETRIC,
    "triu(rand)": DomainKind.UPPER_TRIANGULAR,
    "tril(rand)": DomainKind.LOWER_TRIANGULAR,
    "bool(randint[0,2))": DomainKind.MASK,
    "randint[0,4096)": DomainKind.INDEX,
    "softmax((rand*rand()),dim=-1)": DomainKind.PROBABILITY,
    "softmax(rand,dim=-1)": DomainKind.PROBABILITY,
    "((float(randint[0,2))*2)-1)": DomainKind.SIGN,
    None: DomainKind.SCALAR,
}

NEVER_REDUCED = {
    *("in_channels", "out_channels", "channels", "groups", "num_groups", "num_classes"),
    *("kernel_size", "kernel_size_h", "kernel_size_w", "stride", "padding", "output_padding"),
    *("dilation", "embedding_dimension", "alpha", "margin"),
}


def load(problem: Problem) -> ModuleType:
    module = ModuleType("problem")
    exec(compile(problem.source, problem.label, "exec"), module.__dict__)
    return module


def constants(problem: Problem) -> dict[str, object]:
    found: dict[str, object] = {}
    for node in ast.parse(problem.source).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            text = ast.unparse(node.value)
            found[node.targets[0].id] = eval(text, {}, dict(found))
    return found


def elements(problem: Problem) -> int:
    graph = trace(problem.source)
    values = [*graph.inputs, *graph.parameters.values(), *map(graph.spec, graph.outputs)]
    return sum(value.numel for value in values if isinstance(value, TensorSpec))


def test_there_are_exactly_the_100_problems_of_level_1() -> None:
    assert [problem.id for problem in OFFICIAL] == list(range(1, 101))
    assert [fact["id"] for fact in FACTS] == list(range(1, 101))


@pytest.mark.parametrize(
    ("problem", "fact"),
    list(zip(OFFICIAL, FACTS, strict=True)),
    ids=lambda v: str(getattr(v, "id", "")),
)
def test_official_scale_equals_the_facts(problem: Problem, fact: dict[str, Any]) -> None:
    graph = trace(problem.source)
    assert (problem.level, problem.name, problem.family) == (1, fact["name"], fact["family"])
    inputs = [
        {"shape": list(each.shape), "dtype": each.dtype}
        if isinstance(each, TensorSpec)
        else {"value": each}
        for each in graph.inputs
    ]
    assert inputs == [{k: v for k, v in each.items() if k != "dist"} for each in fact["inputs"]]
    outputs = [graph.spec(name) for name in graph.outputs]
    assert [
        {"shape": list(each.shape), "dtype": each.dtype}
        for each in outputs
        if isinstance(each, TensorSpec)
    ] == fact["outputs"]
    assert [repr(value) for value in load(problem).get_init_inputs()] == fact["init"]
    assert sum(each.numel for each in graph.parameters.values()) == fact["parameters"]
    assert (
        sum(each.numel * (8 if each.dtype == "int64" else 4) for each in graph.buffers.values())
        == (fact["buffer_bytes"])
    )


@pytest.mark.parametrize(
    ("problem", "fact"),
    list(zip(OFFICIAL, FACTS, strict=True)),
    ids=lambda v: str(getattr(v, "id", "")),
)
def test_domains_follow_how_the_benchmark_draws(problem: Problem, fact: dict[str, Any]) -> None:
    kinds = [domain.kind for domain in problem.domains]
    assert kinds == [DOMAIN_OF_DRAW[each.get("dist")] for each in fact["inputs"]]
    assert not any(domain.inferred for domain in problem.domains)


def test_an_index_is_bounded_by_the_classes_of_its_scale() -> None:
    for problems, classes in ((OFFICIAL, 4096), (SMALL, 4096), (TINY, 256)):
        assert problems[94].domains[1].upper == classes


@pytest.mark.parametrize("problem", SMALL, ids=lambda problem: str(problem.id))
def test_small_scale_fits_16_mb(problem: Problem) -> None:
    assert tensor_bytes(trace(problem.source)) <= 16_000_000


@pytest.mark.parametrize(
    ("small", "official"), list(zip(SMALL, OFFICIAL, strict=True)), ids=lambda v: str(v.id)
)
def test_small_scale_reduces_batch_and_spatial_sizes_only(
    small: Problem, official: Problem
) -> None:
    before, after = constants(official), constants(small)
    assert before.keys() == after.keys()
    for name, value in before.items():
        now = after[name]
        if name in NEVER_REDUCED or (name == "features" and small.family in {"norm", "pool"}):
            assert now == value
        elif now != value and name != "normalized_shape":
            assert isinstance(value, int)
            assert isinstance(now, int)
            assert 1 <= now < value
            assert value % 2 == 0 or now % 2 == 1, f"{name} was odd"


@pytest.mark.parametrize("problem", TINY, ids=lambda problem: str(problem.id))
def test_tiny_scale_is_tiny_and_runs(problem: Problem) -> None:
    # The weights of 50 are fixed by its class: 34,944 elements alone.
    assert elements(problem) <= (50_000 if problem.id == 50 else 20_000)
    module = load(problem)
    torch.manual_seed(0)
    model = module.Model(*module.get_init_inputs())
    inputs = module.get_inputs()
    with torch.no_grad():
        result = model(*inputs)
    assert isinstance(result, torch.Tensor)
    assert torch.isfinite(result.float()).all()
    graph = trace(problem.source)
    expected = graph.spec(graph.outputs[0])
    assert isinstance(expected, TensorSpec)
    assert tuple(result.shape) == expected.shape
    assert str(result.dtype) == f"torch.{expected.dtype}"


@pytest.mark.parametrize("number", [8, 19, 23, 33, 45, 51, 67, 90, 95, 97, 100])
def test_small_scale_runs(number: int) -> None:
    module = load(SMALL[number - 1])
    with torch.no_grad():
        result = module.Model(*module.get_init_inputs())(*module.get_inputs())
    assert torch.isfinite(result.float()).all()


@pytest.mark.parametrize("problem", TINY, ids=lambda problem: str(problem.id))
def test_inputs_lie_in_their_domain(problem: Problem) -> None:
    torch.manual_seed(1)
    for value, domain in zip(load(problem).get_inputs(), problem.domains, strict=True):
        match domain.kind:
            case DomainKind.SCALAR:
                assert isinstance(value, float)
            case DomainKind.UPPER_TRIANGULAR:
                assert torch.equal(value, value.triu())
            case DomainKind.LOWER_TRIANGULAR:
                assert torch.equal(value, value.tril())
            case DomainKind.SYMMETRIC:
                assert torch.equal(value, value.T)
            case DomainKind.PROBABILITY:
                assert (value > 0).all()
                torch.testing.assert_close(value.sum(-1), torch.ones(value.shape[0]))
            case DomainKind.MASK:
                assert value.dtype == torch.bool
            case DomainKind.SIGN:
                assert set(value.tolist()) == {-1.0, 1.0}
            case DomainKind.INDEX:
                assert value.dtype == torch.int64
                assert domain.upper is not None
                assert 0 <= value.min() <= value.max() < domain.upper
            case _:
                assert value.is_floating_point()


def test_hinge_loss_keeps_as_many_samples_as_features() -> None:
    for problems in (OFFICIAL, SMALL, TINY):
        sizes = constants(problems[99])
        assert sizes["batch_size"] == sizes["features"]


@pytest.mark.parametrize("number", [23, 37, 73, 90, 95, 100])
def test_known_flaws_of_the_originals_are_stated(number: int) -> None:
    assert OFFICIAL[number - 1].notes
    assert all(note == note.strip() and "\n" not in note for note in OFFICIAL[number - 1].notes)


def test_73_has_one_group_as_the_original() -> None:
    graph = trace(OFFICIAL[72].source)
    (node,) = graph.nodes
    assert node.op == "aten.convolution.default"
    assert node.arguments[-1] == 1


@pytest.mark.parametrize(
    ("number", "formula"),
    [
        (12, lambda a, b: torch.diag(a) @ b),
        (11, lambda a, b: a @ b),
        (18, lambda a, b: (b @ a).T),
        (25, lambda x: x / (1 + torch.exp(-x))),
        (27, lambda x: torch.nn.functional.elu(x, 1.6732632423543772) * 1.0507009873554805),
        (30, lambda x: x / (1 + x.abs())),
        (36, lambda x: x * torch.rsqrt(x.square().mean(1, keepdim=True) + 1e-5)),
        (38, lambda x: x * x.shape[1] / x.abs().sum(1, keepdim=True)),
        (39, lambda x: x / x.square().sum(1, keepdim=True).sqrt()),
        (88, lambda x: torch.nn.functional.gelu(x, approximate="tanh")),
        (91, lambda x: x.sum(1, keepdim=True) - x.cumsum(1) + x),
        (92, lambda x: x.cumsum(1) - x),
        (93, lambda x, mask: torch.where(mask, x, 0.0).cumsum(1)),
        (94, lambda p, t: torch.nn.functional.mse_loss(p, t)),
        (97, lambda q, k, v: torch.softmax(q @ k.mT / q.shape[-1] ** 0.5, -1) @ v),
        (98, lambda p, t: (t * (t.log() - p.log())).sum() / p.shape[0]),
        (100, lambda p, t: (1 - p * t[None, :]).relu().mean()),
    ],
)
def test_reference_computes_what_its_name_says(number: int, formula: Any) -> None:  # noqa: ANN401
    module = load(TINY[number - 1])
    torch.manual_seed(2)
    inputs = module.get_inputs()
    result = module.Model(*module.get_init_inputs())(*inputs)
    torch.testing.assert_close(result, formula(*inputs), rtol=2e-4, atol=2e-4)


def test_keys_of_all_problems_and_scales_differ() -> None:
    keys = {problem.key for problem in (*OFFICIAL, *SMALL, *TINY)}
    assert len(keys) == 300


def test_chosen_problems_keep_their_order() -> None:
    assert [problem.id for problem in load_level(1, Scale.SMALL, [23, 1])] == [23, 1]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: load_level(7, Scale.SMALL), "holds level 1 only, got level 7"),
        (lambda: load_level(1, Scale.SMALL, [101]), "no problem 101: its ids are 1 to 100"),
        (lambda: load_level(1, Scale.CUSTOM), "no scale 'custom': choose one of official, small"),
    ],
)
def test_what_the_catalogue_lacks_is_said(call: Any, message: str) -> None:  # noqa: ANN401
    with pytest.raises(ProblemError, match=re.escape(message)):
        call()


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("1", (1,)),
        ("1,19-25", (1, 19, 20, 21, 22, 23, 24, 25)),
        (" 3 , 1-2 ", (3, 1, 2)),
        ("5,4-6,5", (5, 4, 6)),
    ],
)
def test_parse_ids(text: str, ids: tuple[int, ...]) -> None:
    assert parse_ids(text) == ids


@pytest.mark.parametrize("text", ["", "a", "1,", "3-", "-3", "1-2-3", "2.5", "25-19", "0", "²"])
def test_parse_ids_refuses_in_one_sentence(text: str) -> None:
    with pytest.raises(ConfigError, match="expected") as caught:
        parse_ids(text)
    assert "\n" not in str(caught.value)


def test_what_kernelbench_s_tolerance_proves_nothing_of_is_marked_at_its_scale() -> None:
    loose = {
        scale: [problem.id for problem in load_level(1, scale) if problem.loose]
        for scale in (Scale.OFFICIAL, Scale.SMALL, Scale.TINY)
    }
    assert loose == {Scale.OFFICIAL: [23, 37], Scale.SMALL: [23], Scale.TINY: []}
