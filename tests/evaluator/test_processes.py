import mmap
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from evaluator.processes import (
    descendants,
    folder_bytes,
    is_halted,
    kill_tree,
    mapping_facts,
    memory_bytes,
    thread_cpu_s,
    tree_memory_bytes,
    worker_environment,
)

_TREE = """
import subprocess, sys, time
held = bytearray(50 << 20)
if len(sys.argv) > 1:
    subprocess.Popen([sys.executable, sys.argv[0], *sys.argv[2:]])
print("up", flush=True)
time.sleep(600)
"""


def test_a_tree_is_found_weighed_and_killed(tmp_path: Path) -> None:
    program = tmp_path / "tree.py"
    program.write_text(_TREE)
    command = [sys.executable, str(program), "1", "1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as root:
        assert root.stdout is not None
        for _ in range(3):
            assert root.stdout.readline() == b"up\n"
        members = descendants(root.pid)
        assert members[0] == root.pid
        assert len(members) == 3
        assert memory_bytes(root.pid) > 50 << 20
        assert tree_memory_bytes(root.pid) > 150 << 20
        kill_tree(root.pid)
        assert root.wait(timeout=10) == -signal.SIGKILL
        deadline = time.monotonic() + 10
        while any(memory_bytes(pid) for pid in members):
            assert time.monotonic() < deadline
            time.sleep(0.01)


def test_a_process_is_halted_once_all_its_threads_stand() -> None:
    program = "import threading, time; threading.Thread(target=time.sleep, args=(60,)).start()"
    with subprocess.Popen([sys.executable, "-c", program]) as process:
        try:
            assert not is_halted(process.pid)
            process.send_signal(signal.SIGSTOP)
            deadline = time.monotonic() + 10
            while not is_halted(process.pid):
                assert time.monotonic() < deadline
                time.sleep(0.001)
            process.send_signal(signal.SIGCONT)
            while is_halted(process.pid):
                assert time.monotonic() < deadline
                time.sleep(0.001)
        finally:
            process.kill()


def test_what_is_gone_counts_nothing() -> None:
    gone = 2**22 - 1
    assert is_halted(gone)
    assert descendants(gone) == [gone]
    assert memory_bytes(gone) == tree_memory_bytes(gone) == 0
    assert thread_cpu_s(gone) == {}
    assert mapping_facts(gone, "inputs").mapped_bytes == 0
    assert folder_bytes(Path("/nonexistent")) == 0
    kill_tree(gone)


def test_writes_to_private_mappings_are_counted_in_pages() -> None:
    file = os.memfd_create("facts")
    os.ftruncate(file, 8 * mmap.PAGESIZE)
    with mmap.mmap(file, 0, flags=mmap.MAP_PRIVATE) as private, mmap.mmap(file, 0) as shared:
        shared[:] = b"x" * len(shared)
        assert private[:] == shared[:]
        facts = mapping_facts(os.getpid(), "facts")
        assert (facts.mapped_bytes, facts.written_bytes) == (16 * mmap.PAGESIZE, 0)
        private[0] = private[5 * mmap.PAGESIZE] = 0
        private[0] = ord("x")
        facts = mapping_facts(os.getpid(), "facts")
        assert facts.written_bytes == 2 * mmap.PAGESIZE
    assert mapping_facts(os.getpid(), "other").mapped_bytes == 0
    os.close(file)


def test_the_time_of_threads_is_counted() -> None:
    start = thread_cpu_s(os.getpid())[os.getpid()]
    deadline = time.process_time() + 0.1
    while time.process_time() < deadline:
        pass
    assert thread_cpu_s(os.getpid())[os.getpid()] - start > 0.05


def test_a_folder_is_weighed_without_following_links(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "file").write_bytes(os.urandom(1 << 20))
    (tmp_path / "loop").symlink_to(tmp_path)
    assert 1 << 20 <= folder_bytes(tmp_path) < 2 << 20


def test_the_environment_of_workers_holds_no_secrets() -> None:
    environment = worker_environment(path="/usr/bin")
    assert environment["PATH"] == "/usr/bin"
    assert environment["OMP_WAIT_POLICY"] == "passive"
    assert not {name for name in environment if "KEY" in name or name.startswith("RAY")}
