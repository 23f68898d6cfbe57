"""Data in words."""

from __future__ import annotations

from dataclasses import replace

import pytest

from archives.evaluation import ConfigurationResult, Evaluation, KernelFacts, Rung, Status
from operators.llm.consult import Speed
from operators.llm.describe import (
    LEADING_CONFIGURATIONS,
    configuration_lines,
    describe_failure,
    describe_numbers,
    describe_speed,
)
from operators.llm.graph_words import graph_lines
from problems.catalogue import load_level
from problems.problem import Problem, Scale
from problems.trace import trace
from tests.operators.llm.prompt_cases import correct, tried

GPU = Speed(device="Example GPU", bytes=12_900_000_000, flops=0, bound="memory", least_ms=3.02)


def test_speed_says_what_must_move_what_bounds_it_and_what_can_be_gained() -> None:
    assert describe_speed(GPU, 9.06) == (
        "On Example GPU, the problem moves at least 12.9 GB. It is bound by memory: moving these "
        "bytes takes 3.02 ms, and no kernel is faster. The reference takes 9.06 ms: 3x is the most "
        "that can be gained."
    )


def test_speed_without_a_bound_says_so() -> None:
    speed = Speed(device="CPU", bytes=2_000, flops=3_500_000)
    assert describe_speed(speed, None) == (
        "On CPU, the problem moves at least 2 kB and takes 3.5 MFLOP of products. "
        "What the device allows at most is not known."
    )
    assert describe_speed(None, None) == ""


def test_a_bound_by_operations_leaves_room_for_another_algorithm() -> None:
    text = describe_speed(replace(GPU, bound="compute", flops=10**12), None)
    assert (
        "takes 1 TFLOP of products. It is bound by compute: these operations take 3.02 ms" in text
    )
    assert "only less of them is faster" in text


def test_numbers_say_where_a_parent_stands() -> None:
    evaluation = replace(correct().evaluation, latency_ms=6.04, reference_ms=12.08)
    text = describe_numbers(evaluation, GPU)
    assert "One call takes 6.04 ms, the reference 12.1 ms: 2x as fast (99 % interval" in text
    assert "That is 50% of what the device allows." in text
    assert "no less accurate" not in text
    text = describe_numbers(replace(evaluation, matched_speedup=3.0))
    assert "2x as fast (99 % interval" in text
    assert "3x as fast as the fastest setting of PyTorch that is no less accurate" in text
    assert "1 kernel launch a call; 99% of the time in its own kernels; reuse in cache" in text
    assert "vectors of 512 bits" in text


def test_numbers_leave_out_what_was_not_measured() -> None:
    evaluation = replace(correct().evaluation, facts=KernelFacts(), error=None)
    text = describe_numbers(evaluation)
    assert "facts" not in text
    assert "None" not in text
    assert "device allows" not in text


def test_a_parent_that_failed_a_second_look_is_told_as_such() -> None:
    verdict = Evaluation(status=Status.UNSTABLE, reason="host_noisy", rung=Rung.TIME)
    assert describe_numbers(verdict, GPU) == describe_failure(verdict)


def test_a_failure_says_how_far_it_came_and_what_to_do() -> None:
    verdict = Evaluation(
        status=Status.WRONG_VALUE,
        reason="wrong_value",
        rung=Rung.BUILD,
        error=1e-3,
        error_bound=1e-6,
    )
    text = describe_failure(verdict)
    assert "The verdict is WRONG_VALUE (wrong_value). It was built, and failed the check" in text
    assert "error against float64 is 0.001 of a permitted 1e-06" in text
    assert "check remainders" in text


@pytest.mark.parametrize("count", [0, 1, 8, 9, 40, 500])
def test_every_configuration_is_told_or_counted(count: int) -> None:
    timed = [
        ConfigurationResult(
            configuration={"N": number}, status=Status.OK, latency_ms=1.0 + (number * 7 % count)
        )
        for number in range(count)
    ]
    broken = [
        ConfigurationResult(configuration={"N": -number}, status=Status.TIMEOUT)
        for number in range(1, 6)
    ]
    lines = configuration_lines([*broken, *timed])
    told = [line for line in lines if "N=" in line]
    unsaid = count + 5 - len(told)
    assert lines[-1] == (f"({unsaid} more)" if unsaid else told[-1])
    assert unsaid == 0 or count > LEADING_CONFIGURATIONS
    if count >= LEADING_CONFIGURATIONS:
        ranks = [int(line.split(".")[0]) for line in lines[:8]]
        assert ranks == [1, 2, 3, 4, 5, count - 2, count - 1, count]
        assert all("TIMEOUT" in line for line in lines[8:LEADING_CONFIGURATIONS])


def test_a_configuration_is_one_line_whatever_its_names() -> None:
    strange = ConfigurationResult(
        configuration={"a\n## b": "c\nd"}, status=Status.OK, latency_ms=1.0
    )
    assert configuration_lines([strange]) == ("  1.      1 ms  a ## b='c\\nd'",)
    assert len(configuration_lines(tried(3))) == 4


def test_a_graph_is_told_with_shapes_names_and_views() -> None:
    problems = {problem.id: problem for problem in load_level(1, Scale.TINY, [41, 50, 95])}
    pooling = graph_lines(trace(problems[41].source))
    assert any("unsqueeze" in line and line.endswith(", a view") for line in pooling)
    assert any("max_pool2d_with_indices" in line and "kernel=[1, 8]" in line for line in pooling)
    loss = graph_lines(trace(problems[95].source))
    assert loss[-2].endswith("-> float32 [], float32 []; node1.1 not used")
    convolution = graph_lines(trace(problems[50].source))
    assert convolution[0].startswith("input0: float32 [")
    assert any(line.startswith("param:conv1.weight: float32 [") for line in convolution)
    (node,) = [line for line in convolution if line.startswith("node0 = ")]
    assert "convolution(input0, weight=param:conv1.weight, bias=param:conv1.bias" in node
    assert "stride=[4, 4], padding=[2, 2]" in node
    assert convolution[-1] == "returns node0"


@pytest.mark.parametrize("problem", load_level(1, Scale.TINY)[::9], ids=lambda p: p.label)
def test_every_graph_of_the_catalogue_can_be_told(problem: Problem) -> None:
    graph = trace(problem.source)
    lines = graph_lines(graph)
    tensors = len(graph.inputs) + len(graph.parameters) + len(graph.buffers)
    assert len(lines) == tensors + len(graph.nodes) + 1
    assert not any("{" in line or "\n" in line for line in lines)
