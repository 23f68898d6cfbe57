"""Commands that ask a model, or tell what asking would cost: run --llm, --replay, ask."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import evaluator.referee.cuda.device
import evokernel.verdict
from archives.evaluation import Evaluation, KernelFacts
from archives.export import canonical_export
from archives.store import Store
from problems.problem import Problem
from tests.evokernel import landscape as world
from tests.evokernel import talk
from tests.evokernel.gpu_landscape import GpuLandscape
from tests.evokernel.test_cli_run import OPERATORS, invoke, start
from tests.scripted_llm import Reply, Request, ScriptedServer, fenced

SOFTMAX = (Path(__file__).parents[1] / "evaluator/honest/cpp_softmax.py").read_text()


@pytest.fixture
def problem_file(tmp_path: Path) -> Path:
    file = tmp_path / "valley.py"
    file.write_text(world.problem(1).source)
    return file


def test_one_flag_makes_a_model_a_source_and_replay_repeats_the_run(
    tmp_path: Path, problem_file: Path
) -> None:
    def reply(request: Request) -> Reply:
        return Reply(text=talk.any_point("", request.prompt))

    first, second = tmp_path / "first", tmp_path / "second"
    with ScriptedServer(reply) as server:
        process = start(
            "run",
            *("--problem-file", str(problem_file), "--generations", "3", "--run", str(first)),
            *("--set", OPERATORS, "--llm", "openai/scripted"),
            *("--set", f"llm.api_base={server.url}"),
        )
        out, err = process.communicate(timeout=120)
        assert process.returncode == 0, err
        asked = len(server.requests)
        assert asked > 5
    assert err.count("the price of the model 'openai/scripted' is not known") == 1
    assert "llm.mutate" in out
    replay = start("run", "--replay", str(first), "--run", str(second))
    out, err = replay.communicate(timeout=60)
    assert replay.returncode == 0, err
    with Store.open(first) as old, Store.open(second) as new:
        assert canonical_export(new) == canonical_export(old)
        assert len(new.calls()) == len(old.calls()) == asked


def test_a_dry_run_estimates_calls_and_cost_without_a_key(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.chdir(tmp_path)
    arguments = ("run", "--level", "1", "--problems", "23", "--dry-run", "--llm", "openai/gpt-4o")
    done = invoke(*arguments)
    assert done.exit_code == 0
    assert "models       openai/gpt-4o" in done.stdout
    for word in ("calls        about", "tokens       about", "cost         about $"):
        assert word in done.stdout
    assert "OPENAI_API_KEY" in done.stderr
    limited = invoke(*arguments, "--max-cost", "0.5")
    assert "at most $0.50" in limited.stdout
    local = invoke(*arguments[:-1], "openai/mine", "--set", "llm.api_base=http://127.0.0.1:9/v1")
    assert "cost         unknown" in local.stdout


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["run", "--level", "1", "--llm", "openai/gpt-4o"], ["has no key", "OPENAI_API_KEY"]),
        (["run", "--level", "1", "--llm", "gpt-of-mine"], ["provider", "is not known"]),
        (
            [
                *("run", "--level", "1", "--llm", "openai/mine", "--max-cost", "3"),
                *("--set", "llm.api_base=http://127.0.0.1:9/v1"),
            ],
            ["price of the model 'openai/mine' is not known", "--set llm.input_price_usd"],
        ),
        (["run", "--level", "1", "--max-cost", "0"], ["llm.max_cost_usd", "more than 0"]),
        (["run", "--replay", "/nowhere"], ["/nowhere"]),
        (["run", "--replay", "a", "--dry-run", "--level", "1"], ["leave out --dry-run, --level"]),
        (
            ["run", "--level", "1", "--dry-run", "--set", "evaluation.baseline=typo.json"],
            ["typo.json", "cannot be read"],
        ),
        (["ask", "--llm", "openai/gpt-4o"], ["--level and --id"]),
        (["ask", "--llm", "x/y", "--level", "1", "--id", "23", "--parent", "ab"], ["--run"]),
        (["ask", "--llm", "x/y", "--level", "1", "--id", "23", "--operator", "mutat"], ["mutate"]),
    ],
)
def test_a_users_mistake_is_one_sentence(
    arguments: list[str], parts: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.chdir(tmp_path)
    done = invoke(*arguments)
    assert done.exit_code == 2
    assert done.stdout == ""
    assert done.stderr.startswith("evokernel: ")
    assert done.stderr.count("\n") == 1
    for part in parts:
        assert part in done.stderr


def test_ask_prints_the_prompt_and_sends_nothing() -> None:
    done = invoke("ask", "--level", "1", "--id", "23", "--scale", "tiny", "--llm", "openai/gpt-4o")
    assert done.exit_code == 0, done.stderr
    assert "## The problem: 1/23 Softmax" in done.stdout
    assert "## Your task: a first kernel" in done.stdout
    assert "nothing was sent" in done.stderr


def test_ask_sends_measures_and_shows_what_came_of_it() -> None:
    with ScriptedServer(lambda _: Reply(text=fenced(SOFTMAX))) as server:
        done = invoke(
            *("ask", "--level", "1", "--id", "23", "--scale", "tiny", "--llm", "openai/scripted"),
            *("--set", f"llm.api_base={server.url}", "--send", "--json"),
        )
    assert done.exit_code == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["exchanges"][0]["outcome"] == "ok"
    assert found["exchanges"][0]["messages"][0]["role"] == "system"
    assert found["source"].strip() == SOFTMAX.strip()
    assert found["evaluation"]["status"] in ("OK", "UNSTABLE")


def test_a_question_about_a_gpus_run_is_answered_for_that_gpu(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    config = world.config("search.generations=0")
    with world.new_store(tmp_path / "run", config, 1) as store:
        world.sit(store, config, GpuLandscape())
    measured_on: list[str] = []

    async def judge_once(problem: Problem, source: str, *, device: str) -> Evaluation:
        measured_on.append(device)
        return world.fit(2.0, KernelFacts())

    monkeypatch.setattr(evokernel.verdict, "judge_once", judge_once)
    with ScriptedServer(lambda request: Reply(text=talk.any_point("", request.prompt))) as server:
        words = (
            *("ask", "--run", str(tmp_path / "run"), "--id", "1", "--llm", "openai/scripted"),
            *("--set", f"llm.api_base={server.url}"),
        )
        shown = invoke(*words)
        assert "On NVIDIA H200" in shown.stdout
        assert "rates that were measured on this very device" in shown.stdout
        absent = invoke(*words, "--send")
        assert absent.exit_code == 2
        assert "no NVIDIA GPU was found" in absent.stderr
        assert not server.requests, "what could not be measured is not paid for"
        monkeypatch.setattr(evaluator.referee.cuda.device, "gpu_count", lambda: 1)
        sent = invoke(*words, "--send")
        assert sent.exit_code == 0, sent.stderr
    assert len(server.requests) == 1
    assert measured_on == ["cuda"]
