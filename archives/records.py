"""The plain records that cross the store's boundary, besides attempts and evaluations."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from archives.attempt import Attempt, Slot
from archives.evaluation import DeviceFingerprint, Evaluation
from archives.grid import Addition, Elite
from archives.llm_call import CallOutcome
from archives.rates import Rates

__all__ = [
    "FORMAT_VERSION",
    "MIGRATE",
    "SEARCH",
    "VERIFY",
    "CallSummary",
    "EvaluationRecord",
    "GenerationOutcome",
    "Insertion",
    "KnownCandidate",
    "Migration",
    "OperatorTally",
    "ProblemState",
    "ProblemStatus",
    "RunCounts",
    "RunRecord",
    "RunState",
    "SeedRequest",
]

FORMAT_VERSION = 3
"""Version of the store's tables. A change of them is a step in `archives.upgrade`."""


MIGRATE = "migrate"
"""Operator name of a migrant's attempt."""

SEARCH = "search"
"""Purpose of an evaluation that ranks candidates."""

VERIFY = "verify"
"""Purpose of an evaluation that buys certainty."""


class RunState(StrEnum):
    """Where a run stands."""

    RUNNING = "running"
    """An engine works on it, or was killed while it did."""
    STOPPED = "stopped"
    """Stopped cleanly before its end; can be resumed."""
    FINISHED = "finished"


class ProblemStatus(StrEnum):
    """Where one problem of a run stands."""

    OPEN = "open"
    SOLVED = "solved"
    """At the ceiling of the device: needs no further search."""
    SKIPPED = "skipped"
    """Cannot be searched here (`reason`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """What is known of a run as a whole.

    Attributes:
        name: Name for people.
        created: ISO 8601 time of creation, UTC.
        config_json: The resolved configuration, JSON text.
        rng_seed: Seed of every random stream of the search, >= 0.
        scale: Scale of the problems.
        device: Where it measures; None before the evaluator has started.
        noise_floor: Relative speedup below which nothing is claimed; None: not measured.
        noisy: True where the host was too noisy to measure the floor: it is an assumed one.
        referee_version: Version of the measuring protocol; "" before the evaluator has started.
        rates: What the device was measured to reach when the run began; None: not measured.
        state: Where the run stands.
        format_version: Version of the store's tables.
    """

    name: str
    created: str
    config_json: str
    rng_seed: int
    scale: str
    device: DeviceFingerprint | None = None
    noise_floor: float | None = None
    noisy: bool = False
    referee_version: str = ""
    rates: Rates | None = None
    state: RunState = RunState.RUNNING
    format_version: int = FORMAT_VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class ProblemState:
    """Where one problem stands.

    Attributes:
        key: Key of the problem.
        status: Open, solved or skipped.
        reason: Why it is solved or skipped, one sentence; else "".
        generation: Last generation that was finished; None: not even the seeds' (0).
    """

    key: str
    status: ProblemStatus
    reason: str = ""
    generation: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationRecord:
    """One stored evaluation and what it belongs to.

    Attributes:
        problem: Key of the problem.
        candidate: Id of the candidate that was measured.
        proposed: Id of the candidate that was proposed; differs from `candidate` where
            another configuration won; None for a verification.
        slot: The attempt it was made for; None for a verification.
        purpose: "search" or "verify".
        after: The last generation that was finished when it was verified; None for a verdict of
            the search, and where none was finished.
        evaluation: The verdict.
    """

    problem: str
    candidate: str
    proposed: str | None
    slot: Slot | None
    purpose: str
    evaluation: Evaluation
    after: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownCandidate:
    """A candidate that a problem's run has seen already.

    Attributes:
        id: Id of the candidate.
        program_id: Id of its program.
        slot: The first attempt that proposed it or had it as its result.
        withdrawn: Why it may hold no cell any more, or "".
    """

    id: str
    program_id: str
    slot: Slot
    withdrawn: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Insertion:
    """One candidate offered to an island's grid at a generation's end.

    Attributes:
        elite: What was offered; `elite.slot` names the attempt and the island.
        addition: What became of it.
    """

    elite: Elite
    addition: Addition


@dataclass(frozen=True, slots=True, kw_only=True)
class Migration:
    """An elite that also went to another island.

    Attributes:
        source: The attempt it had been on its old island.
        target: The attempt it is on its new island.
        candidate: Id of the candidate, the same on both.
    """

    source: Slot
    target: Slot
    candidate: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorTally:
    """What one operator did for one problem in one generation.

    Attributes:
        problem: Key of the problem.
        generation: From 0.
        operator: Name of the operator.
        attempts: Proposals, failed ones and duplicates included.
        evaluated: Proposals that were measured.
        accepted: Children that entered a grid.
        gain: Sum of the logarithmic improvements it brought to the archive, >= 0.
        cost_s: Seconds of proposing and evaluating.
    """

    problem: str
    generation: int
    operator: str
    attempts: int = 0
    evaluated: int = 0
    accepted: int = 0
    gain: float = 0.0
    cost_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationOutcome:
    """Everything that the end of one generation of one problem writes.

    Attributes:
        insertions: In the order they were made; accepted ones become the stored elites.
            May name migrants' slots too.
        migrants: New attempts, state `ARCHIVED`, each with the source attempt as only parent.
        tallies: At most one for each operator.
    """

    insertions: tuple[Insertion, ...] = ()
    migrants: tuple[Attempt, ...] = ()
    tallies: tuple[OperatorTally, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCounts:
    """How much was done.

    Attributes:
        attempts: Proposals, migrants not counted.
        evaluations: Evaluations made for the search.
        verifications: Evaluations made to verify.
        unstable: Those of both kinds that the host was too noisy for.
        impossible: Those of both kinds whose times the device does not allow.
        library_work: Those of both kinds that the run's policy on library work rejects.
    """

    attempts: int = 0
    evaluations: int = 0
    verifications: int = 0
    unstable: int = 0
    impossible: int = 0
    library_work: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SeedRequest:
    """A human kernel that waits for, or was taken up by, the engine.

    Attributes:
        id: Number of the request, in the order of arrival.
        problem: Key of the problem.
        name: Name for people, such as the file's.
        source: Text of one module that defines `ModelNew`.
        generation: The generation that took it up; None: still waiting.
    """

    id: int
    problem: str
    name: str
    source: str
    generation: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CallSummary:
    """A recorded call to a language model, without what was sent and answered.

    Attributes:
        id: Number of the call in the run, from 1 in the order of arrival.
        slot: The attempt that it was made for; that may have been lost with a killed engine.
        number: Number within the attempt, from 0.
        operator: Name of the operator that asked.
        model: Name of the model.
        prompt_hash: SHA-256 of the question; see `LlmCall.prompt_hash`.
        outcome: How it ended.
        finish: Why the model stopped; "" where unknown.
        log: What went wrong, one line; "" where nothing did.
        prompt_tokens: Tokens sent; None: the provider did not say.
        completion_tokens: Tokens that came back; None: the provider did not say.
        cost_usd: Money spent; None: the price of the model is not known.
        latency_s: Seconds from the first try to the answer.
        tries: Requests sent.
    """

    id: int
    slot: Slot
    number: int
    operator: str
    model: str
    prompt_hash: str
    outcome: CallOutcome
    finish: str
    log: str
    prompt_tokens: int | None
    completion_tokens: int | None
    cost_usd: float | None
    latency_s: float
    tries: int
