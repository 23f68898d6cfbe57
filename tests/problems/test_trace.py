"""Operator graphs of references."""

from __future__ import annotations

import sys

import pytest

from problems.catalogue import load_level
from problems.errors import ProblemError
from problems.graph import TensorSpec, is_constant
from problems.problem import Scale
from problems.trace import trace

TEMPLATE = """
import torch
from torch import nn
from torch.nn import functional as F

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        {build}

    def forward(self, *inputs):
        {forward}

def get_inputs():
    return {inputs}

def get_init_inputs():
    return []
"""


def module(forward: str, inputs: str = "[torch.rand(2, 3)]", build: str = "pass") -> str:
    return TEMPLATE.format(forward=forward, inputs=inputs, build=build)


def official(number: int) -> str:
    return load_level(1, Scale.OFFICIAL, [number])[0].source


def test_relu_of_six_gigabytes_allocates_nothing() -> None:
    graph = trace(official(19))
    (node,) = graph.nodes
    assert (node.op, node.inputs) == ("aten.relu.default", ("input0",))
    assert node.arguments == ({"value": "input0"},)
    assert graph.outputs == ("node0",)
    (spec,) = node.outputs
    assert (spec.shape, spec.stride) == ((4096, 393216), (393216, 1))
    assert spec.dtype == "float32"


@pytest.mark.parametrize(
    ("number", "ops"),
    [
        (8, ["aten.mm.default"]),
        (23, ["aten._softmax.default"]),
        (40, ["aten.native_layer_norm.default"]),
        (51, ["aten.argmax.default"]),
        (82, ["aten.convolution.default"]),
        (89, ["aten.cumsum.default"]),
        (95, ["aten._log_softmax.default", "aten.nll_loss_forward.default"]),
    ],
)
def test_operations_of_known_problems(number: int, ops: list[str]) -> None:
    assert [node.op for node in trace(official(number)).nodes] == ops


def test_convolution_reads_its_weight_and_keeps_its_attributes() -> None:
    graph = trace(official(82))
    (node,) = graph.nodes
    assert node.inputs == ("input0", "param:conv2d.weight")
    assert node.arguments[3:] == ([1, 1], [0, 0], [1, 1], False, [0, 0], 64)
    assert list(graph.parameters) == ["conv2d.weight"]
    assert graph.spec("param:conv2d.weight") == graph.parameters["conv2d.weight"]


def test_batch_norm_runs_in_training_mode_and_reads_its_buffers() -> None:
    graph = trace(official(33))
    norm = next(node for node in graph.nodes if "batch_norm" in node.op)
    assert "buffer:bn.running_mean" in norm.inputs
    assert norm.arguments[5] is True
    assert len(norm.outputs) == 3
    assert set(graph.buffers) == {"bn.running_mean", "bn.running_var", "bn.num_batches_tracked"}


def test_attention_ends_in_its_second_product() -> None:
    products = [node for node in trace(official(97)).nodes if node.op == "aten.bmm.default"]
    assert len(products) == 2


def test_views_share_storage_and_results_do_not() -> None:
    graph = trace(module("return inputs[0].T.contiguous()"))
    view, copy = graph.nodes
    (source,) = graph.inputs
    assert isinstance(source, TensorSpec)
    assert view.outputs[0].storage == source.storage
    assert view.outputs[0].stride == (1, 3)
    assert copy.outputs[0].storage != source.storage


def test_operations_in_place_keep_the_storage_and_get_a_new_name() -> None:
    graph = trace(module("y = inputs[0] + 1; y.mul_(2); return y"))
    assert graph.outputs == ("node1",)
    assert graph.nodes[1].inputs == ("node0",)
    assert graph.nodes[1].outputs[0].storage == graph.nodes[0].outputs[0].storage


def test_slices_have_an_offset() -> None:
    graph = trace(module("return inputs[0][1:]"))
    spec = graph.spec(graph.outputs[0])
    assert isinstance(spec, TensorSpec)
    assert (spec.shape, spec.offset) == ((1, 3), 3)


def test_several_results_and_several_outputs() -> None:
    graph = trace(module("return inputs[0].max(dim=1)"))
    assert graph.outputs == ("node0", "node0.1")
    second = graph.spec("node0.1")
    assert isinstance(second, TensorSpec)
    assert second.dtype == "int64"


def test_lists_numbers_and_types_in_arguments() -> None:
    graph = trace(module("return torch.cat([inputs[0], inputs[0]], 1).to(torch.float64)"))
    cat, cast = graph.nodes
    assert cat.arguments == ([{"value": "input0"}, {"value": "input0"}], 1)
    assert cat.inputs == ("input0", "input0")
    assert cast.keywords["dtype"] == "float64"


def test_numbers_among_the_inputs() -> None:
    graph = trace(module("return inputs[0] * inputs[1]", "[torch.rand(2), 3.5]"))
    assert graph.inputs[1] == 3.5
    assert graph.nodes[0].arguments == ({"value": "input0"}, 3.5)


def test_tensors_in_plain_attributes_are_constants() -> None:
    graph = trace(module("return inputs[0] + self.k", build="self.k = torch.ones(3)"))
    assert graph.nodes[0].inputs == ("input0", "buffer:constant0")
    assert graph.buffers["constant0"].shape == (3,)


def test_numbers_made_tensors_show_their_value() -> None:
    graph = trace(module("return inputs[0] * torch.tensor(2.5) + torch.tensor([1.0])"))
    made = graph.nodes[0]
    assert (made.op, made.arguments) == ("aten.full.default", ([], 2.5))
    assert made.outputs[0].dtype == "float32"
    assert [name for node in graph.nodes for name in node.inputs if is_constant(name)] == [
        "buffer:constant0"
    ]


def test_plain_attributes_made_elsewhere_are_moved() -> None:
    build = "import numpy; self.k = torch.from_numpy(numpy.ones(3, 'float32'))"
    assert trace(module("return inputs[0] + self.k", build=build)).outputs == ("node0",)


def test_an_input_that_is_returned() -> None:
    assert trace(module("return inputs[0]")).outputs == ("input0",)


def test_precision_casts_floating_point_only() -> None:
    source = module(
        "return self.lin(inputs[0]), inputs[1]",
        "[torch.rand(2, 3), torch.zeros(2, dtype=torch.int64), torch.ones(2).bool()]",
        "self.lin = nn.Linear(3, 4)",
    )
    graph = trace(source, "bf16")
    assert [spec.dtype for spec in graph.inputs if isinstance(spec, TensorSpec)] == [
        "bfloat16",
        "int64",
        "bool",
    ]
    assert {spec.dtype for spec in graph.parameters.values()} == {"bfloat16"}


def test_data_classes_with_postponed_annotations_load() -> None:
    prefix = (
        "from __future__ import annotations\nfrom dataclasses import dataclass\n"
        "@dataclass\nclass Sizes:\n    rows: int = 2\n"
    )
    trace(prefix + module("return inputs[0] * Sizes().rows"))


def test_nothing_stays_behind() -> None:
    before = set(sys.modules)
    trace(module("return inputs[0]"))
    trace(module("return inputs[0] + 1"))
    assert not {name for name in set(sys.modules) - before if name.startswith("problem_")}


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("1 / 0\n", "loading the module of the problem failed with ZeroDivisionError: division"),
        ("import sys\nsys.exit(3)\n", "failed with SystemExit: 3"),
        ("import missing_package_x\n", "No module named 'missing_package_x'"),
        ("class Model: pass\n", "defines no get_inputs"),
        (module("return inputs[0]", "torch.rand(2)"), "get_inputs() of the problem's module retur"),
        (module("return inputs[0]", "['text']"), "input 0 of the problem is a str"),
        (module("return 3"), "returned a int: expected a tensor"),
        (module("return inputs[0] @ inputs[0]"), "running forward of Model of the problem failed"),
        (module("return inputs[0].sum().item()"), "running forward of Model"),
        (module("return x", build="raise OSError"), "constructing Model of the problem failed"),
        (module("return 1").replace("(nn.Module)", "").replace("super", "list"), "is no torch.nn"),
    ],
)
def test_what_goes_wrong_is_one_sentence(source: str, message: str) -> None:
    with pytest.raises(ProblemError) as caught:
        trace(source)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_unknown_precision_is_named() -> None:
    with pytest.raises(ProblemError, match="unknown precision 'fp8': expected one of fp32, fp16"):
        trace(module("return inputs[0]"), "fp8")
