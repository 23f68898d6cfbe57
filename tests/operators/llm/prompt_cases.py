"""One problem with its parents, as prompts meet them."""

from __future__ import annotations

from archives.attempt import Slot
from archives.candidate import Candidate
from archives.evaluation import (
    ConfigurationResult,
    Evaluation,
    Interval,
    KernelFacts,
    Reuse,
    Rung,
    Status,
)
from operators.llm.consult import Briefing, Speed
from operators.llm.lessons import Setback, lessons_of
from operators.operator import OperatorContext, Parent
from problems.catalogue import load_level
from problems.graph import Node, OperatorGraph, TensorSpec
from problems.problem import Problem, Scale

(SOFTMAX,) = load_level(1, Scale.TINY, [23])

_ROWS = TensorSpec(shape=(4, 1024), stride=(1024, 1), dtype="float32", storage=0)
GRAPH = OperatorGraph(
    inputs=(_ROWS,),
    parameters={},
    buffers={},
    nodes=(
        Node(
            op="aten._softmax.default",
            inputs=("input0",),
            arguments=({"value": "input0"}, 1, False),
            keywords={},
            outputs=(TensorSpec(shape=(4, 1024), stride=(1024, 1), dtype="float32", storage=1),),
        ),
    ),
    outputs=("node0",),
)
PROGRAM = '''"""Softmax in {style}."""

import torch
from torch import nn

TUNE_PARAMS = {{"BLOCK": [256, 512, 1024], "ONLINE": [False, True]}}
CONFIG = {{"BLOCK": 512, "ONLINE": False}}


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.softmax(x, dim=1)
'''


def slot(index: int = 0) -> Slot:
    return Slot(problem=SOFTMAX.key, generation=1, island=0, index=index)


def tried(count: int = 3) -> tuple[ConfigurationResult, ...]:
    """So many timed points, and one that failed."""
    timed = [
        ConfigurationResult(
            configuration={"BLOCK": 2**number, "ONLINE": bool(number % 2)},
            status=Status.OK,
            latency_ms=0.4 + 0.1 * number,
        )
        for number in range(count)
    ]
    point = {"BLOCK": 7, "ONLINE": True}
    return (*timed, ConfigurationResult(configuration=point, status=Status.WRONG_VALUE))


def correct(
    source: str = PROGRAM.format(style="one pass"),
    speedup: float = 2.0,
    *,
    index: int = 0,
    configurations: tuple[ConfigurationResult, ...] = (),
) -> Parent:
    evaluation = Evaluation(
        status=Status.OK,
        rung=Rung.TIME,
        latency_ms=0.8 / speedup,
        reference_ms=0.8,
        speedup=speedup,
        interval=Interval(low=0.98 * speedup, high=1.03 * speedup),
        error=2.5e-8,
        error_bound=4.8e-7,
        facts=KernelFacts(
            launches=1, own_kernel_share=0.99, reuse=Reuse.CACHE, work=256, vector_bits=512
        ),
        configurations=configurations,
    )
    return Parent(
        slot=slot(index),
        candidate=Candidate.of(SOFTMAX.key, source),
        evaluation=evaluation,
        tried=configurations,
    )


def failed(
    source: str = PROGRAM.format(style="a hurry"),
    *,
    status: Status = Status.BUILD_ERROR,
    reason: str = "compile_failed",
    log: str = "line 30, in <module>: KERNELS = load()\n<stdin>:7:5: error: expected ';'",
    rung: Rung = Rung.SCREEN,
) -> Parent:
    evaluation = Evaluation(status=status, reason=reason, log=log, rung=rung)
    return Parent(slot=slot(9), candidate=Candidate.of(SOFTMAX.key, source), evaluation=evaluation)


def context(
    problem: Problem = SOFTMAX, graph: OperatorGraph | None = GRAPH, device: str = "cpu"
) -> OperatorContext:
    return OperatorContext(problem=problem, graph=graph, device=device, threads=2, vector_bits=256)


def briefing() -> Briefing:
    setbacks = [
        Setback(status=Status.WRONG_VALUE, reason="wrong_value", log="inputs 'negated': rms 0.3"),
        Setback(status=Status.WRONG_VALUE, reason="output_reused", log="overwritten", count=3),
        Setback(status=Status.WRONG_VALUE, reason="wrong_value", family="reduction", count=4),
    ]
    return Briefing(
        inspirations=(
            correct(PROGRAM.format(style="three passes"), 1.1, index=1),
            correct(PROGRAM.format(style="two passes"), 1.6, index=2),
        ),
        lessons=lessons_of(setbacks),
        focus="memory",
        speed=Speed(
            device="Example CPU, 2 threads",
            bytes=32_768,
            flops=0,
            bound="memory",
            least_ms=0.2,
        ),
        reference_ms=0.8,
    )


def parents_of(operator: str) -> tuple[Parent, ...]:
    """What an operator is given."""
    return {
        "llm.translate": (),
        "llm.mutate": (correct(configurations=tried()),),
        "llm.crossover": (
            correct(configurations=tried()),
            correct(PROGRAM.format(style="blocks"), 1.4, index=4),
        ),
        "llm.repair": (failed(),),
    }[operator]
