"""The speed of light as a report knows it: by the device's name, the problem and its graph."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console

from archives.evaluation import DeviceFingerprint, Evaluation, Interval, Rung, Status
from archives.records import RunCounts
from evaluator.referee.ceiling import told
from evokernel.cli.report import print_report
from evokernel.cli.show import describe_evaluation
from evokernel.fast_p import Score, summarise
from evokernel.lights import light_on
from evokernel.problem_report import Best, ProblemReport
from evokernel.report import Report
from problems.catalogue import load_level
from problems.problem import Scale
from problems.trace import trace

H200 = DeviceFingerprint(kind="cuda", name="NVIDIA H200", uuid="g", threads=0, versions={})


def test_a_problem_that_states_no_domains_has_the_light_of_one_that_does() -> None:
    [stated] = load_level(1, Scale.OFFICIAL, [14])
    graph = trace(stated.source)
    own = light_on(H200, replace(stated, domains=()), graph)
    known = light_on(H200, stated, graph)
    assert own is not None
    assert known is not None
    assert own.sol_ms == known.sol_ms == pytest.approx(0.0463, abs=1e-4)
    assert own.hard_ms <= known.hard_ms


def test_without_a_graph_or_a_row_there_is_no_light() -> None:
    [relu] = load_level(1, Scale.TINY, [19])
    graph = trace(relu.source)
    assert light_on(H200, relu, None) is None
    assert light_on(None, relu, graph) is None
    assert light_on(replace(H200, name="Somebody's GPU"), relu, graph) is None
    assert light_on(replace(H200, kind="cpu"), relu, graph) is None
    assert light_on(H200, relu, graph) is not None


def report_of(log: str) -> tuple[Evaluation, str]:
    """A verdict with this log, and the report of a run in which it is the best."""
    [relu] = load_level(1, Scale.TINY, [19])
    verdict = Evaluation(
        status=Status.OK,
        rung=Rung.VERIFY,
        log=log,
        latency_ms=0.1,
        reference_ms=2.0,
        speedup=20.0,
        interval=Interval(low=19.0, high=21.0),
        device=H200,
    )
    best = Best(candidate="c" * 64, evaluation=verdict, is_reference=False)
    line = ProblemReport(problem=relu, status="verified", best=best)
    report = Report(
        name="r",
        state="finished",
        scale="tiny",
        device=H200,
        noise_floor=0.02,
        noisy=False,
        referee_version="1",
        counts=RunCounts(),
        operators=(),
        problems=(line,),
        standard=summarise([Score(speedup=20.0)], 0.02),
        matched=None,
    )
    out = StringIO()
    print_report(report, Console(file=out, width=160))
    return verdict, out.getvalue()


def test_show_and_report_tell_what_is_suspicious_of_a_time() -> None:
    sentence = told(("extreme_speedup", "below_compute_bound"))
    verdict, text = report_of(f"1,980 MHz, 0 of 9 blocks dropped. {sentence}")
    assert sentence in describe_evaluation(verdict)[-1]
    assert f"1/19 ReLU: {sentence}" in text
    _, plain = report_of("1,980 MHz, 0 of 9 blocks dropped.")
    assert "Speed of light" not in plain
    assert "blocks dropped" not in plain
