"""Candidates under compute-sanitizer: what it says is read, and its sandbox leads nowhere."""

from __future__ import annotations

import os
import socket
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from evaluator.referee.referee import Referee
from evaluator.referee.referee import new_referee as new_cuda_referee
from evaluator.referee.spawner import Spawner, Worker, WorkerPlan
from evaluator.sanitizing import CALLED, MEMCHECK, RACECHECK, Sanitized, read_findings
from evokernel.sanitizing import installed_tool
from tests.evaluator.referee_cases import SOFTMAX, problem_of

TOOL = f"""\
#!{sys.executable}
import socket, subprocess, sys
from pathlib import Path

# The real one talks to the program that it starts by sockets.
server = socket.create_server(("127.0.0.1", 0))
socket.create_connection(server.getsockname()).close()
socket.socketpair()[0].close()
print("========= COMPUTE-SANITIZER", flush=True)
subprocess.run(sys.argv[sys.argv.index("-P") - 1 :])
text = Path("candidate.py").read_text()
bad = f"{{sys.argv[2]}} finds" in text
if bad:
    print("========= Invalid __global__ read of size 4 bytes")
    print("=========     at scale+0x10 in candidate.py:9")
    print("========= Target application returned an error")
    print("========= Error: process didn't terminate successfully")
if sys.argv[2] == "racecheck":
    print(f"========= RACECHECK SUMMARY: {{int(bad)}} hazards displayed")
else:
    print(f"========= ERROR SUMMARY: {{2 * bad}} errors")
    print("========= ERROR SUMMARY: 1 errors were not printed. Use --print-limit")
"""
CANDIDATE = """\
import torch
from torch import nn

class ModelNew(nn.Module):
    def forward(self, x):
        BODY
        return torch.softmax(x, dim=1)
"""
ROWS = problem_of(
    """
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x, y):
        return x.unsqueeze(1) * y


def get_inputs():
    return [torch.rand(1024), torch.rand(1024, 1024)]


def get_init_inputs():
    return []
"""
)
TABLED = problem_of(
    """
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(64, 64)
        self.register_buffer("table", torch.rand(64, 64), persistent=False)

    def forward(self, x):
        return self.linear(x) @ self.table


def get_inputs():
    return [torch.rand(8, 64)]


def get_init_inputs():
    return []
"""
)
PAST_THE_END = """\
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def rows(x, y, out, mark, width: tl.constexpr):
    row = tl.program_id(0)
    at = row * width + tl.arange(0, width)
    tl.store(out + at, tl.load(x + row) * tl.load(y + at))
    tl.store(mark + row, 1.0)


class ModelNew(nn.Module):
    def forward(self, x, y):
        out = torch.empty_like(y)
        mark = torch.empty(len(x) - 1, device=x.device)
        rows[(len(x),)](x, y, out, mark, y.shape[1])
        return out
"""
"""Writes one number past the end of a tensor: torch's allocator has room there, so it is right."""


@pytest.fixture(scope="module")
def tool(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("bin") / "compute-sanitizer"
    path.write_text(TOOL)
    path.chmod(0o755)
    return path


def look(
    referee: Referee, tool: Path, body: str = "pass", check: str = MEMCHECK, add: str = ""
) -> Sanitized:
    return referee.sanitize(SOFTMAX, CANDIDATE.replace("BODY", body) + add, tool, check)


def test_a_candidate_is_called_on_inputs_of_its_problem(referee: Referee, tool: Path) -> None:
    found = look(referee, tool, "assert x.shape == (128, 2048) and x.std() > 0.1")
    assert found == Sanitized(check=MEMCHECK, errors=0), found


def test_a_candidate_s_buffers_have_its_problem_s_precision(referee: Referee, tool: Path) -> None:
    candidate = TABLED.source.replace("class Model(", "class ModelNew(")
    half = replace(TABLED, precision="bf16")
    assert referee.sanitize(half, candidate, tool, MEMCHECK).errors == 0
    wrong = candidate.replace("@ self.table", "@ self.table.float()")
    assert "same dtype" in referee.sanitize(half, wrong, tool, MEMCHECK).log


def test_what_is_found_is_counted_and_told(referee: Referee, tool: Path) -> None:
    found = look(referee, tool, add="# memcheck finds\n")
    assert found.errors == 2
    assert found.log.splitlines() == [
        "Invalid __global__ read of size 4 bytes",
        "at scale+0x10 in candidate.py:9",
    ]
    assert look(referee, tool, check=RACECHECK, add="# racecheck finds\n").errors == 1
    assert look(referee, tool, check=RACECHECK, add="# memcheck finds\n").errors == 0


def test_a_candidate_that_fails_was_not_looked_at(referee: Referee, tool: Path) -> None:
    found = look(referee, tool, "raise ValueError('no such shape')")
    assert found.errors is None
    assert "no such shape" in found.log


def test_a_tool_that_does_not_run_finds_nothing(
    referee: Referee, tool: Path, tmp_path: Path
) -> None:
    broken = tmp_path / "compute-sanitizer"
    broken.write_text("#!/bin/sh\necho Device not supported\nexit 1\n")
    broken.chmod(0o755)
    found = look(referee, broken)
    assert found.errors is None
    assert "Device not supported" in found.log
    found = look(referee, tmp_path / "nowhere")
    assert found.errors is None
    assert "nowhere" in found.log


def test_its_sockets_reach_nobody_outside(referee: Referee, tool: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        body = f"import socket; socket.create_connection(('127.0.0.1', {port}), 2)"
        found = look(referee, tool, body)
    assert found.errors is None
    assert "refused" in found.log, found


def test_it_meets_no_socket_of_the_host_among_its_files(
    referee: Referee, tool: Path, tmp_path: Path
) -> None:
    for place in (tmp_path, Path.home()):
        path = place / f"evokernel-test-{os.getpid()}.sock"
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(path))
            path.chmod(0o777)
            server.listen()
            try:
                body = f"import socket; socket.socket(socket.AF_UNIX).connect({str(path)!r})"
                found = look(referee, tool, body)
            finally:
                path.unlink()
        assert found.errors is None
        assert "No such file" in found.log, found


def test_without_mounts_of_its_own_it_is_not_run(
    referee: Referee, tool: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = Spawner.spawn

    def poor(spawner: Spawner, plan: WorkerPlan) -> Worker:
        worker = whole(spawner, plan)
        worker.isolation = worker.isolation.removesuffix("+sockets")
        return worker

    monkeypatch.setattr(Spawner, "spawn", poor)
    found = look(referee, tool)
    assert found.errors is None
    assert "no mounts of its own" in found.log


def test_its_files_are_out_of_reach(referee: Referee, tool: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("")
    found = look(referee, tool, f"open({str(secret)!r})")
    assert found.errors is None
    assert "Permission" in found.log or "No such file" in found.log, found


@pytest.mark.gpu
def test_a_write_past_the_end_of_a_tensor_is_found_on_a_gpu() -> None:
    tool = installed_tool()
    if tool is None:
        pytest.skip("compute-sanitizer is not installed")
    referee = new_cuda_referee("cuda")
    referee.start()
    try:
        exact = PAST_THE_END.replace("len(x) - 1", "len(x)")
        for source, errors in ((exact, 0), (PAST_THE_END, 1)):
            found = referee.sanitize(ROWS, source, tool, MEMCHECK)
            assert found.errors == errors, found
        assert "write" in found.log
        assert referee.sanitize(ROWS, exact, tool, RACECHECK).errors == 0
    finally:
        referee.close()


@pytest.mark.parametrize(
    ("output", "finished", "errors", "log"),
    [
        (f"{CALLED}\n========= ERROR SUMMARY: 0 errors", True, 0, ""),
        (f"{CALLED}\n========= RACECHECK SUMMARY: 3 hazards displayed", True, 3, ""),
        (f"{CALLED}\n========= ERROR SUMMARY: 0 errors", False, None, "it took too long"),
        ("========= ERROR SUMMARY: 1 error", True, 1, ""),
        ("ImportError: no\n========= ERROR SUMMARY: 0 errors", True, None, "ImportError: no"),
        ("", True, None, ""),
    ],
    ids=["none", "races", "late", "one", "not called", "nothing"],
)
def test_the_summary_counts(output: str, finished: bool, errors: int | None, log: str) -> None:
    found = read_findings(MEMCHECK, output, finished=finished)
    assert (found.errors, found.log) == (errors, log)
