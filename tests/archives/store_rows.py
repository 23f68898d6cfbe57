"""Problems, programs and verdicts for the tests of the store."""

from __future__ import annotations

from archives.attempt import Attempt, Slot
from archives.candidate import Candidate
from archives.evaluation import DeviceFingerprint, Evaluation, Interval, Rung, Status
from archives.grid import Addition, AddStatus, Elite, objective_of
from archives.llm_call import CallOutcome, LlmCall, Message
from archives.records import Insertion, RunRecord
from archives.store import Store
from problems.problem import Problem, Scale

RUN = RunRecord(
    name="demo",
    created="2026-01-02T03:04:05+00:00",
    config_json='{"a": 1}',
    rng_seed=2**127 + 1,
    scale="small",
)
DEVICE = DeviceFingerprint(kind="cpu", name="X", uuid="u", threads=1, versions={"torch": "2.13"})
FAILURE = Evaluation(status=Status.WRONG_VALUE, reason="wrong_value", log="off by one")


def problem(number: int) -> Problem:
    return Problem(
        level=1,
        id=number,
        name=f"P{number}",
        family="elementwise",
        scale=Scale.TINY,
        source=f"SIZE = {number}\nclass Model: ...\n",
    )


P = problem(1)
Q = problem(2)


def at(index: int, generation: int = 0, island: int = 0, key: str = P.key) -> Slot:
    return Slot(problem=key, generation=generation, island=island, index=index)


def program(number: int, block: int = 1, key: str = P.key) -> Candidate:
    text = f"TUNE_PARAMS = {{'B': [1, 2, 4]}}\nCONFIG = {{'B': {block}}}\nNUMBER = {number}\n"
    return Candidate.of(key, text)


def ok(speedup: float, rung: Rung = Rung.TIME) -> Evaluation:
    return Evaluation(
        status=Status.OK,
        rung=rung,
        latency_ms=1 / speedup,
        reference_ms=1.0,
        speedup=speedup,
        interval=Interval(low=speedup * 0.99, high=speedup * 1.01),
        device=DEVICE,
    )


def proposal(slot: Slot, candidate: Candidate | None, *parents: Slot, **more: object) -> Attempt:
    values: dict[str, object] = {"operator": "tune", "note": "B 1 -> 2", **more}
    held = None if candidate is None else candidate.id
    return Attempt(slot=slot, parents=parents, candidate=held, **values)  # type: ignore[arg-type]


def insertion(slot: Slot, candidate: Candidate, speedup: float, cell: int = 0) -> Insertion:
    objective = objective_of(speedup)
    return Insertion(
        elite=Elite(cell=(cell, 1), objective=objective, slot=slot, candidate=candidate.id),
        addition=Addition(status=AddStatus.NEW, value=objective),
    )


def tell(store: Store, slot: Slot, candidate: Candidate, verdict: Evaluation) -> None:
    store.propose(proposal(slot, candidate), candidate)
    store.record(slot, verdict)


def call(slot: Slot, number: int = 0, **more: object) -> LlmCall:
    values: dict[str, object] = {
        "operator": "llm.mutate",
        "model": "openai/large",
        "messages": (
            Message(role="system", text="You write kernels."),
            Message(role="user", text=f"Improve attempt {slot.index}: question {number}."),
        ),
        "parameters": {"temperature": 0.7, "max_tokens": 512},
        "outcome": CallOutcome.OK,
        "text": f"```python\nNUMBER = {number}\n```",
        "finish": "stop",
        "prompt_tokens": 20,
        "completion_tokens": 10,
        "cost_usd": 0.25,
        "latency_s": 1.5,
        **more,
    }
    return LlmCall(slot=slot, number=number, **values)  # type: ignore[arg-type]
