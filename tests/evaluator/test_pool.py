"""The Ray pool: verdicts and errors cross it, and a killed actor loses nothing."""

from __future__ import annotations

import asyncio
import os
import signal
import time

import pytest

from archives.candidate import Candidate
from archives.evaluation import Evaluation, Status
from archives.rates import Rates
from evaluator.evaluator import EvaluationRequest
from evaluator.local import LocalEvaluator
from evaluator.pool import Pool, _Seat
from evaluator.referee.cpu import IN_FLIGHT, CpuStation
from evaluator.referee.deadlines import Deadlines
from evaluator.referee.referee import Referee
from problems.errors import EvaluatorError, ProblemError
from tests.evaluator.referee_cases import GIB, SOFTMAX, new_referee, problem_of, source_of

RATES = Rates(read_gbps=20, write_gbps=10, copy_gbps=15, fp32=0.1, launch_ms=0.002)
BROKEN = problem_of("def get_inputs():\n    return []\n", name="Broken")


def request_of(number: int) -> EvaluationRequest:
    source = source_of("honest/torch_expression") + f"\nNUMBER = {number}\n"
    return EvaluationRequest(problem=SOFTMAX, candidate=Candidate.of(SOFTMAX.key, source))


def was_judged(verdict: Evaluation) -> bool:
    return verdict.status in {Status.OK, Status.UNSTABLE}


async def _kill_one_of_two_actors() -> None:
    pool = Pool(num_actors=2, calibrate=False, rates=RATES)
    try:
        capacity = await pool.start()
        assert capacity.in_flight == 2 * IN_FLIGHT
        assert capacity.device.threads >= 1
        assert capacity.rates == RATES, "what a resumed run knows is not measured again"
        assert was_judged(await pool.evaluate(request_of(0)))
        graph = await pool.graph(SOFTMAX)
        assert [node.op for node in graph.nodes] == ["aten._softmax.default"]
        candidate = Candidate.of(BROKEN.key, source_of("honest/torch_expression"))
        broken = EvaluationRequest(problem=BROKEN, candidate=candidate)
        with pytest.raises(ProblemError, match="Broken"):
            await pool.evaluate(broken)
        victims = await pool.actor_pids()
        work = [asyncio.create_task(pool.evaluate(request_of(n))) for n in range(1, 9)]
        done, _ = await asyncio.wait(work, return_when=asyncio.FIRST_COMPLETED)
        assert done
        os.kill(victims[0], signal.SIGKILL)
        verdicts = await asyncio.gather(*work)
        assert len(verdicts) == 8
        assert all(was_judged(verdict) for verdict in verdicts), verdicts
        survivors = await pool.actor_pids()
        assert victims[0] not in survivors
        assert len(survivors) == 2
    finally:
        await pool.close()


def test_a_killed_actor_is_replaced_and_its_work_done_again() -> None:
    asyncio.run(_kill_one_of_two_actors())


def test_a_candidate_whose_actor_dies_twice_gets_a_verdict(
    caplog: pytest.LogCaptureFixture,
) -> None:
    hanging = source_of("honest/torch_expression").replace(
        "return", "__import__('time').sleep(1000)\n        return"
    )
    request = EvaluationRequest(problem=SOFTMAX, candidate=Candidate.of(SOFTMAX.key, hanging))

    async def run() -> None:
        pool = Pool(calibrate=False)
        try:
            await pool.start()
            work = asyncio.create_task(pool.evaluate(request))
            for tried in ("try 1 of 2", "try 2 of 2"):
                (victim,) = await pool.actor_pids()
                os.kill(victim, signal.SIGKILL)
                while tried not in caplog.text:
                    await asyncio.sleep(0.02)
            verdict = await work
            assert (verdict.status, verdict.reason) == (Status.CRASHED, "evaluator_died")
            assert was_judged(await pool.evaluate(request_of(0)))
        finally:
            await pool.close()

    asyncio.run(asyncio.wait_for(run(), timeout=120))


def test_a_problem_stays_where_it_is_open_unless_others_have_little_to_do() -> None:
    pool = Pool(num_actors=2)
    home, other = _Seat(actor=None, room=4), _Seat(actor=None, room=4)
    pool._seats = [home, other]
    home.problems["open there"] = None
    home.busy = 3
    assert pool._seat_for("open there") is home
    assert pool._seat_for("new") is other
    home.busy, other.busy = 4, 2
    assert pool._seat_for("open there") is None
    assert pool._seat_for("new") is other
    other.busy = 1
    assert pool._seat_for("open there") is other


def test_a_pool_that_was_not_started_says_so() -> None:
    with pytest.raises(EvaluatorError, match="start it first"):
        asyncio.run(Pool().evaluate(request_of(0)))


def test_the_local_evaluator_does_the_same_without_ray() -> None:
    async def run() -> None:
        local = LocalEvaluator(new_referee())
        try:
            capacity = await local.start()
            assert capacity.noise_floor >= 0.015
            verdicts = await asyncio.gather(*(local.evaluate(request_of(n)) for n in range(3)))
            assert all(was_judged(verdict) for verdict in verdicts)
            with pytest.raises(ProblemError, match="Broken"):
                await local.graph(BROKEN)
        finally:
            await local.close()

    asyncio.run(run())


def test_closing_the_local_evaluator_breaks_off_what_is_under_way() -> None:
    shifted = "shifted = torch.exp"
    source = source_of("honest/torch_expression")
    assert shifted in source
    source = source.replace(shifted, f"__import__('time').sleep(600); {shifted}")
    hanging = EvaluationRequest(problem=SOFTMAX, candidate=Candidate.of(SOFTMAX.key, source))

    async def run() -> float:
        deadlines = Deadlines(build_s=20, call_s=300)
        local = LocalEvaluator(Referee(CpuStation(deadlines=deadlines, candidate_bytes=GIB)))
        await local.start()
        judging = asyncio.ensure_future(local.evaluate(hanging))
        await asyncio.sleep(3)
        assert not judging.done(), "it hangs"
        judging.cancel()
        started = time.monotonic()
        await local.close()
        return time.monotonic() - started

    assert asyncio.run(run()) < 30
