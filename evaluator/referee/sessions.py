"""The open problems of a referee: the least recently used ones make room."""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Generic, Protocol, TypeVar

from problems.problem import Problem

__all__ = ["OpenSession", "Sessions", "closing_on_error"]


class OpenSession(Protocol):
    """An open problem."""

    @property
    def num_bytes(self) -> int:
        """Memory that it takes."""
        ...

    @property
    def ended(self) -> bool:
        """Whether a trusted process of it has ended, so that nobody can be judged any more."""
        ...

    def close(self) -> None:
        """End its processes and give the memory back."""
        ...


S = TypeVar("S", bound=OpenSession)


@contextmanager
def closing_on_error(session: OpenSession) -> Iterator[None]:
    """Close a session where the block fails."""
    try:
        yield
    except BaseException:
        session.close()
        raise


class Sessions(Generic[S]):
    """Opens problems as they are asked for, and closes those that nobody uses."""

    def __init__(
        self, opener: Callable[[Problem], S], limit_bytes: int, *, side_by_side: bool = False
    ) -> None:
        """Start with none.

        Args:
            opener: Opens a problem; it takes the timing gate itself.
            limit_bytes: Memory that sessions may take together; one is always open.
            side_by_side: Whether several may be opened at a time: the opener sees to it that there
                is memory for them.
        """
        self._opener = opener
        self._limit_bytes = limit_bytes
        self._open: OrderedDict[str, S] = OrderedDict()
        self._users: dict[str, int] = {}
        self._given: Counter[int] = Counter()
        self._abandoned: dict[int, S] = {}
        self._lock = threading.Lock()
        self._side_by_side = side_by_side
        self._opening: dict[str, threading.Lock] = {}

    @contextmanager
    def borrow(self, problem: Problem) -> Iterator[S]:
        """Use a problem's session for the block; several may at a time.

        Raises:
            ProblemError: The problem cannot be opened.
            EvaluatorError: Its reference worker failed.
        """
        key = problem.key
        with self._lock:
            self._users[key] = self._users.get(key, 0) + 1
        try:
            session = self._session(problem)
            try:
                yield session
            finally:
                self._take_back(session)
        finally:
            with self._lock:
                self._users[key] -= 1

    def alone(self, problem: Problem) -> bool:
        """Tell whether one borrower at most uses a problem now."""
        with self._lock:
            return self._users.get(problem.key, 0) <= 1

    def drop(self, problem: Problem) -> None:
        """Close a problem of which a trusted process has ended, as soon as nobody uses it.

        One that was opened anew since is left as it is: of several requests that met the end of one
        session, each says so.
        """
        with self._lock:
            session = self._open.get(problem.key)
            if session is None or not session.ended:
                return
            del self._open[problem.key]
            if self._given[id(session)]:
                # It may serve the others still; whoever comes next gets a new one.
                self._abandoned[id(session)] = session
                session = None
        if session is not None:
            session.close()

    def close(self) -> None:
        """Close all."""
        with self._lock:
            sessions = [*self._open.values(), *self._abandoned.values()]
            self._open.clear()
            self._abandoned.clear()
        for session in sessions:
            session.close()

    def _session(self, problem: Problem) -> S:
        """Return an open session, counted as given to one more."""
        # Whoever uses an open problem does not wait for others that are being opened.
        known = self._known(problem)
        if known is not None:
            return known
        with self._lock:
            name = problem.key if self._side_by_side else ""
            opening = self._opening.setdefault(name, threading.Lock())
        with opening:
            known = self._known(problem)
            if known is not None:
                return known
            session = self._opener(problem)
            with self._lock:
                self._open[problem.key] = session
                self._given[id(session)] += 1
                superfluous = self._superfluous()
            for old in superfluous:
                old.close()
            return session

    def _take_back(self, session: S) -> None:
        """Close a session that was dropped, once the last one gives it back."""
        with self._lock:
            self._given[id(session)] -= 1
            is_used = self._given[id(session)] > 0
            if not is_used:
                del self._given[id(session)]
            abandoned = None if is_used else self._abandoned.pop(id(session), None)
        if abandoned is not None:
            abandoned.close()

    def _known(self, problem: Problem) -> S | None:
        with self._lock:
            session = self._open.get(problem.key)
            if session is not None:
                self._open.move_to_end(problem.key)
                self._given[id(session)] += 1
            return session

    def _superfluous(self) -> list[S]:
        """Take out the oldest unused sessions until the rest fits."""
        taken = []
        total = sum(session.num_bytes for session in self._open.values())
        for key in list(self._open)[:-1]:
            if total <= self._limit_bytes:
                break
            if not self._users.get(key):
                session = self._open.pop(key)
                total -= session.num_bytes
                taken.append(session)
        return taken
