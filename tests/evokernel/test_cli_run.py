from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

import evaluator.cluster
import evaluator.pool
from archives.records import RunState
from archives.store import Store
from evaluator.processes import descendants
from evaluator.referee.deadlines import Deadlines
from evokernel.cli.main import COMMANDS, build_app
from problems.errors import StoreError
from tests.evokernel import landscape as world

ROOT = Path(__file__).parents[2]
WITH_LANDSCAPE = """
import sys
import evaluator.pool
from tests.evokernel.landscape import Landscape, broken_problem

evaluator.pool.Pool = lambda **options: Landscape(delay_s={delay_s}, verdict={verdict})
from evokernel.cli.main import main

main()
"""
OPERATORS = 'operators.use=["tests.evokernel.landscape:START", "tune", "splice"]'


def invoke(*arguments: str) -> Result:
    """A command in this process, for what ends before anything is measured."""
    return CliRunner().invoke(build_app(arguments[0]), list(arguments))


def start(*arguments: str, delay_s: float = 0.0, complaint: str = "") -> subprocess.Popen[str]:
    """The real command line, with the landscape in place of the pool."""
    verdict = f"broken_problem({complaint!r})" if complaint else None
    code = WITH_LANDSCAPE.format(delay_s=delay_s, verdict=verdict)
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


@pytest.fixture
def problem_file(tmp_path: Path) -> Path:
    file = tmp_path / "valley.py"
    file.write_text(world.problem(1).source)
    return file


def test_a_run_ends_with_the_report_on_stdout_and_its_story_on_stderr(
    tmp_path: Path, problem_file: Path
) -> None:
    folder = tmp_path / "run"
    arguments = ["--problem-file", str(problem_file), "--generations", "2", "--run", str(folder)]
    process = start("run", *arguments, "--set", OPERATORS)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert "fast_p" in out
    assert "valley" in out
    assert str(folder) in err
    again = start("run", *arguments)
    out, err = again.communicate(timeout=60)
    assert again.returncode == 2
    assert out == ""
    assert str(folder) in err
    assert "Traceback" not in err


def test_ctrl_c_stops_cleanly_and_says_how_to_go_on(tmp_path: Path, problem_file: Path) -> None:
    folder = tmp_path / "run"
    process = start(
        "run",
        *("--problem-file", str(problem_file), "--generations", "8", "--run", str(folder)),
        *("--set", OPERATORS),
        delay_s=0.05,
    )
    deadline = time.monotonic() + 40
    while _evaluations(folder) < 5:
        assert time.monotonic() < deadline
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert f"evokernel resume {folder}" in err
    assert "Traceback" not in err
    with Store.open(folder) as store:
        assert store.run().state is RunState.STOPPED
    resumed = start("resume", str(folder))
    out, err = resumed.communicate(timeout=60)
    assert resumed.returncode == 0, err
    assert "fast_p" in out
    with Store.open(folder) as store:
        assert store.run().state is RunState.FINISHED


def test_ctrl_c_stops_a_verification_in_one_sentence(tmp_path: Path, problem_file: Path) -> None:
    """While the process that starts workers comes up; a terminal tells that one too."""
    folder = tmp_path / "run"
    arguments = ["--problem-file", str(problem_file), "--generations", "1", "--run", str(folder)]
    first = start("run", *arguments, "--set", OPERATORS)
    first.communicate(timeout=60)
    command = [sys.executable, "-m", "evokernel.cli.main", "verify", str(folder)]
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, cwd=ROOT, process_group=0
    ) as process:
        deadline = time.monotonic() + 60
        while len(descendants(process.pid)) < 2:
            assert time.monotonic() < deadline
            assert process.poll() is None
            time.sleep(0.02)
        time.sleep(0.3)
        os.killpg(process.pid, signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err.startswith("evokernel: stopped")
    assert len(err.splitlines()) == 1, err


def test_a_run_measures_on_the_cluster_of_its_address_until_it_is_resumed_elsewhere(
    tmp_path: Path, problem_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pools: list[tuple[object, ...]] = []

    def pool(**options: object) -> world.Landscape:
        names = ("device", "address", "num_actors", "calibrate")
        deadlines = options["deadlines"]
        assert isinstance(deadlines, Deadlines)
        assert deadlines.check_s == 7.0
        pools.append(tuple(options[name] for name in names))
        return world.Landscape()

    monkeypatch.setattr(evaluator.cluster, "num_gpus_at", lambda address: 0)
    monkeypatch.setattr(evaluator.pool, "Pool", pool)
    folder = str(tmp_path / "run")
    on_a, on_b = ("--ray-address", "10.0.0.1:6379"), ("--ray-address", "10.0.0.2:6379")
    asked = ("--problem-file", str(problem_file), "--generations", "0", "--run", folder)
    for command in (
        ("run", *asked, "--set", OPERATORS, "--set", "evaluation.check_s=7", *on_a),
        ("resume", folder, "--generations", "1"),
        ("resume", folder, "--generations", "2", "--ray-address", "local"),
        ("verify", folder, *on_b),
    ):
        done = invoke(*command)
        assert done.exit_code == 0, done.output
    assert pools == [
        ("cpu", "10.0.0.1:6379", 1, True),
        ("cpu", "10.0.0.1:6379", 1, False),
        ("cpu", "local", 1, False),
        ("cpu", "10.0.0.2:6379", 1, False),
    ]
    refused = invoke("verify", folder, "--sanitize", *on_b)
    assert refused.exit_code == 2
    assert "leave out --ray-address" in refused.stderr


def test_a_seed_given_to_a_finished_run_is_evaluated_at_once(
    tmp_path: Path, problem_file: Path
) -> None:
    folder = tmp_path / "run"
    kernel = tmp_path / "mine.py"
    kernel.write_text(world.PROGRAM)
    process = start(
        "run",
        *("--problem-file", str(problem_file), "--generations", "0", "--run", str(folder)),
        *("--set", OPERATORS),
    )
    process.communicate(timeout=60)
    assert process.returncode == 0
    seeding = start("seed", str(folder), str(kernel), "--level", "0", "--id", "1")
    out, err = seeding.communicate(timeout=60)
    assert seeding.returncode == 0, err
    assert "mine.py is a seed of problem 0/1 valley" in err
    assert "fast_p" in out
    with Store.open(folder) as store:
        assert [a.note for a in store.attempts() if a.operator == "seed"] == ["reference", "mine"]


def test_a_dry_run_prints_the_plan_and_writes_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    done = invoke(
        "run",
        *("--level", "1", "--problems", "1,19-25", "--preset", "demo"),
        *("--run", str(folder), "--dry-run"),
    )
    assert done.exit_code == 0
    assert "problems     8 at small scale" in done.stdout
    for word in ("attempts", "evaluations", "bytes"):
        assert word in done.stdout
    assert not folder.exists()


def test_a_dry_run_says_of_which_figures_the_founding_is_left_out() -> None:
    asked = ("run", "--level", "1", "--problems", "19", "--set", "search.founding=true")
    lines = {line.split()[0]: line for line in invoke(*asked, "--dry-run").stdout.splitlines()}
    for name in ("attempts", "evaluations", "store"):
        assert "those of the founding not counted" in lines[name]
    limited = invoke(*asked, "--max-evaluations", "500", "--dry-run").stdout
    assert "evaluations  at most 500, and" in limited


def test_a_dry_run_names_its_problems() -> None:
    few = invoke("run", "--level", "1", "--problems", "19,23", "--dry-run").stdout
    assert "2 at small scale, on the CPU: 1/19 ReLU, 1/23 Softmax\n" in few
    many = invoke("run", "--level", "1", "--dry-run").stdout
    assert many.splitlines()[0].endswith(" and 92 more")


def test_a_spent_budget_says_which_option_goes_on(tmp_path: Path, problem_file: Path) -> None:
    folder = tmp_path / "run"
    process = start(
        "run",
        *("--problem-file", str(problem_file), "--generations", "1", "--run", str(folder)),
        *("--set", OPERATORS, "--max-evaluations", "3"),
    )
    _, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert f"go on with: evokernel resume {folder} --max-evaluations 6" in err
    resumed = start("resume", str(folder), "--max-evaluations", "500")
    _, err = resumed.communicate(timeout=60)
    assert resumed.returncode == 0, err
    assert "go on with" not in err
    with Store.open(folder) as store:
        assert store.run().state is RunState.FINISHED


def test_a_run_in_which_every_problem_is_skipped_is_the_users_mistake(
    tmp_path: Path, problem_file: Path
) -> None:
    arguments = ("--problem-file", str(problem_file), "--run", str(tmp_path / "run"))
    process = start("run", *arguments, complaint="problem 0/1 valley fails in step 'open': no")
    out, err = process.communicate(timeout=60)
    assert process.returncode == 2
    assert out == ""
    assert f"skipped 0/1 valley: {problem_file}: fails in step 'open': no\n" in err
    assert err.splitlines()[-1].endswith("the reasons are above")


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["run"], ["name a level with --level 1"]),
        (["run", "--level", "1", "--device", "cuda"], ["no NVIDIA GPU was found"]),
        (["run", "--level", "1", "--device", "gpu"], ["auto, cpu, cuda"]),
        (
            ["run", "--level", "1", "--ray-address", "127.0.0.1:1"],
            ["no Ray cluster answers at 127.0.0.1:1", "'ray start --head'"],
        ),
        (["run", "--level", "1", "--scale", "smal"], ["did you mean 'small'?"]),
        (["run", "--level", "1", "--preset", "dem"], ["did you mean 'demo'?"]),
        (["run", "--level", "1", "--problems", "0"], ["expected ids from 1"]),
        (["run", "--level", "1", "--generations", "-1"], ["at least 0, the nearest is 0"]),
        (["run", "--level", "1", "--set", "search.island=2"], ["'search.islands'"]),
        (["run", "--level", "1", "--max-evaluations", "0"], ["at least 1"]),
        (["run", "--problem-file", "/nowhere.py"], ["/nowhere.py"]),
        (["run", "--level", "1", "--source", "/nowhere"], ["/nowhere"]),
        (["run", "--level", "1", "--from", "/nowhere"], ["/nowhere"]),
        (["run", "--problem-file", "x.py", "--scale", "tiny"], ["states its own sizes"]),
        (
            ["run", "--level", "1", "--set", "operators.settings.sketch.configs=3"],
            ["operators.settings.sketch.configs", "did you mean 'configurations'"],
        ),
        (["resume", "/nowhere"], ["/nowhere"]),
        (["seed", "/nowhere", "/nowhere.py", "--level", "1", "--id", "1"], ["/nowhere.py"]),
    ],
)
def test_a_users_mistake_is_one_sentence_and_exit_code_2(
    arguments: list[str], parts: list[str]
) -> None:
    done = invoke(*arguments)
    assert done.exit_code == 2
    assert done.stdout == ""
    assert done.stderr.startswith("evokernel: ")
    assert done.stderr.count("\n") == 1
    for part in parts:
        assert part in done.stderr


@pytest.mark.parametrize("name", [name for name, _ in COMMANDS])
def test_every_option_of_every_command_is_documented(name: str) -> None:
    done = CliRunner(env={"COLUMNS": "200", "TERM": "dumb"}).invoke(
        build_app(name), [name, "--help"]
    )
    assert done.exit_code == 0
    rows = [line for line in done.stdout.splitlines() if "--" in line and line.startswith("│")]
    for row in rows:
        words = row.strip("│ ").split("  ")
        assert len([word for word in words if word.strip()]) >= 2, row


def test_version_is_printed() -> None:
    done = CliRunner().invoke(build_app("run"), ["--version"])
    assert done.exit_code == 0
    assert done.stdout.startswith("evokernel 0.")


def test_a_foreign_module_of_the_same_name_is_refused(tmp_path: Path) -> None:
    (tmp_path / "evaluator.py").write_text("")
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "from evokernel.siblings import check_siblings\n"
        "from problems.errors import ConfigError\n"
        "try:\n    check_siblings()\nexcept ConfigError as error:\n    print(error)"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True
    )
    assert "'evaluator' resolves to" in done.stdout
    assert "rename" in done.stdout


def _evaluations(folder: Path) -> int:
    if not (folder / "run.db").exists():
        return 0
    try:
        with Store.open(folder) as store:
            return store.counts().evaluations
    except StoreError:
        return 0
