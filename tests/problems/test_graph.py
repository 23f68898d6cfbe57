"""Operator graphs as data."""

from __future__ import annotations

import json

import pytest

from problems.catalogue import load_level
from problems.footprint import tensor_bytes
from problems.graph import OperatorGraph, TensorSpec
from problems.problem import Problem, Scale
from problems.trace import trace


@pytest.mark.parametrize("problem", load_level(1, Scale.SMALL), ids=lambda p: str(p.id))
def test_a_graph_survives_json(problem: Problem) -> None:
    graph = trace(problem.source)
    assert OperatorGraph.from_json(json.loads(json.dumps(graph.to_json()))) == graph


def test_every_name_in_a_graph_has_a_spec() -> None:
    for problem in load_level(1, Scale.TINY):
        graph = trace(problem.source)
        for name in (*graph.outputs, *(each for node in graph.nodes for each in node.inputs)):
            assert isinstance(graph.spec(name), TensorSpec)


def test_an_unknown_name_is_a_key_error() -> None:
    graph = trace(load_level(1, Scale.TINY, [19])[0].source)
    with pytest.raises(KeyError):
        graph.spec("param:weight")


def spec(*shape: int, storage: int, dtype: str = "float32", offset: int = 0) -> TensorSpec:
    stride: list[int] = []
    step = 1
    for size in reversed(shape):
        stride.insert(0, step)
        step *= size
    return TensorSpec(
        shape=shape, stride=tuple(stride), dtype=dtype, storage=storage, offset=offset
    )


def graph_of(*inputs: TensorSpec | float, outputs: tuple[str, ...] = ()) -> OperatorGraph:
    return OperatorGraph(inputs=inputs, parameters={}, buffers={}, nodes=(), outputs=outputs)


def test_bytes_of_inputs_weights_and_outputs() -> None:
    # 16 x 64 x 256 x 256 in and out, two weights of 64 x 256 x 256, 4 bytes each
    graph = trace(load_level(1, Scale.OFFICIAL, [40])[0].source)
    assert tensor_bytes(graph) == 4 * (2 * 16 + 2) * 64 * 256 * 256


def test_shared_memory_counts_once() -> None:
    assert tensor_bytes(graph_of(spec(4, 8, storage=0), spec(4, storage=0, offset=8))) == 128
    assert tensor_bytes(graph_of(spec(4, storage=0), outputs=("input0",))) == 16


def test_expanded_and_empty_tensors_and_numbers() -> None:
    wide = TensorSpec(shape=(1000, 4), stride=(0, 1), dtype="int64", storage=0)
    assert tensor_bytes(graph_of(wide, 2.5, spec(0, 3, storage=1))) == 32


def test_half_precision_takes_half() -> None:
    source = load_level(1, Scale.SMALL, [1])[0].source
    assert 2 * tensor_bytes(trace(source, "fp16")) == tensor_bytes(trace(source))
