"""The database under a store: connections, the engine's lock, and sentences for failures.

Concurrency: writers take SQLite's write lock when they begin (`BEGIN IMMEDIATE`), so a transaction
never fails half-way because another process wrote; readers see one snapshot each.
Durability: WAL with `synchronous=NORMAL` survives the death of the process at any point; a power
cut may lose the last transactions, never the database.
"""

from __future__ import annotations

import errno
import fcntl
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError

from problems.errors import StoreError

__all__ = ["Database"]

_DATABASE = "run.db"
_URL_FILE = "database_url"
_LOCK = "lock"
_WRITES = "evokernel_writes"

_CHECKPOINT_PAGES = 32_000
"""Pages of 4 KiB in the log, 125 MiB, before they are moved into the database, when a commit waits
for the disk. Pages that many commits have changed are moved once: with 4,000 an engine did 1,960
candidates a second and got a tenth slower by 10,000 of them, with 32,000 it does 2,220 and gets a
twentieth slower (`benchmarks/engine_throughput.py`)."""

_SENTENCES = {
    "SQLITE_FULL": "the disk that holds {place} is full: make room, then resume the run",
    "SQLITE_BUSY": "{place} stayed locked by another process: wait for that process, or stop it",
    "SQLITE_READONLY": "{place} cannot be written, its folder is read-only: make it writable, or "
    "copy the run to a folder that is",
    "SQLITE_CANTOPEN": "{place} cannot be opened: check that it exists and may be read",
    "SQLITE_CORRUPT": "{place} is damaged: restore it from a copy, or start a new run",
    "SQLITE_NOTADB": "{place} is damaged: restore it from a copy, or start a new run",
}
"""By the start of SQLite's error name, as in `sqlite3.Error.sqlite_errorname`."""


class Database:
    """An open database of one run; `archives.store` is its only user."""

    def __init__(self, folder: Path, engine: Engine, lock: TextIO | None) -> None:
        """Wrap an engine; use `create` or `open` instead.

        Args:
            folder: The run's folder.
            engine: Connects to the database.
            lock: The locked file that makes this process the run's engine; None: a reader.
        """
        self.folder = folder
        self._engine = engine
        self._lock = lock
        self._writer: Connection | None = None

    @classmethod
    def create(cls, folder: Path, url: str | None) -> Database:
        """Make the folder and lock it.

        Raises:
            StoreError: It is not empty, cannot be written, or the URL is no good.
        """
        target = _parsed(url) if url is not None else None
        try:
            folder.mkdir(parents=True, exist_ok=True)
            if any(folder.iterdir()):
                raise StoreError(
                    f"the run folder {folder} exists already and is not empty: name another one, "
                    "or resume the run in it"
                )
            lock = _locked(folder)
            if url is not None:
                (folder / _URL_FILE).write_text(url + "\n")
        except OSError as error:
            raise StoreError(_os_sentence(error, folder)) from error
        return cls(folder, _engine(target or _sqlite(folder / _DATABASE), wal=True), lock)

    @classmethod
    def open(cls, folder: Path, *, write: bool, busy_timeout_s: float) -> Database:
        """Open an existing run's database.

        Raises:
            StoreError: There is none, or (for writing) it is held or cannot be written.
        """
        path = folder / _DATABASE
        url_file = folder / _URL_FILE
        try:
            _require_run(folder)
            lock = _locked(folder) if write else None
            if url_file.is_file():
                target = _parsed(url_file.read_text().strip())
            else:
                target = _sqlite(path, read_only=not write and not _writable(path))
        except OSError as error:
            raise StoreError(_os_sentence(error, folder)) from error
        return cls(folder, _engine(target, busy_timeout_s), lock)

    def close(self) -> None:
        """Close all connections, then release the lock."""
        self._let_go()
        self._engine.dispose()
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    @contextmanager
    def closing_on_error(self) -> Iterator[None]:
        """Close the database where the block fails."""
        try:
            yield
        except BaseException:
            self.close()
            raise

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Give a connection that sees one snapshot."""
        with self._explained(), self._engine.connect() as connection, connection.begin():
            yield connection

    @contextmanager
    def writing(self, *, as_guest: bool = False) -> Iterator[Connection]:
        """Give a connection whose changes are committed together, or not at all.

        Args:
            as_guest: True for what may be written beside the run's engine.
        """
        if self._lock is None and not as_guest:
            raise StoreError(
                f"the run {self.folder} was opened for reading only: open it for writing first"
            )
        with self._explained():
            connection = self._held()
            try:
                with connection.begin():
                    yield connection
            except BaseException:
                self._let_go()  # The next transaction starts from a clean one.
                raise
            if self._engine.dialect.name != "sqlite":
                self._let_go()

    def _held(self) -> Connection:
        """The connection that writes; SQLite's is kept, since fetching one takes longer than use.

        Between transactions it holds no lock. A server may have dropped an idle one.
        """
        if self._writer is None:
            self._writer = self._engine.connect().execution_options(**{_WRITES: True})
        return self._writer

    def _let_go(self) -> None:
        if self._writer is not None:
            writer, self._writer = self._writer, None
            writer.close()

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except (SQLAlchemyError, sqlite3.Error) as error:
            raise StoreError(_database_sentence(error, self.folder)) from error
        except OSError as error:
            raise StoreError(_os_sentence(error, self.folder)) from error


def _require_run(folder: Path) -> None:
    """Require a folder with a run in it."""
    if any((folder / name).is_file() for name in (_DATABASE, _URL_FILE)):
        return
    if folder.is_file():
        raise StoreError(f"{folder} is a file: name the folder of the run, {folder.parent}")
    what = "holds no run" if folder.is_dir() else "does not exist"
    raise StoreError(f"the run folder {folder} {what} (expected {_DATABASE} in it): check the path")


def _engine(url: URL, busy_timeout_s: float = 10.0, *, wal: bool = False) -> Engine:
    if url.get_backend_name() != "sqlite":
        return create_engine(url)
    engine = create_engine(url, connect_args={"timeout": busy_timeout_s})

    @event.listens_for(engine, "connect")
    def prepare(connection: sqlite3.Connection, _record: object) -> None:
        # The driver would begin transactions late and on its own; `begin` below does it instead.
        connection.isolation_level = None
        if wal:
            connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA foreign_keys=ON")
        connection.execute("PRAGMA synchronous=NORMAL")
        connection.execute(f"PRAGMA wal_autocheckpoint={_CHECKPOINT_PAGES}")

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        writes = connection.get_execution_options().get(_WRITES, False)
        driver: Any = connection.connection.driver_connection  # SQLAlchemy's own way takes longer.
        driver.execute("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine


def _sqlite(path: Path, *, read_only: bool = False) -> URL:
    if not read_only:
        return URL.create("sqlite", database=str(path))
    # Without a log beside it nobody writes, and only an immutable database needs no shared-memory
    # file, which a read-only folder cannot take.
    immutable = not path.with_name(path.name + "-wal").exists()
    query: dict[str, Any] = {"uri": "true", "mode": "ro"} | (
        {"immutable": "1"} if immutable else {}
    )
    return URL.create("sqlite", database=path.absolute().as_uri(), query=query)


def _writable(path: Path) -> bool:
    return os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)


def _parsed(url: str) -> URL:
    try:
        parsed = make_url(url)
    except ArgumentError as error:
        raise StoreError(
            f"the database URL {url!r} cannot be read: expected a form such as "
            "postgresql+psycopg://user@host/name"
        ) from error
    if parsed.password is not None:
        raise StoreError(
            f"the database URL for {parsed.host} holds a password, which would be written into "
            "the run folder: leave it out and give it in PGPASSWORD or ~/.pgpass"
        )
    return parsed


def _locked(folder: Path) -> TextIO:
    """Lock the run for this process; the lock goes when the process does, however it ends."""
    path = folder / _LOCK
    lock = path.open("a+")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        lock.seek(0)
        holder = lock.read().strip() or "unknown"
        lock.close()
        raise StoreError(
            f"another engine (process {holder}) works on the run {folder}: wait until it ends, "
            "or stop it, before this one starts"
        ) from error
    except BaseException:
        lock.close()
        raise
    lock.truncate(0)
    lock.write(f"{os.getpid()}\n")
    lock.flush()
    return lock


def _database_sentence(error: SQLAlchemyError | sqlite3.Error, folder: Path) -> str:
    place = f"the store of the run {folder}"
    cause = error.orig if isinstance(error, DBAPIError) else error
    name = getattr(cause, "sqlite_errorname", "")
    for start, sentence in _SENTENCES.items():
        if name.startswith(start):
            return sentence.format(place=place)
    return f"{place} failed: {cause}"


def _os_sentence(error: OSError, folder: Path) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return _SENTENCES["SQLITE_FULL"].format(place=f"the run {folder}")
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return (
            f"the run folder {folder} cannot be written ({error.strerror}): make it writable, or "
            "name another one"
        )
    return f"the run folder {folder} cannot be used: {error}"
