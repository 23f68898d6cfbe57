import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from archives.records import FORMAT_VERSION, RunRecord, RunState
from archives.store import Store
from problems.errors import StoreError
from problems.problem import Problem, Scale

RUN = RunRecord(name="demo", created="now", config_json="{}", rng_seed=1, scale="tiny")
P = Problem(level=1, id=1, name="P", family="f", scale=Scale.TINY, source="class Model: ...\n")


def python(code: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    folder = tmp_path / "run"
    with Store.create(folder, RUN) as store:
        store.add_problems([P])
    return folder


def test_a_folder_in_use_is_never_overwritten(run: Path, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="exists already"):
        Store.create(run, RUN)
    other = tmp_path / "other"
    other.mkdir()
    (other / "notes.txt").write_text("mine")
    with pytest.raises(StoreError, match="not empty"):
        Store.create(other, RUN)
    assert (other / "notes.txt").read_text() == "mine"


def test_a_folder_that_is_no_run_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="nowhere does not exist"):
        Store.open(tmp_path / "nowhere")
    with pytest.raises(StoreError, match=r"holds no run \(expected run.db in it\)"):
        Store.open(tmp_path)
    (tmp_path / "run.db").touch()
    with pytest.raises(StoreError, match="is a file: name the folder of the run"):
        Store.open(tmp_path / "run.db")


def test_a_second_engine_is_refused_and_told_who_holds_the_run(run: Path) -> None:
    with Store.open(run, write=True):
        with pytest.raises(StoreError, match=rf"another engine \(process {os.getpid()}\)"):
            Store.open(run, write=True)
        code = """
            import sys, pathlib
            from archives.store import Store
            Store.open(pathlib.Path(sys.argv[1]), write=True)
        """
        assert f"another engine (process {os.getpid()})" in python(code, run).stderr
    Store.open(run, write=True).close()


def test_a_killed_engine_leaves_no_lock(run: Path) -> None:
    code = """
        import os, sys, pathlib
        from archives.store import Store
        store = Store.open(pathlib.Path(sys.argv[1]), write=True)
        os.kill(os.getpid(), 9)
    """
    assert python(code, run).returncode == -9
    Store.open(run, write=True).close()


def test_readers_see_each_commit_of_a_living_engine(run: Path) -> None:
    with Store.open(run, write=True) as engine, Store.open(run) as reader:
        engine.set_state(RunState.STOPPED)
        assert reader.run().state is RunState.STOPPED
        engine.skip_problem(P.key, "too large")
        assert reader.problem_states()[0].reason == "too large"


def test_a_reader_cannot_write(run: Path) -> None:
    with Store.open(run) as reader, pytest.raises(StoreError, match="for reading only"):
        reader.set_state(RunState.FINISHED)


def test_a_seed_can_be_left_by_another_process_beside_the_engine(run: Path) -> None:
    code = """
        import sys, pathlib
        from archives.store import Store
        with Store.open(pathlib.Path(sys.argv[1])) as guest:
            guest.request_seed(sys.argv[2], "mine.py", "x = 1")
    """
    with Store.open(run, write=True) as engine:
        assert python(code, run, P.key).returncode == 0
        assert [seed.name for seed in engine.take_seeds(P.key, 0)] == ["mine.py"]


def test_a_database_that_stays_locked_is_said_to_be(run: Path) -> None:
    holder = sqlite3.connect(run / "run.db", isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    try:
        with (
            Store.open(run, write=True, busy_timeout_s=0.05) as store,
            pytest.raises(StoreError, match="stayed locked by another process"),
        ):
            store.set_state(RunState.FINISHED)
    finally:
        holder.close()


def test_a_store_goes_on_after_a_transaction_that_failed(run: Path) -> None:
    holder = sqlite3.connect(run / "run.db", isolation_level=None)
    with Store.open(run, write=True, busy_timeout_s=0.05) as store:
        store.set_state(RunState.RUNNING)
        holder.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreError, match="stayed locked by another process"):
            store.set_state(RunState.FINISHED)
        holder.close()
        with pytest.raises(StoreError, match="no problem with the key"):
            store.skip_problem("elsewhere", "nothing of this may stay")
        store.set_state(RunState.STOPPED)
        with Store.open(run) as reader:
            assert reader.run().state is RunState.STOPPED


@pytest.mark.parametrize(("version", "age"), [(FORMAT_VERSION + 1, "newer"), (0, "older")])
def test_an_unknown_format_is_refused_untouched(run: Path, version: int, age: str) -> None:
    database = sqlite3.connect(run / "run.db")
    with database:
        database.execute("UPDATE run SET format_version = ?", (version,))
    database.close()
    before = (run / "run.db").read_bytes()
    for write in (False, True):
        with pytest.raises(StoreError, match=rf"store format {version} by a {age} EvoKernel"):
            Store.open(run, write=write)
    assert (run / "run.db").read_bytes() == before


@pytest.mark.parametrize(
    "content", [b"this is no database at all" * 200, b"SQLite format 3\0 lies"]
)
def test_a_damaged_file_is_refused_untouched(run: Path, content: bytes) -> None:
    (run / "run.db").write_bytes(content)
    for write in (False, True):
        with pytest.raises(StoreError, match="is damaged"):
            Store.open(run, write=write)
    assert (run / "run.db").read_bytes() == content


def test_damage_inside_the_file_is_reported(run: Path) -> None:
    content = bytearray((run / "run.db").read_bytes())
    content[4096:] = b"\xff" * (len(content) - 4096)
    (run / "run.db").write_bytes(content)
    with pytest.raises(StoreError, match="is damaged"), Store.open(run) as store:
        store.problems()


def test_a_run_whose_creation_was_interrupted_is_told_apart(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "run.db").touch()
    with pytest.raises(StoreError, match="creation was interrupted"):
        Store.open(folder)


@pytest.fixture
def public(run: Path) -> Iterator[Path]:
    """A folder that others can reach, with a copy of the run in it that nobody may write."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    shutil.copytree(run, folder / "run")
    for path in (*(folder / "run").iterdir(), folder / "run"):
        path.chmod(0o555 if path.is_dir() else 0o444)
    yield folder
    (folder / "run").chmod(0o755)
    shutil.rmtree(folder)


AS_NOBODY = """
    import os, sys, pathlib
    import archives.store
    from archives.records import RunRecord
    from archives.store import Store
    from problems.errors import StoreError
    import sqlalchemy.dialects.sqlite
    if os.getuid() == 0:
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)
    run = pathlib.Path(sys.argv[1])
"""


def test_a_read_only_run_can_be_read_and_not_written(public: Path) -> None:
    code = """
        with Store.open(run) as store:
            print(len(store.problems()))
            try:
                store.request_seed(store.problems()[0].key, "a", "b")
            except StoreError as error:
                print(error)
        for attempt in (lambda: Store.open(run, write=True),
                        lambda: Store.create(run / "inner", store_run)):
            store_run = RunRecord(name="", created="", config_json="", rng_seed=0, scale="")
            try:
                attempt()
            except StoreError as error:
                print(error)
    """
    done = python(textwrap.dedent(AS_NOBODY) + textwrap.dedent(code), public / "run")
    lines = done.stdout.splitlines()
    assert len(lines) == 4, done.stderr
    assert lines[0] == "1"
    assert all("cannot be written" in line for line in lines[1:])


def test_a_full_disk_is_said_to_be_full_and_loses_nothing(tmp_path: Path) -> None:
    code = """
        import sys, pathlib
        from archives.records import RunRecord
        from archives.store import Store
        from problems.errors import StoreError
        from problems.problem import Problem, Scale
        run = pathlib.Path(sys.argv[1]) / "run"
        record = RunRecord(name="", created="", config_json="", rng_seed=0, scale="")
        added = 0
        with Store.create(run, record) as store:
            try:
                for number in range(1000):
                    source = f"SIZE = {number}\\n" + "# text\\n" * 2000
                    store.add_problems([Problem(level=1, id=number, name="", family="",
                                                scale=Scale.TINY, source=source)])
                    added += 1
            except StoreError as error:
                print(error)
        with Store.open(run) as store:
            print(0 < added == len(store.problems()))
    """
    mounted = 'mount -t tmpfs -o size=2m none "$1" && exec "$2" -c "$3" "$1"'
    command = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", mounted, "sh"]
    arguments = [str(tmp_path), sys.executable, textwrap.dedent(code)]
    if shutil.which("unshare") is None:
        pytest.skip("needs unshare to make a small disk")
    done = subprocess.run(
        [*command, *arguments], capture_output=True, text=True, timeout=60, check=False
    )
    if "unshare" in done.stderr or "mount:" in done.stderr:
        pytest.skip("this machine allows no mounts in a user namespace")
    sentence, whole = done.stdout.splitlines()
    assert "is full: make room, then resume" in sentence
    assert whole == "True"


def test_a_url_names_another_place(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'elsewhere.db'}"
    with Store.create(tmp_path / "run", RUN, url=url) as store:
        store.add_problems([P])
    assert not (tmp_path / "run" / "run.db").exists()
    with Store.open(tmp_path / "run") as store:
        assert store.problems() == [P]


@pytest.mark.parametrize(
    ("url", "message"),
    [("postgresql://me:secret@host/db", "holds a password"), ("nonsense", "cannot be read")],
)
def test_a_url_that_is_no_good_is_refused(tmp_path: Path, url: str, message: str) -> None:
    with pytest.raises(StoreError, match=message) as caught:
        Store.create(tmp_path / "run", RUN, url=url)
    assert "secret" not in str(caught.value)
    assert not (tmp_path / "run").exists()
