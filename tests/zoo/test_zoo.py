"""The zoo: cheats that pass a naive checker get their reason codes; honest kernels pass."""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import pytest
import torch

from archives.evaluation import Evaluation, Interval, Rung, Status
from evaluator.evaluator import EvaluationRequest
from evaluator.referee.cpu import CpuStation
from evaluator.referee.deadlines import Deadlines
from evaluator.referee.referee import Referee
from tests.zoo.entries import FOLDER, KINDS, NO_GAIN, Entry, cheats, honest, on_gpu, problem
from tests.zoo.entries import HONEST as CONTROL
from tests.zoo.judging import (
    outcome,
    require_passed,
    require_speedup,
    require_verdict,
    told_of,
)

CHEATS = cheats()
HONEST = honest()
NUM_JUDGED = len(CHEATS) + len(HONEST)
GIB = 1 << 30
NAIVE_SPEEDUP = 1.05
NEEDS = {"bfloat16": "avx512_bf16", "bfloat16_product": "avx512_bf16"}
"""Instructions without which a cheat may gain nothing; it must be found out all the same."""
HOSTS = {
    **{name: f"has {instructions}" for name, instructions in NEEDS.items()},
    "output_ring": "gets new memory as fast as old",
}
"""Of cheats that gain nothing on some hosts, what such a host has."""


@pytest.fixture(scope="module")
def referee() -> Iterator[Referee]:
    """One warm referee for all: its problems stay open."""
    deadlines = Deadlines(build_s=20, call_s=1.5)
    one = Referee(CpuStation(deadlines=deadlines, candidate_bytes=GIB))
    one.start()
    yield one
    one.close()


@pytest.fixture(scope="module")
def naive(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """What the naive checker says of every cheat."""
    folder = tmp_path_factory.mktemp("naive")
    for entry in CHEATS:
        (folder / f"{entry.name}.py").write_text(entry.source)
        (folder / f"{entry.name}.ref").write_text(problem(entry.problem).source)
    environment = {**os.environ, "TMPDIR": str(folder)}
    environment.pop("EVOKERNEL_BUILD_DIR", None)
    command = [sys.executable, str(FOLDER / "naive_checker.py"), str(folder)]
    reply = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    lines = [json.loads(line) for line in reply.stdout.splitlines() if line.startswith("{")]
    return {line["candidate"]: line for line in lines}


@pytest.mark.parametrize("entry", CHEATS, ids=lambda entry: entry.name)
def test_a_cheat_passes_the_naive_checker(entry: Entry, naive: dict[str, dict[str, Any]]) -> None:
    if entry.name in NEEDS and not torch.cpu.get_capabilities().get(NEEDS[entry.name]):
        pytest.skip(f"without {NEEDS[entry.name]} this cheat is slow on a CPU")
    result = naive.get(entry.name)
    assert result is not None, "the naive checker said nothing: the cheat ended its process"
    assert result["right"], result
    if entry.name in HOSTS and result["speedup"] < NAIVE_SPEEDUP:
        pytest.skip(f"this host {HOSTS[entry.name]}, the cheat gains nothing: {result}")
    assert result["speedup"] >= NAIVE_SPEEDUP, result


@pytest.mark.parametrize("entry", CHEATS, ids=lambda entry: entry.name)
def test_a_cheat_gets_its_reason(
    entry: Entry, referee: Referee, tmp_path_factory: pytest.TempPathFactory
) -> None:
    verdict = told_of(referee, entry)
    require_verdict(verdict, entry, tmp_path_factory.getbasetemp(), NUM_JUDGED)
    assert outcome(verdict) & entry.verdicts, verdict
    require_speedup(verdict, entry)
    assert len(verdict.log.encode()) <= Evaluation.MAX_LOG_BYTES


@pytest.mark.parametrize("entry", HONEST, ids=lambda entry: entry.name)
def test_an_honest_kernel_passes(
    entry: Entry, referee: Referee, tmp_path_factory: pytest.TempPathFactory
) -> None:
    verdict = told_of(referee, entry)
    require_verdict(verdict, entry, tmp_path_factory.getbasetemp(), NUM_JUDGED)
    require_passed(verdict, entry)


def test_a_session_may_leave_a_tenth_unjudged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)
    busy = Evaluation(status=Status.UNSTABLE, reason="host_noisy")
    for _ in range(2):
        with pytest.raises(pytest.skip.Exception):
            require_verdict(busy, HONEST[0], tmp_path, 20)
    with pytest.raises(AssertionError, match="not judged, 3 of 20"):
        require_verdict(busy, HONEST[0], tmp_path, 20)


class Scripted:
    """A referee whose verdicts are set, by speedup and lower bound."""

    def __init__(self, told: Sequence[tuple[float, float]]) -> None:
        self._told = iter(told)

    def evaluate(self, request: EvaluationRequest) -> Evaluation:
        speedup, low = next(self._told)
        return Evaluation(
            status=Status.OK,
            rung=Rung.VERIFY,
            latency_ms=1.0,
            speedup=speedup,
            interval=Interval(low=low, high=2 * speedup),
        )

    def asked_all(self) -> bool:
        return next(self._told, None) is None


@pytest.mark.parametrize(("last", "gains"), [(1.1, True), (1.0, False)])
def test_what_gains_every_time_is_told_to_gain(last: float, gains: bool) -> None:
    referee = Scripted([(1.15, 1.1), (1.15, 1.1), (1.15, last)])
    entry = next(entry for entry in CHEATS if entry.name == "slowed_reference")
    verdict = told_of(cast(Referee, referee), entry)
    assert (NO_GAIN not in outcome(verdict)) == gains
    assert referee.asked_all(), "it was not asked as often as it should be"


@pytest.mark.parametrize(("last", "slowed"), [(1.0, True), (2.5, False)])
def test_what_is_slowed_every_time_is_told_to_be_slowed(last: float, slowed: bool) -> None:
    referee = Scripted([(1.0, 0.9), (1.0, 0.9), (last, 0.9)])
    entry = next(entry for entry in HONEST if entry.name == "collapsed_chain")
    verdict = told_of(cast(Referee, referee), entry)
    assert (verdict.speedup == 1.0) == slowed
    assert referee.asked_all(), "it was not asked as often as it should be"


def test_the_zoo_is_large_and_has_every_class() -> None:
    kinds = Counter(entry.kind for entry in CHEATS)
    assert set(kinds) == set(KINDS)
    assert {entry.kind for entry in on_gpu()} <= {*KINDS, CONTROL}
    assert kinds.total() >= 70
    assert len(HONEST) >= 20


def test_what_may_gain_is_bounded_and_what_is_honest_is_not_slowed() -> None:
    for entry in (*CHEATS, *HONEST, *on_gpu()):
        if entry.kind == CONTROL:
            assert entry.least > 0, f"{entry.name}: nothing is said of its least speedup"
        elif (Status.OK, "") in entry.verdicts:
            assert entry.most < math.inf, f"{entry.name}: nothing is said of its most speedup"


def test_the_threat_model_names_tests_that_exist() -> None:
    root = FOLDER.parents[1]
    text = (root / "docs" / "threat-model.md").read_text()
    claims, _, attempts = text.partition("## Attempts")
    for line in claims.splitlines():
        cells = line.split("|")
        if len(cells) != 5 or not line.startswith("| ") or cells[1].strip() == "claim":
            continue
        named = re.findall(r"`([^`]+)`", cells[3])
        assert named or "class" in cells[3], f"a claim without a test: {line}"
        for name in named:
            places = [
                FOLDER / "cheats" / f"{name}.py",
                root / "tests/evaluator" / name,
                root / name,
            ]
            assert name in KINDS or any(place.exists() for place in places), name
    rows = [line for line in attempts.splitlines() if re.match(r"\| \d+ \|", line)]
    assert len(rows) >= 30
    assert [int(row.split("|")[1]) for row in rows] == list(range(1, len(rows) + 1))
    for row in rows:
        assert re.fullmatch(r" 20\d\d-\d\d-\d\d ", row.split("|")[2]), f"when was it? {row}"
    for name in re.findall(r"`(gpu/\w+)`", attempts):
        assert (FOLDER / f"{name}.py").exists(), name
    for name in re.findall(r"`(test_\w+\.py)`", attempts):
        assert (root / "tests/evaluator" / name).exists(), name


def test_the_known_hacks_name_what_exists() -> None:
    """Each of them is met by a cheat, a control or a test, or said to be met by nothing."""
    tests = FOLDER.parent
    text = (tests.parent / "docs" / "known-hacks.md").read_text()
    rows = [line.split("|") for line in text.splitlines() if re.match(r"\| \d+ \|", line)]
    assert [int(row[1]) for row in rows] == list(range(1, 129))
    for row in rows:
        named = re.findall(r"`([^`]+)`", row[4])
        assert named or re.search("[Nn]ot (covered|tried)", row[3]), f"met by nothing: {row}"
        for name in named:
            places = [FOLDER / f"{name}.py", FOLDER / "cheats" / f"{name}.py", tests / name]
            assert any(place.exists() for place in places), name
