import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from evaluator.processes import descendants, folder_bytes
from tests.evaluator.worker_harness import EMPTY_CANDIDATE, WorkerHandle, ZygoteHarness, probe


class Needs:
    """Skips a test where this machine lacks, and the worker does not claim, a protection."""

    def __init__(self, worker: WorkerHandle) -> None:
        self._held = set(worker.isolation.split("+"))

    def __call__(self, *names: str) -> None:
        if missing := set(names) - self._held:
            pytest.skip(f"no protection of the kind {', '.join(sorted(missing))} here")


@pytest.fixture(scope="module")
def worker(zygote: ZygoteHarness) -> Iterator[WorkerHandle]:
    """One worker for all probes that leave nothing behind."""
    handle = zygote.spawn()
    yield handle
    zygote.kill(handle)


@pytest.fixture
def needs(worker: WorkerHandle) -> Needs:
    return Needs(worker)


def test_some_protection_is_held_everywhere(worker: WorkerHandle) -> None:
    assert {"affinity", "caps", "nnp", "rlimits"} <= set(worker.isolation.split("+"))


@pytest.mark.parametrize(
    "statement",
    [
        "socket.socket(socket.AF_INET, socket.SOCK_DGRAM)",
        "socket.socket(socket.AF_UNIX)",
        "socket.socketpair()",
        "os.memfd_create('x')",
        "os.unshare(0x10000000) if hasattr(os, 'unshare') else call(272, 0x10000000)",
        "call(29, 0, 4096, 0o1600)",
        "call(68, 0, 0o1600)",
        "call(64, 0, 1, 0o1600)",
        "call(101, 0, 0, 0, 0)",
        "call(56, 0x10000000 | 17, 0, 0, 0, 0)",
        "call(435, 0, 0)",
        "call(425, 8, 0)",
        "call(298, 0, 0, 0, 0, 0)",
        "call(310, 1, 0, 0, 0, 0, 0)",
        "call(222, 1, 0, 0)",
        "call(283, 1, 0)",
        "call(165, 0, 0, 0, 0, 0)",
        # A thread for which its parent waits as in vfork keeps a process from being halted.
        "call(56, 0x14900, 0, 0, 0, 0)",
    ],
)
def test_the_filter_refuses_system_calls(
    worker: WorkerHandle, needs: Needs, statement: str
) -> None:
    needs("seccomp")
    body = f"""
    import ctypes, os, socket
    libc = ctypes.CDLL(None, use_errno=True)

    def call(*numbers):
        if libc.syscall(*[ctypes.c_long(n) for n in numbers]) < 0:
            raise OSError(ctypes.get_errno(), "refused")

    try:
        {statement}
    except OSError as error:
        return error.errno
    return 0
    """
    assert probe(worker, body) in {1, 38}  # EPERM, ENOSYS


def test_threads_cannot_leave_their_cpus(worker: WorkerHandle, needs: Needs) -> None:
    needs("seccomp")
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("one CPU only")
    body = """
    import os
    os.sched_setaffinity(0, {0, 1})
    return sorted(os.sched_getaffinity(0))
    """
    assert probe(worker, body) == [0]


def test_files_of_others_cannot_be_read_or_written(
    worker: WorkerHandle, needs: Needs, tmp_path: Path
) -> None:
    needs("landlock")
    secret = tmp_path / "run.db"
    secret.write_text("results")
    secret.chmod(0o666)
    tmp_path.chmod(0o777)
    body = f"""
    import os
    refused = []
    for path, mode in [
        ({str(secret)!r}, "r"),
        ({str(secret)!r}, "w"),
        ({str(tmp_path / "new")!r}, "w"),
        ("/tmp/evokernel-escape", "w"),
        ("/etc/shadow", "r"),
        ("/etc/hostname", "r"),
        ("/dev/shm/evokernel-escape", "w"),
        (os.__file__, "a"),
        ({__file__!r}, "r"),
    ]:
        try:
            open(path, mode).close()
        except OSError:
            refused.append(path)
        else:
            return path
    return len(refused)
    """
    assert probe(worker, body) == 9
    assert secret.read_text() == "results"


def test_its_own_folder_can_be_written_and_is_limited(zygote: ZygoteHarness, needs: Needs) -> None:
    needs("tmpfs")
    worker = zygote.spawn(scratch_bytes=8 << 20)
    body = """
    import os
    assert os.getcwd() == os.environ["HOME"] == os.environ["TMPDIR"]
    written = 0
    try:
        for number in range(100):
            with open(f"file{number}", "wb") as file:
                file.write(bytes(1 << 20))
            written += 1
    except OSError as error:
        return [error.errno, written]
    """
    error, written = probe(worker, body)
    assert error == 28  # ENOSPC
    assert 4 <= written <= 8
    assert folder_bytes(worker.scratch) < 1 << 20
    zygote.kill(worker)
    assert not list(worker.scratch.iterdir())


def test_build_artefacts_outlive_their_worker_and_are_then_read_only(
    zygote: ZygoteHarness, tmp_path: Path, needs: Needs
) -> None:
    needs("landlock")
    build = tmp_path / "private" / "build"
    build.mkdir(parents=True)
    build.parent.chmod(0o700)
    write = """
    import os
    path = os.path.join(os.environ["EVOKERNEL_BUILD_DIR"], "kernel.so")
    try:
        with open(path, "a") as file:
            file.write("x")
    except OSError:
        pass
    try:
        os.remove(path + "2")
    except OSError as error:
        removed = error.errno
    return open(path).read()
    """
    builder = zygote.spawn(build=str(build), build_writable=True)
    assert probe(builder, write) == "x"
    zygote.kill(builder)
    assert folder_bytes(build) > 0
    user = zygote.spawn(build=str(build))
    assert probe(user, write) == "x"
    zygote.kill(user)
    assert (build / "kernel.so").read_text() == "x"


def test_a_build_folder_may_lie_in_the_scratch_folder(
    zygote: ZygoteHarness, tmp_path: Path
) -> None:
    build = tmp_path / "build"
    build.mkdir()
    worker = zygote.spawn(scratch=str(tmp_path), build=str(build), build_writable=True)
    body = """
    import os
    folder = os.environ["EVOKERNEL_BUILD_DIR"]
    open(os.path.join(folder, "a"), "w").close()
    open("b", "w").close()
    return os.path.relpath(folder)
    """
    assert probe(worker, body) == "build"
    zygote.kill(worker)
    assert [path.name for path in build.iterdir()] == ["a"]


def test_other_processes_are_out_of_sight_and_reach(
    zygote: ZygoteHarness, worker: WorkerHandle, needs: Needs
) -> None:
    needs("pid", "proc")
    body = f"""
    import os, signal
    seen = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    outcome = []
    for pid in ({os.getpid()}, {zygote.process.pid}, os.getppid() or {os.getpid()}):
        try:
            os.kill(pid, signal.SIGKILL)
        except OSError:
            outcome.append("refused")
        try:
            open(f"/proc/{{pid}}/environ").read()
        except OSError:
            outcome.append("unreadable")
    return [seen, outcome]
    """
    seen, outcome = probe(worker, body)
    assert seen == [1]
    assert outcome == ["refused", "unreadable"] * 3
    assert zygote.process.poll() is None


def test_the_network_is_empty(worker: WorkerHandle, needs: Needs) -> None:
    needs("net", "proc")
    body = 'return [line.split(":")[0].strip() for line in open("/proc/net/dev")][2:]'
    assert probe(worker, body) == ["lo"]


def test_privileges_are_gone_for_good(worker: WorkerHandle, needs: Needs) -> None:
    body = """
    import os
    lines = dict(line.split(":", 1) for line in open("/proc/self/status"))
    names = ("CapEff", "CapPrm", "CapBnd", "NoNewPrivs")
    return [[int(lines[name], 16) for name in names], os.getuid()]
    """
    (effective, permitted, bounding, no_new), user = probe(worker, body)
    reading_only = 1 << 2  # CAP_DAC_READ_SEARCH
    assert effective | permitted <= reading_only
    if os.geteuid() == 0:
        assert bounding <= reading_only
    assert no_new == 1
    if "uid" in worker.isolation.split("+"):
        assert user != os.getuid()
        assert Path(f"/proc/{worker.pid}").stat().st_uid >= 1_000_000_000


def test_the_environment_is_an_allow_list(worker: WorkerHandle) -> None:
    names = set(probe(worker, "import os; return list(os.environ)"))
    assert names <= {
        "EVOKERNEL_BUILD_DIR",
        "GLIBC_TUNABLES",
        "HOME",
        "LANG",
        "LC_CTYPE",
        "MALLOC_MMAP_MAX_",
        "MALLOC_TOP_PAD_",
        "MALLOC_TRIM_THRESHOLD_",
        "MKL_NUM_THREADS",
        "OMP_NUM_THREADS",
        "OMP_PROC_BIND",
        "OMP_WAIT_POLICY",
        "OPENBLAS_NUM_THREADS",
        "PATH",
        "PYTHONDONTWRITEBYTECODE",
        "PYTHONHASHSEED",
        "TMPDIR",
    } | {name for name in names if name.startswith(("TORCH", "KMP", "PYTORCH"))}


def test_nothing_but_the_channel_is_open(worker: WorkerHandle) -> None:
    body = """
    import os
    links = []
    for number in os.listdir("/proc/self/fd"):
        try:
            links.append(os.readlink(f"/proc/self/fd/{number}"))
        except OSError:
            pass
    return links
    """
    links = probe(worker, body)
    assert links.count("/dev/null") == 3
    others = [link for link in links if link != "/dev/null" and not link.startswith("/proc/")]
    assert len(others) == 1
    assert others[0].startswith("socket:")


def test_processes_are_limited_and_end_with_the_worker(zygote: ZygoteHarness, needs: Needs) -> None:
    needs("pid", "nproc")
    worker = zygote.spawn()
    body = """
    import os, time
    number = 0
    try:
        while number < 1000:
            if os.fork() == 0:
                os.setsid()
                time.sleep(600)
            number += 1
    except OSError:
        pass
    return number
    """
    assert probe(worker, body) <= 80
    members = descendants(worker.pid)
    assert len(members) > 20
    assert zygote.kill(worker) == -9
    deadline = time.monotonic() + 5
    while any(Path(f"/proc/{pid}").exists() for pid in members):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_memory_beyond_the_limit_is_refused(zygote: ZygoteHarness, needs: Needs) -> None:
    needs("as")
    worker = zygote.spawn(memory_bytes=1 << 30)
    for body in ("return len(bytearray(100 << 30))", "import torch\nreturn torch.empty(100 << 30)"):
        source = "def probe():\n    " + body.replace("\n", "\n    ")
        source += "\n\nclass ModelNew:\n    def __init__(self):\n        probe()\n"
        reply = worker.ask("open", source=source, **EMPTY_CANDIDATE)
        assert (reply["status"], reply["reason"]) == ("OUT_OF_MEMORY", "allocation_failed")
    assert probe(worker, "return len(bytearray(100 << 20))") == 100 << 20
    zygote.kill(worker)


def test_the_compiler_works_inside(zygote: ZygoteHarness, tmp_path: Path) -> None:
    worker = zygote.spawn(build=str(tmp_path), build_writable=True)
    body = """
    import ctypes, os, subprocess
    path = os.path.join(os.environ["EVOKERNEL_BUILD_DIR"], "f.so")
    subprocess.run(
        ["g++", "-shared", "-fopenmp", "-O2", "-x", "c++", "-", "-o", path],
        input=chr(10).join([
            'extern "C" int f() {',
            "int n = 0;",
            "#pragma omp parallel reduction(+:n)",
            "n += 1; return n; }",
        ]),
        text=True, check=True,
    )
    return ctypes.CDLL(path).f()
    """
    assert probe(worker, body) == 1
    zygote.kill(worker)
