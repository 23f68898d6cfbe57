"""What comes after a disaster on a GPU: the next twenty verdicts are right."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from archives.candidate import Candidate
from archives.evaluation import Evaluation, Status
from evaluator.evaluator import EvaluationRequest
from evaluator.pool import Pool
from evaluator.processes import descendants
from evaluator.referee.cuda.station import CudaStation
from evaluator.referee.deadlines import Deadlines
from evaluator.referee.referee import Referee
from problems.problem import Problem
from tests.evaluator.referee_cases import FOLDER, SOFTMAX, TRIES, first_stable, problem_of

pytestmark = pytest.mark.gpu

TWENTY = 20
OTHER = problem_of(SOFTMAX.source.replace("128, 2048", "128, 4096"), name="Wider softmax")


@pytest.fixture(scope="module")
def referee() -> Iterator[Referee]:
    judge = Referee(CudaStation(deadlines=Deadlines(call_s=5, build_s=120)))
    yield judge
    judge.close()


def request_of(name: str, *, number: int = 0, problem: Problem = SOFTMAX) -> EvaluationRequest:
    """A kernel beside the tests; those of other numbers are other candidates."""
    source = (FOLDER / "cuda_kernels" / f"{name}.txt").read_text() + f"\n# {number}\n"
    return EvaluationRequest(problem=problem, candidate=Candidate.of(problem.key, source))


def judged_all(referee: Referee, requests: list[EvaluationRequest]) -> list[Evaluation]:
    """Judge candidates at once; what was too noisy for a verdict is asked for again."""
    with ThreadPoolExecutor(referee.in_flight) as threads:
        found = list(threads.map(referee.evaluate, requests))
    return [
        first_stable(referee, request) if one.status is Status.UNSTABLE else one
        for request, one in zip(requests, found, strict=True)
    ]


def require_twenty_right(referee: Referee) -> None:
    """Judge twenty kernels, right and wrong ones, at once."""
    names = ["softmax" if number % 4 else "writes_inputs" for number in range(TWENTY)]
    requests = [request_of(name, number=number + 1) for number, name in enumerate(names)]
    found = judged_all(referee, requests)
    wanted = [Status.OK if name == "softmax" else Status.MUTATED_INPUT for name in names]
    assert [one.status for one in found] == wanted, [one.log for one in found]


DISASTERS = [
    ("illegal_access", Status.RUNTIME_ERROR),
    ("device_assert", Status.RUNTIME_ERROR),
    ("endless", Status.TIMEOUT),
    ("too_much_memory", Status.OUT_OF_MEMORY),
    ("double_free", Status.CRASHED),
]


@pytest.mark.parametrize(("name", "status"), DISASTERS, ids=[name for name, _ in DISASTERS])
def test_twenty_verdicts_after_a_disaster_are_right(
    referee: Referee, name: str, status: Status
) -> None:
    assert referee.evaluate(request_of(name)).status is status
    require_twenty_right(referee)


def test_a_candidate_s_process_that_is_killed_has_crashed(referee: Referee) -> None:
    referee.evaluate(request_of("softmax"))
    before = set(descendants(os.getpid()))
    found: list[Evaluation] = []
    thread = threading.Thread(
        target=lambda: found.append(referee.evaluate(request_of("slow_host")))
    )
    thread.start()
    time.sleep(3)
    newest = [pid for pid in descendants(os.getpid()) if pid not in before]
    assert newest, "the candidate has no process"
    os.kill(newest[-1], signal.SIGKILL)
    thread.join(60)
    assert [(one.status, one.reason) for one in found] == [(Status.CRASHED, "killed_by_SIGKILL")], (
        found
    )
    require_twenty_right(referee)


def test_a_reference_s_process_that_is_killed_is_replaced(referee: Referee) -> None:
    before = set(descendants(os.getpid()))
    assert referee.evaluate(request_of("softmax", problem=OTHER)).status is Status.OK
    opened = [pid for pid in descendants(os.getpid()) if pid not in before]
    assert len(opened) == 1, "one reference worker stays when a problem was opened"
    os.kill(opened[0], signal.SIGKILL)
    verdict = first_stable(referee, request_of("softmax", number=1, problem=OTHER))
    assert verdict.status is Status.OK, verdict.log
    require_twenty_right(referee)


def test_an_actor_that_is_killed_is_replaced() -> None:
    text = request_of("slow_host").candidate.source.replace("sleep(1.0)", "sleep(0.1)")
    slow = EvaluationRequest(problem=SOFTMAX, candidate=Candidate.of(SOFTMAX.key, text))

    async def judged() -> list[Evaluation]:
        pool = Pool(device="cuda", num_actors=1, calibrate=False)
        await pool.start()
        try:
            await pool.evaluate(request_of("softmax"))
            pending = asyncio.ensure_future(pool.evaluate(slow))
            await asyncio.sleep(1)
            os.kill((await pool.actor_pids())[0], signal.SIGKILL)
            first = await pending
            requests = [request_of("softmax", number=number) for number in range(TWENTY)]
            found = await asyncio.gather(*map(pool.evaluate, requests))
            for _ in range(TRIES):
                noisy = [at for at, one in enumerate(found) if one.status is Status.UNSTABLE]
                for at in noisy:
                    found[at] = await pool.evaluate(requests[at])
            return [first, *found]
        finally:
            await pool.close()

    found = asyncio.run(judged())
    # It is slower than hopeless, and right.
    assert found[0].status in (Status.OK, Status.UNSTABLE), found[0]
    assert all(one.status is Status.OK for one in found[1:]), found
