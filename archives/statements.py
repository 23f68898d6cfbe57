"""Statements of the path that every candidate takes.

SQLAlchemy spends fifteen times as long on a short statement as SQLite does. So each of these is
written out once and then sent to SQLite as text, within SQLAlchemy's transaction; any other
database gets it the usual way. Values go as they are: numbers, texts, bytes or None.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, Dialect, Insert, Select, Update

__all__ = ["Statement"]


class Statement:
    """A statement that is run again and again with other values of the same names."""

    def __init__(self, clause: Insert | Select[Any] | Update) -> None:
        """Keep it; it is written out at its first use.

        Args:
            clause: An insertion takes its columns from the values of its first use.
        """
        self._clause = clause
        self._written: tuple[str, tuple[str, ...]] | None = None

    def first(self, connection: Connection, values: Mapping[str, Any]) -> tuple[Any, ...] | None:
        """Return the first row that it finds; None where there is none."""
        if connection.dialect.name != "sqlite":
            found = connection.execute(self._clause, values).first()
            return None if found is None else tuple(found)
        cursor = self._sent(connection, values)
        row: tuple[Any, ...] | None = cursor.fetchone()
        cursor.close()
        return row

    def change(self, connection: Connection, values: Mapping[str, Any]) -> int:
        """Return how many rows it has changed or added."""
        if connection.dialect.name != "sqlite":
            return connection.execute(self._clause, values).rowcount
        count: int = self._sent(connection, values).rowcount
        return count

    def add(self, connection: Connection, values: Mapping[str, Any]) -> int:
        """Return the number of the row that it has added, in a table with a key of one number."""
        if connection.dialect.name != "sqlite":
            key = connection.execute(self._clause, values).inserted_primary_key
            assert key is not None, "an insertion of one row"
            return int(key[0])
        number: int = self._sent(connection, values).lastrowid
        return number

    def _sent(self, connection: Connection, values: Mapping[str, Any]) -> Any:  # noqa: ANN401
        """The driver's cursor after the statement was run."""
        if self._written is None:
            self._written = self._write(connection.dialect, values)
        text, names = self._written
        driver: Any = connection.connection.driver_connection
        return driver.execute(text, [values[name] for name in names])

    def _write(self, dialect: Dialect, values: Mapping[str, Any]) -> tuple[str, tuple[str, ...]]:
        """Its text, with a question mark for each value, and their names in order."""
        columns = list(values) if isinstance(self._clause, Insert) else None
        compiled: Any = self._clause.compile(dialect=dialect, column_keys=columns)
        return str(compiled), tuple(compiled.positiontup or ())
