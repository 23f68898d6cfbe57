"""Exported files: they run without EvoKernel and guard their inputs."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from evokernel.cli.main import build_app
from evokernel.standalone import standalone
from tests.evokernel.conftest import DEVICE, GRAPH, KERNEL, PROBLEMS, evaluation

CHECK = """\
import importlib.util, json, sys

for name in ("archives", "evaluator", "evokernel", "operators", "problems"):
    sys.modules[name] = None  # importing one of them would fail
import torch

spec = importlib.util.spec_from_file_location("exported", sys.argv[1])
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
model = module.ModelNew(2)
x = torch.tensor([[-1.0, 2.0, 3.0, -4.0, 5.0, 6.0, 7.0, 8.0]])
found = {"states": sorted(model.state_dict())}
with torch.no_grad():
    model.weight.fill_(3.0)
    found["right"] = torch.equal(model(x), torch.relu(x) * 3.0)
    others = {
        "shape": (x.repeat(5, 1),), "dtype": (x.double(),), "device": (x.to("meta"),),
        "number": (x, x), "kind": (1.0,),
    }
    for name, inputs in others.items():
        try:
            found[name] = torch.equal(model(*inputs), torch.relu(inputs[0]) * 3.0)
        except (ValueError, TypeError, RuntimeError) as error:
            found[name] = f"{type(error).__name__}: {error}"
found["states_after"] = sorted(model.state_dict())
print(json.dumps(found))
"""


def export(run: Path, folder: Path, *options: str) -> dict[str, list[dict[str, Any]]]:
    app = build_app("export")
    result = CliRunner().invoke(app, ["export", str(run), str(folder), *options, "--json"])
    assert result.exit_code == 0, result.output
    data: dict[str, list[dict[str, Any]]] = json.loads(result.stdout)
    return data


def run_alone(path: Path, tmp_path: Path) -> dict[str, object]:
    script = tmp_path / "check.py"
    script.write_text(CHECK)
    done = subprocess.run(
        [sys.executable, "-P", str(script), str(path)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, object] = json.loads(done.stdout)
    return found


def test_a_file_for_each_problem_with_a_faster_kernel(small_run: Path, tmp_path: Path) -> None:
    data = export(small_run, tmp_path)
    assert [each["path"] for each in data["exported"]] == [
        str(tmp_path / "level1" / name)
        for name in ("1_Verified_kernel.py", "2_Searched_only.py", "7_A_library_call.py")
    ]
    assert {each["id"]: each["reason"] for each in data["left_out"]} == {
        3: "nothing beats the reference",
        4: "no correct candidate was found",
        5: "no correct candidate was found",
        6: "no correct candidate was found",
    }
    text = (tmp_path / "level1/1_Verified_kernel.py").read_text()
    assert text.startswith("# 1/1 Verified kernel, small scale: a kernel found by EvoKernel.\n")
    assert "# 2.00x (99 % interval 1.90 to 2.10)" in text
    assert "Test CPU, 1 thread (torch 2.13.0)" in text


def test_an_exported_kernel_runs_alone_and_refuses_other_inputs(
    small_run: Path, tmp_path: Path
) -> None:
    export(small_run, tmp_path)
    found = run_alone(tmp_path / "level1/1_Verified_kernel.py", tmp_path)
    assert found["right"] is True
    assert found["states"] == found["states_after"] == ["weight"]
    for name, sentence in {
        "shape": "input 0 has shape (5, 8), expected (1, 8)",
        "dtype": "input 0 has dtype torch.float64, expected torch.float32",
        "device": "input 0 has device meta, expected cpu",
        "number": "got 2 inputs, expected 1",
        "kind": "input 0 is a float, expected a tensor",
    }.items():
        assert str(found[name]).startswith("ValueError: this kernel does not fit: " + sentence)


def test_with_the_fallback_other_inputs_go_to_the_reference_with_the_same_weights(
    small_run: Path, tmp_path: Path
) -> None:
    export(small_run, tmp_path, "--fallback")
    found = run_alone(tmp_path / "level1/1_Verified_kernel.py", tmp_path)
    assert found["right"] is True
    assert found["shape"] is True
    assert found["dtype"] is True
    assert found["states"] == found["states_after"] == ["weight"]


def test_nothing_is_overwritten(small_run: Path, tmp_path: Path) -> None:
    export(small_run, tmp_path)
    result = CliRunner().invoke(build_app("export"), ["export", str(small_run), str(tmp_path)])
    assert result.exit_code == 2
    assert "1_Verified_kernel.py exists and is never overwritten" in " ".join(result.stderr.split())


@pytest.mark.parametrize("place", ["file", "file/below"])
def test_a_folder_that_cannot_be_made_is_one_sentence(
    small_run: Path, tmp_path: Path, place: str
) -> None:
    (tmp_path / "file").write_text("")
    result = CliRunner().invoke(
        build_app("export"), ["export", str(small_run), str(tmp_path / place)]
    )
    assert result.exit_code == 2
    assert result.stderr.startswith("evokernel: cannot write")


def test_a_gpus_kernel_says_what_it_beats_and_how_much_is_left() -> None:
    gpu = dataclasses.replace(DEVICE, kind="cuda", name="NVIDIA H200", threads=0)
    known = dataclasses.replace(
        evaluation(2.0, verified=True, matched=1.5), device=gpu, roofline_share=0.834
    )
    text = standalone(PROBLEMS[0], KERNEL, known, GRAPH)
    head = [line for line in text.splitlines() if line.startswith("# ")]
    assert any(line.startswith("# 1.50x against the fastest PyTorch setting") for line in head)
    assert "# 83% of what the device was measured to allow." in head
    compile(text, "exported.py", "exec")
    on_cpu = standalone(PROBLEMS[0], KERNEL, evaluation(2.0, verified=True), GRAPH)
    assert "fastest PyTorch setting" not in on_cpu
