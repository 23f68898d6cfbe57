"""The pages of a session's signals: one for each process that legs are sealed in."""

from __future__ import annotations

import threading

from problems.errors import EvaluatorError

__all__ = ["NUM_PAGES", "Pages"]

NUM_PAGES = 256
"""The first one is the reference's own."""


class Pages:
    """Hands out pages; one that was given back is handed out again. Usable from several threads."""

    def __init__(self, count: int = NUM_PAGES) -> None:
        """Start with all but the reference's page free.

        Args:
            count: How many there are.
        """
        self._free = list(range(count - 1, 0, -1))
        self._lock = threading.Lock()

    def take(self) -> int:
        """Return the number of a page that nobody has.

        Raises:
            EvaluatorError: All are taken.
        """
        with self._lock:
            if not self._free:
                raise EvaluatorError(
                    "one problem has more processes on a GPU than it has pages of signals: "
                    "evaluate fewer candidates at a time"
                )
            return self._free.pop()

    def give(self, page: int) -> None:
        """Take a page back."""
        with self._lock:
            self._free.append(page)
