"""The commands that read a run, through the command line's own application."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

from archives.records import RunCounts
from evokernel.cli.main import build_app
from evokernel.cli.report import print_report
from evokernel.fast_p import Score, summarise
from evokernel.report import ProblemReport, Report
from tests.evokernel.conftest import DEVICE, PROBLEMS

REPORT_KEYS = {
    "fast_p",
    "fast_p_sure",
    "geomean_correct",
    "geomean_with_fallback",
    "num_problems",
    "scale",
    "precision",
    "device",
    "referee_version",
    "problems",
}
PROBLEM_KEYS = {
    "level",
    "id",
    "name",
    "status",
    "speedup",
    "speedup_low",
    "matched_speedup",
    "latency_ms",
    "reference_ms",
    "own_kernel_share",
    "candidate",
}


def call(*words: object, code: int = 0) -> str:
    """Run a command and return what it wrote to stdout, or to stderr where it fails."""
    result = CliRunner().invoke(build_app(str(words[0])), [str(word) for word in words])
    assert result.exit_code == code, result.output
    return result.stdout if code == 0 else result.stderr


def as_json(*words: object) -> Any:  # noqa: ANN401 - JSON
    return json.loads(call(*words, "--json"))


def best(run: Path, id: int) -> str:
    lines = as_json("report", run)["problems"]
    return str(next(line["candidate"] for line in lines if line["id"] == id))


def test_report_json_holds_the_promised_keys_and_numbers(small_run: Path) -> None:
    report = as_json("report", small_run)
    assert report.keys() >= REPORT_KEYS
    assert list(report["fast_p"]) == ["0", "0.5", "0.8", "1", "1.05", "1.5", "2"]
    assert list(report["fast_p_sure"]) == list(report["fast_p"])
    assert all(line.keys() >= PROBLEM_KEYS for line in report["problems"])
    status = {line["id"]: line["status"] for line in report["problems"]}
    assert status == {
        1: "verified",
        2: "unverified",
        3: "reference",
        4: "none",
        5: "skipped",
        6: "degenerate",
        7: "unverified",
    }
    # Six count: 2.0x verified, 1.5x, the reference, nothing, skipped, and a library call's 1.5x.
    assert report["num_problems"] == 6
    assert report["fast_p"] == pytest.approx(
        {"0": 4 / 6, "0.5": 4 / 6, "0.8": 4 / 6, "1": 0.5, "1.05": 0.5, "1.5": 1 / 6, "2": 0}
    )
    assert report["fast_p_sure"]["1"] == pytest.approx(1 / 6)
    assert report["fast_p_sure"]["2"] == 0
    assert report["geomean_correct"] == pytest.approx((2.0 * 1.5 * 1.0 * 1.5) ** 0.25)
    assert report["geomean_with_fallback"] == pytest.approx((2.0 * 1.5) ** (1 / 6))
    assert report["matched"]["geomean_with_fallback"] == pytest.approx((1.8 * 1.5) ** (1 / 6))


def test_report_gives_its_figures_without_loose_problems_too(small_run: Path) -> None:
    report = as_json("report", small_run)
    rest = report["without_loose"]
    assert (report["num_problems"], report["num_loose"], rest["num_problems"]) == (6, 1, 5)
    # Left out is the one that nothing beats.
    assert rest["fast_p"]["1"] == pytest.approx(3 / 5)
    assert rest["fast_p_sure"]["1"] == pytest.approx(1 / 5)
    assert rest["geomean_correct"] == pytest.approx((2.0 * 1.5 * 1.5) ** (1 / 3))
    assert rest["geomean_with_fallback"] == pytest.approx((2.0 * 1.5) ** (1 / 5))
    assert rest["matched"]["geomean_with_fallback"] == pytest.approx((1.8 * 1.5) ** (1 / 5))
    assert rest["matched"]["num_problems"] == 5
    text = " ".join(call("report", small_run).split())
    first, second = text.split("The same without the 1 of which KernelBench's tolerance proves ")
    assert second.startswith("nothing: 5 problems")
    assert "fast_p sure, matched 17% 17%" in first
    assert "fast_p sure, matched 20% 20%" in second


def test_report_says_what_was_verified_and_not_what_the_search_measured(small_run: Path) -> None:
    line = as_json("report", small_run)["problems"][0]
    assert line["speedup"] == 2.0
    assert line["speedup_low"] == pytest.approx(1.9)
    assert line["matched_speedup"] == 1.8
    assert line["own_kernel_share"] == 1.0


def test_report_counts_the_operators_accepted_children(small_run: Path) -> None:
    (sketch,) = as_json("report", small_run)["operators"]
    assert sketch["operator"] == "sketch"
    assert sketch["accepted"] == sketch["attempts"] == 4
    assert sketch["credit"] == pytest.approx(0.2)


def test_report_for_people_puts_the_headline_first_and_states_its_circumstances(
    small_run: Path,
) -> None:
    text = call("report", small_run)
    assert text.startswith("small (finished): 1 of 6 problems surely faster")
    assert "scale small · device Test CPU, 1 thread · referee 1 · noise floor 1.5%" in text
    assert "CPU numbers on reduced sizes are not KernelBench numbers." in text
    assert "because degenerate: 1." in text
    said = "KernelBench's tolerance proves nothing of them: 1 (1/3 Nothing beats it)."
    assert said in " ".join(text.split())
    assert as_json("report", small_run)["num_loose"] == 1
    assert "\n1/5 Too big skipped: needs 3 GB, there are 2 GB\n" in text


def report_text(**changes: object) -> str:
    summary = summarise([Score()], 0.05)
    values: dict[str, object] = {
        "name": "r", "state": "finished", "scale": "small", "device": DEVICE, "noise_floor": 0.05,
        "noisy": False, "referee_version": "1", "counts": RunCounts(), "operators": (),
        "problems": (ProblemReport(problem=PROBLEMS[3], status="none"),),
        "standard": summary, "matched": summary,
    }  # fmt: skip
    out = StringIO()
    print_report(Report(**{**values, **changes}), Console(file=out, width=160))  # type: ignore[arg-type] # one dictionary for all
    return " ".join(out.getvalue().split())


def test_report_says_that_nothing_is_correct() -> None:
    assert "1.00x over all with fallback, no correct candidate yet" in report_text()


@pytest.mark.parametrize(
    ("scale", "sentence"),
    [
        ("small", "CPU numbers on reduced sizes are not KernelBench numbers."),
        ("custom", "CPU numbers are not KernelBench numbers."),
        ("official", "CPU numbers are not KernelBench numbers."),
    ],
)
def test_report_says_what_a_cpu_number_is_not(scale: str, sentence: str) -> None:
    assert sentence in report_text(scale=scale)


def test_report_says_which_precision_a_number_is_of() -> None:
    half = replace(PROBLEMS[3], precision="bf16")
    text = report_text(problems=(ProblemReport(problem=half, status="none"),))
    assert "scale small in bf16 ·" in text
    assert "scale small ·" in report_text()


def test_report_says_how_noisy_the_host_was() -> None:
    text = report_text(noisy=True, counts=RunCounts(evaluations=9, unstable=3))
    assert "too noisy to calibrate: a noise floor of 5% is assumed." in text
    assert "Without a verdict because the host was too noisy: 3." in text
    assert "too noisy" not in report_text()


def test_archive_shows_axes_bins_and_elites(small_run: Path) -> None:
    archive = as_json("archive", small_run, "--id", 1)
    assert [axis["name"] for axis in archive["axes"]] == ["launches", "reuse", "work"]
    assert archive["num_occupied"] == 3
    assert archive["coverage"] == pytest.approx(3 / archive["num_cells"])
    first = archive["elites"][0]
    assert first["operator"] == "tune"
    assert first["speedup"] == 2.0
    assert first["bins"][:2] == ["1", "registers"]
    text = call("archive", small_run, "--id", 1)
    assert f"3 of {archive['num_cells']} cells occupied" in text
    assert "registers: 2 | cache: 0 | library: 1" in text


def test_lineage_goes_back_to_the_sketch(small_run: Path) -> None:
    lineage = as_json("lineage", small_run, best(small_run, 1))
    assert [step["operator"] for step in lineage["steps"]] == ["sketch", "tune"]
    assert lineage["depth"] == 1
    assert lineage["steps"][1]["change"] == "made tuned"
    assert lineage["steps"][1]["gain"] == pytest.approx(2.0 / 1.5)
    text = call("lineage", small_run, best(small_run, 1)[:10])
    assert re.search(r"^tune .*2\.00x \(1\.33 of its best parent\)", text, re.M)
    assert re.search(r"^└─ sketch .*1\.50x", text, re.M)


def test_show_prints_source_and_evaluation(small_run: Path) -> None:
    shown = as_json("show", small_run, best(small_run, 1))
    assert shown["evaluation"]["rung"] == "verify"
    assert shown["evaluation"]["speedup"] == 2.0
    assert [each["purpose"] for each in shown["evaluations"]] == ["search", "verify"]
    assert shown["language"] == "cpp"
    text = call("show", small_run, best(small_run, 1)[:12])
    assert shown["source"].strip() in text
    assert "2.000x, 99 % interval 1.900 to 2.100" in text


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("archive", "RUN"), "several problems that fit"),
        (("archive", "RUN", "--id", "99"), "has no problem with --id 99, it has 1/1, 1/2"),
        (("archive", "RUN", "--id", "1", "--level", "2"), "no problem with --level 2 and --id 1"),
        (("archive", "RUN", "--id", "1", "--island", "7"), "no elites on island 7"),
        (("show", "RUN", "zzzz"), "zzzz"),
        (("lineage", "RUN", "ffffffffffff"), "ffffffffffff"),
    ],
)
def test_what_is_not_there_is_one_sentence(
    small_run: Path, words: tuple[str, ...], sentence: str
) -> None:
    error = call(*(small_run if word == "RUN" else word for word in words), code=2)
    assert sentence in " ".join(error.split())
    assert error.count("\n") == 1
    assert "Traceback" not in error


@pytest.mark.parametrize("command", ["report", "archive", "show", "lineage", "export"])
def test_a_folder_without_a_run_is_one_sentence(tmp_path: Path, command: str) -> None:
    extra: dict[str, list[object]] = {
        "show": ["abc"], "lineage": ["abc"], "export": [tmp_path / "out"],
    }  # fmt: skip
    error = call(command, tmp_path / "none", *extra.get(command, []), code=2)
    assert str(tmp_path / "none") in error
    assert error.count("\n") == 1


def test_problems_lists_and_shows_the_catalogue() -> None:
    listed = as_json("problems", "list")
    assert len(listed) == 100
    assert {"level", "id", "name", "family", "notes"} <= listed[0].keys()
    shown = as_json("problems", "show", "--id", 19, "--scale", "tiny")
    assert (shown["name"], shown["scale"]) == ("ReLU", "tiny")
    assert "class Model(nn.Module)" in shown["source"]
    assert "class Model(nn.Module)" in call("problems", "show", "--id", 23)
    assert "level 1 has no problem 101" in call("problems", "show", "--id", 101, code=2)


def test_numbers_in_json_are_finite(small_run: Path) -> None:
    def walk(data: object) -> None:
        if isinstance(data, dict):
            for value in data.values():
                walk(value)
        elif isinstance(data, list):
            for value in data:
                walk(value)
        elif isinstance(data, float):
            assert math.isfinite(data)

    walk(as_json("report", small_run))
