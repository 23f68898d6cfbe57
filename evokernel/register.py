"""The register of one problem: what was proposed, what came of it, what is a duplicate.

The unit is the *point*: a program and one configuration of it. A proposal that holds no point
that is new is a duplicate of the attempt that tried it first, and gets that attempt's verdict.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass

from archives.attempt import Attempt, Slot
from archives.candidate import Candidate
from archives.configuration import Configuration, read_configuration
from archives.evaluation import ConfigurationResult, Evaluation, Status

__all__ = ["Child", "KnownIds", "Register", "judged"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Child:
    """One attempt and what came of it.

    Attributes:
        attempt: The attempt.
        program: Id of its program; None where there is none.
        result: Id of the candidate that was measured; None where none was.
        evaluation: The verdict; None where there is none.
    """

    attempt: Attempt
    program: str | None = None
    result: str | None = None
    evaluation: Evaluation | None = None


class KnownIds(Set[str]):
    """The ids known at a generation's start and those an island added since; reads both."""

    def __init__(self, settled: Set[str]) -> None:
        """Start from the settled ids, which are not copied."""
        self._settled = settled
        self._added: set[str] = set()

    def add(self, candidate: Candidate) -> None:
        """Add a candidate and its program."""
        self._added |= {candidate.id, candidate.program_id}

    def __contains__(self, item: object) -> bool:
        return item in self._added or item in self._settled

    def __iter__(self) -> Iterator[str]:
        yield from self._settled
        yield from self._added - self._settled

    def __len__(self) -> int:
        return len(self._settled) + len(self._added - self._settled)


class Register:
    """Everything that was proposed for one problem.

    `claim` and `settle` may come in any order of arrival; what operators are shown (`known_ids`,
    `tried`, `evaluation`) changes at the end of a generation only, through `close`.
    """

    def __init__(self) -> None:
        self._settled: set[str] = set()
        self._evaluations: dict[str, Evaluation] = {}
        self._tried: dict[str, dict[str, ConfigurationResult]] = {}
        self._claims: dict[str, Slot] = {}
        self._claimed: dict[Slot, list[str]] = {}  # of generations that are not finished
        self._children: dict[Slot, Child] = {}

    def known_ids(self) -> KnownIds:
        """Return a fresh view of all ids of finished generations."""
        return KnownIds(self._settled)

    def evaluation(self, candidate_id: str) -> Evaluation:
        """Return the verdict on a candidate of a finished generation."""
        return self._evaluations[candidate_id]

    def tried(self, program_id: str) -> tuple[ConfigurationResult, ...]:
        """Return what is known of each tried configuration of a program, oldest first."""
        return tuple(self._tried.get(program_id, {}).values())

    def claim(
        self, slot: Slot, candidate: Candidate, configurations: Sequence[Configuration]
    ) -> tuple[tuple[Configuration, ...], Slot | None]:
        """Claim the new points of a proposal for its slot.

        Args:
            slot: The attempt.
            candidate: The proposed candidate.
            configurations: The points it is to be tried with; empty: the one in its source.

        Returns:
            The points that are new, and None; or no points and the slot of the attempt that
            tried the first of them before.
        """
        points = list(configurations) or [read_configuration(candidate.source)]
        keys = [candidate.program_id + _text(point) for point in points]
        new = [key not in self._claims for key in keys]
        if not any(new):
            return (), self._claims[keys[0]]
        for key in keys:
            if self._claims.setdefault(key, slot) == slot:
                self._claimed.setdefault(slot, []).append(key)
        if not configurations:
            return (), None
        return tuple(point for point, is_new in zip(points, new, strict=True) if is_new), None

    def forget(self, slot: Slot) -> None:
        """Free the points of an attempt that got no verdict: they may be tried again."""
        for key in self._claimed.pop(slot, ()):
            self._claims.pop(key, None)

    def settle(self, child: Child) -> None:
        """Keep what came of an attempt."""
        self._children[child.attempt.slot] = child

    def child(self, slot: Slot) -> Child | None:
        """Return what came of an attempt; None where nothing did yet."""
        return self._children.get(slot)

    def close(self, children: Sequence[Child]) -> None:
        """Make the children of a generation known to operators.

        What the host was too noisy to judge is not known afterwards: its points are free again,
        and so are those about which a failed verdict says nothing (see `judged`).

        Args:
            children: In slot order.
        """
        for child in children:
            if child.evaluation is not None and child.evaluation.status is Status.UNSTABLE:
                self.forget(child.attempt.slot)
                self._remember(child, but=(Status.OK, Status.UNSTABLE))
                continue
            self._free_unjudged(child)
            ids = (child.attempt.candidate, child.program, child.result)
            self._settled.update(name for name in ids if name is not None)
            if child.evaluation is None:
                continue
            for name in (child.attempt.candidate, child.result):
                if name is not None:
                    self._evaluations.setdefault(name, child.evaluation)
            self._remember(child)

    def _free_unjudged(self, child: Child) -> None:
        """End the claims of an attempt: what was judged stays claimed for good."""
        keys = self._claimed.pop(child.attempt.slot, ())
        if child.evaluation is None or child.program is None:
            return
        told = _told(child.evaluation)
        for key in keys:
            if told is not None and key.removeprefix(child.program) not in told:
                self._claims.pop(key, None)

    def _remember(self, child: Child, but: Sequence[Status] = ()) -> None:
        """Keep what became of each configuration, those with the given outcomes left out."""
        if child.evaluation is None or child.program is None:
            return
        results = self._tried.setdefault(child.program, {})
        for result in child.evaluation.configurations:
            if result.status not in but:
                results.setdefault(_text(result.configuration), result)


def judged(evaluation: Evaluation, points: Sequence[Configuration]) -> tuple[Configuration, ...]:
    """Return the points of a proposal about which its verdict says something.

    An unstable one says nothing of any. One that names what became of single points says nothing of
    those that it leaves out: they were not checked to the end, or not built in time. Any other is
    about all.
    """
    if evaluation.status is Status.UNSTABLE:
        return ()
    told = _told(evaluation)
    return tuple(point for point in points if told is None or _text(point) in told)


def _told(evaluation: Evaluation) -> set[str] | None:
    """Texts of the points that a verdict names; None where it is about all."""
    if not evaluation.configurations:
        return None
    return {_text(result.configuration) for result in evaluation.configurations}


def _text(configuration: Configuration) -> str:
    return json.dumps(dict(configuration), sort_keys=True)
