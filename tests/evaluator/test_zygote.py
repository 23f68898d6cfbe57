import os
import signal
import textwrap
import time
from pathlib import Path

import pytest

from evaluator.processes import descendants
from evaluator.wire import Channel, ChannelClosed
from problems.errors import WorkerTimeout
from tests.evaluator.worker_harness import EMPTY_CANDIDATE, WorkerHandle, ZygoteHarness, probe


def _run(worker: WorkerHandle, body: str, *, timeout_s: float = 30) -> dict[str, object]:
    source = "class ModelNew:\n    def __init__(self):\n        " + body.replace("\n", "\n        ")
    reply = worker.ask("open", timeout_s=timeout_s, source=source, **EMPTY_CANDIDATE)
    assert isinstance(reply, dict)
    return reply


def _assert_serves(zygote: ZygoteHarness) -> None:
    worker = zygote.spawn()
    assert probe(worker, "return 1") == 1
    zygote.kill(worker)


def _wait_until_gone(pids: list[int]) -> None:
    deadline = time.monotonic() + 10
    while any(_alive(pid) for pid in pids):
        assert time.monotonic() < deadline, "a process outlived its worker"
        time.sleep(0.01)


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def _alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in {"Z", "X"}


def test_it_tells_the_cpus_it_may_give_out(zygote: ZygoteHarness) -> None:
    assert zygote.hello["pid"] == zygote.process.pid
    assert set(zygote.hello["cpus"]) == os.sched_getaffinity(0)


def test_it_stays_single_threaded(zygote: ZygoteHarness) -> None:
    zygote.kill(zygote.spawn())
    assert len(os.listdir(f"/proc/{zygote.process.pid}/task")) == 1


def test_a_worker_costs_milliseconds(zygote: ZygoteHarness) -> None:
    zygote.kill(zygote.spawn())
    before = _cpu_s(zygote.process.pid)
    for _ in range(10):
        zygote.kill(zygote.spawn())
    # CPU time, its children's included: the wall depends on what else the machine does.
    assert (_cpu_s(zygote.process.pid) - before) / 10 < 0.1


def test_parallel_regions_run_in_every_worker(zygote: ZygoteHarness) -> None:
    cpus = sorted(os.sched_getaffinity(0))
    body = """
    import os, torch
    total = float((torch.ones(1 << 20) * 2).sum())
    return [total, torch.get_num_threads(), len(os.sched_getaffinity(0))]
    """
    for _ in range(3):
        worker = zygote.spawn(cpus=cpus, threads=2)
        assert probe(worker, body) == [2.0 * (1 << 20), 2, len(cpus)]
        zygote.kill(worker)


@pytest.mark.parametrize(
    ("body", "codes"),
    [
        ("import ctypes; ctypes.string_at(0)", {-signal.SIGSEGV}),
        ("import os; os._exit(0)", {0}),
        ("import os; os._exit(41)", {41}),
        ("import sys; sys.exit(0)", {1}),
        ("import os; os.abort()", {-signal.SIGABRT, -signal.SIGSEGV}),
        ("import os; os.closerange(3, 100)\nwhile True: pass", {-signal.SIGKILL}),
    ],
)
def test_an_early_end_reaches_the_referee(
    zygote: ZygoteHarness, body: str, codes: set[int]
) -> None:
    worker = zygote.spawn()
    with pytest.raises(ChannelClosed):
        _run(worker, body)
    assert zygote.reap(worker, timeout_s=0.2) in codes
    _assert_serves(zygote)


def test_a_hang_costs_a_deadline_and_ends_by_a_kill(zygote: ZygoteHarness) -> None:
    worker = zygote.spawn()
    with pytest.raises(WorkerTimeout):
        _run(
            worker,
            "import signal\nfor n in range(1, 32):\n    pass\nwhile True: pass",
            timeout_s=0.3,
        )
    assert zygote.kill(worker) == -signal.SIGKILL


def test_printing_a_gigabyte_harms_nobody(zygote: ZygoteHarness) -> None:
    worker = zygote.spawn()
    body = "import os, sys\nfor _ in range(1024):\n    os.write(1, bytes(1 << 20))\nprint('x')"
    assert _run(worker, body)["ok"]
    zygote.kill(worker)


def test_a_daemon_dies_with_its_worker(zygote: ZygoteHarness) -> None:
    worker = zygote.spawn()
    body = """
    import os, time
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            time.sleep(600)
        os._exit(0)
    time.sleep(0.2)
    """
    assert _run(worker, textwrap.dedent(body).strip())["ok"]
    members = descendants(worker.pid)
    assert len(members) >= 2
    zygote.kill(worker)
    _wait_until_gone(members)


def test_reaping_tells_a_live_worker_from_a_dead_one(zygote: ZygoteHarness) -> None:
    worker = zygote.spawn()
    request = {"op": "reap", "pid": worker.pid, "timeout_s": 0.05}
    assert zygote.channel.request(request, timeout_s=10)["exit"] is None
    worker.channel.close()
    request["timeout_s"] = 10
    assert zygote.channel.request(request, timeout_s=20)["exit"] == 0
    assert zygote.channel.request(request, timeout_s=20)["exit"] is None


def test_a_wrong_request_is_refused_and_the_next_one_served(zygote: ZygoteHarness) -> None:
    ours, theirs = Channel.pair()
    with ours, theirs:
        spawn = {
            "op": "spawn",
            "role": "candidate",
            "cpus": [0],
            "threads": 1,
            "memory_bytes": 1 << 30,
            "scratch": "/nonexistent/folder",
            "memory": [],
        }
        for change in (
            {"op": "dance"},
            {"role": "referee"},
            {"memory": ["expected"]},
            {"memory": ["inputs"]},
            {"cpus": [4096]},
            {},
        ):
            request = {**spawn, **change}
            reply = zygote.channel.request(request, timeout_s=30, descriptors=[theirs.fileno()])
            assert not reply["ok"], request
            assert reply["log"]
    _assert_serves(zygote)


def test_workers_end_with_their_zygote(tmp_path: Path) -> None:
    zygote = ZygoteHarness(tmp_path)
    worker = zygote.spawn()
    worker.channel.send(
        {
            "op": "open",
            "source": "class ModelNew:\n    def __init__(self):\n        while True: pass",
            **EMPTY_CANDIDATE,
        }
    )
    time.sleep(0.05)
    zygote.process.kill()
    zygote.process.wait()
    _wait_until_gone([worker.pid])
    zygote.channel.close()
    worker.channel.close()


def test_everything_ends_with_the_referee(tmp_path: Path) -> None:
    zygote = ZygoteHarness(tmp_path)
    worker = zygote.spawn()
    zygote.channel.close()
    assert zygote.process.wait(timeout=30) == 0
    _wait_until_gone([worker.pid])
    worker.channel.close()


_WITHOUT_NAMESPACES = """
import runpy
from evaluator.worker import kernel, seccomp
kernel.prctl(38, 1)
assert seccomp.apply(pin_affinity=False)
runpy.run_module("evaluator.worker.zygote", run_name="__main__")
"""


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the filter is for x86-64")
def test_where_namespaces_are_refused_the_next_best_holds(tmp_path: Path) -> None:
    zygote = ZygoteHarness(tmp_path, program=("-c", _WITHOUT_NAMESPACES))
    worker = zygote.spawn()
    held = worker.isolation.split("+")
    assert not {"user", "pid", "net", "mount", "proc", "tmpfs", "nproc"} & set(held)
    assert {"seccomp", "caps", "nnp", "rlimits"} <= set(held)
    daemon = """
    import os, time
    pid = os.fork()
    if pid == 0:
        os.setsid()
        if os.fork() == 0:
            time.sleep(600)
        os._exit(0)
    os.waitpid(pid, 0)
    return open("file", "w").write("scratch")
    """
    assert probe(worker, daemon) == 7
    orphans = set(descendants(zygote.process.pid)) - {zygote.process.pid, worker.pid}
    assert orphans
    assert zygote.kill(worker) == -signal.SIGKILL
    zygote.kill(zygote.spawn())
    _wait_until_gone(list(orphans))
    zygote.close()
