"""Programs made or read lately: what is new today is a parent tomorrow."""

from __future__ import annotations

from archives.candidate import Candidate

__all__ = ["RecentPrograms"]

_MOST_CHARACTERS = 4_000_000
"""Of all programs together: some 600 of them where a language model writes them."""


class RecentPrograms:
    """The programs that were used last, as many as fit."""

    def __init__(self, most_characters: int = _MOST_CHARACTERS) -> None:
        """Start without any.

        Args:
            most_characters: Characters that all of them may have together; the latest one stays
                in any case.
        """
        self._most = most_characters
        self._characters = 0
        self._programs: dict[str, Candidate] = {}  # the one used longest ago first

    def get(self, id: str) -> Candidate | None:
        """Return a program by its id, and keep it for longer; None where it is not there."""
        found = self._programs.pop(id, None)
        if found is not None:
            self._programs[id] = found
        return found

    def keep(self, candidate: Candidate) -> None:
        """Keep a program; those used longest ago go where there is no room for it."""
        if self.get(candidate.id) is not None:
            return
        self._programs[candidate.id] = candidate
        self._characters += len(candidate.source)
        while self._characters > self._most and len(self._programs) > 1:
            oldest = next(iter(self._programs))
            self._characters -= len(self._programs.pop(oldest).source)
