"""The Ray pool: verdicts and errors cross it, and a killed actor loses nothing."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

import pytest

from archives.candidate import Candidate
from archives.evaluation import DeviceFingerprint, Evaluation, Status
from archives.rates import Rates
from evaluator import pool as pool_module
from evaluator import succession
from evaluator.evaluator import Capacity, EvaluationRequest
from evaluator.local import LocalEvaluator
from evaluator.pool import Pool
from evaluator.processes import descendants
from evaluator.referee.cpu import IN_FLIGHT, CpuStation
from evaluator.referee.deadlines import Deadlines
from evaluator.referee.referee import Referee
from evaluator.seats import Seat, free_seat, joined
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
            while not work.done():
                (victim,) = await pool.actor_pids()
                while not descendants(victim) and not work.done():
                    await asyncio.sleep(0.02)
                seen = caplog.text.count("process died")
                os.kill(victim, signal.SIGKILL)
                # A new actor that dies before it is asked costs the candidate none of its tries.
                while caplog.text.count("process died") == seen and not work.done():
                    await asyncio.sleep(0.02)
            assert "try 2 of 2" in caplog.text
            verdict = await work
            assert (verdict.status, verdict.reason) == (Status.CRASHED, "evaluator_died")
            assert was_judged(await pool.evaluate(request_of(0)))
        finally:
            await pool.close()

    asyncio.run(asyncio.wait_for(run(), timeout=120))


def test_a_problem_stays_where_it_is_open_unless_others_have_little_to_do() -> None:
    home, other = Seat(actor=None, room=4), Seat(actor=None, room=4)
    seats = [home, other]
    home.problems["open there"] = None
    home.busy = 3
    assert free_seat(seats, "open there") is home
    assert free_seat(seats, "new") is other
    home.busy, other.busy = 4, 2
    assert free_seat(seats, "open there") is None
    assert free_seat(seats, "new") is other
    other.busy = 1
    assert free_seat(seats, "open there") is other


VERSIONS = {"torch": "2.9", "triton": "3.5", "cuda": "12.8", "driver": "570.1"}
H200 = DeviceFingerprint(
    kind="cuda", name="NVIDIA H200", uuid="GPU-1", threads=0, versions=VERSIONS
)
CPU = DeviceFingerprint(kind="cpu", name="EPYC", uuid="a", threads=1, versions={})


def capacity_on(device: DeviceFingerprint, version: str = "cuda-9") -> Capacity:
    return Capacity(
        device=device, in_flight=3, noise_floor=0.02, memory_bytes=GIB, referee_version=version
    )


def with_version(part: str, version: str) -> DeviceFingerprint:
    return replace(H200, versions={**VERSIONS, part: version})


@pytest.mark.parametrize(
    ("other", "unlike"),
    [
        (capacity_on(replace(H200, name="NVIDIA A100")), "NVIDIA H200, the second is NVIDIA A100"),
        (capacity_on(with_version("driver", "580.2")), "has driver 570.1, the second has 580.2"),
        (capacity_on(with_version("torch", "2.8")), "has torch 2.9, the second has 2.8"),
        (capacity_on(with_version("triton", "3.4")), "has triton 3.5, the second has 3.4"),
        (capacity_on(H200, "cuda-8"), "has referee cuda-9, the second has cuda-8"),
        (capacity_on(CPU), "the second is EPYC, 1 thread of another machine"),
    ],
)
def test_devices_whose_numbers_would_not_compare_are_refused(other: Capacity, unlike: str) -> None:
    with pytest.raises(EvaluatorError, match=f"^one of a and two of b cannot .*{unlike}"):
        joined([capacity_on(H200), other], ["one of a", "two of b"])


def test_cpus_of_two_hosts_are_refused() -> None:
    with pytest.raises(EvaluatorError, match="of another machine"):
        joined([capacity_on(CPU), capacity_on(replace(CPU, uuid="b"))], ["one", "two"])


def test_gpus_of_one_model_take_the_sum_and_the_least_of_both() -> None:
    other = capacity_on(replace(H200, uuid="GPU-2"))
    other = replace(other, memory_bytes=GIB // 2, noise_floor=0.03, noisy=True)
    both = joined([capacity_on(H200), other], ["one", "two"])
    assert (both.in_flight, both.noise_floor, both.memory_bytes) == (6, 0.03, GIB // 2)
    assert both.noisy
    assert both.device == H200


@dataclass(eq=False, kw_only=True)
class StandIn:
    """An actor's handle, without Ray.

    Attributes:
        device: Where it measures.
        has_place: Else it never answers.
        dies_of: Name of the method from whose call on it is dead; "": it lives.
        is_dead: Whether it answers nothing any more.
    """

    device: DeviceFingerprint = H200
    has_place: bool = True
    dies_of: str = ""
    is_dead: bool = False

    def __getattr__(self, name: str) -> Method:
        return Method(lambda: self._answer(name))

    async def _answer(self, name: str) -> object:
        import ray

        if not self.has_place:
            await asyncio.sleep(1000)
        await asyncio.sleep(0.01)
        self.is_dead |= name == self.dies_of
        if self.is_dead:
            raise ray.exceptions.ActorDiedError
        verdict = Evaluation(status=Status.UNSTABLE, reason="noisy_host")
        answers = {"start": ("ok", capacity_on(self.device)), "evaluate": ("ok", verdict)}
        return answers.get(name, "host-1")


@dataclass
class Method:
    answer: Callable[[], Awaitable[object]]

    def remote(self, *arguments: object, **options: object) -> Awaitable[object]:
        return self.answer()


class StandInRay:
    """A cluster that gives the actors it was made with, in their order, and lists whom it ends."""

    words = "the cluster at x:1"

    def __init__(self, *actors: StandIn, gpus: int) -> None:
        self._actors = list(actors)
        self._gpus = gpus
        self.killed: list[object] = []

    def start(self) -> None:
        pass

    def stop(self) -> None:
        pass

    def num_gpus(self) -> int:
        return self._gpus

    def new_actor(self, kind: type, options: dict[str, object], *arguments: object) -> object:
        assert options["num_gpus"] == 1
        return self._actors.pop(0)

    def kill(self, actor: object) -> None:
        self.killed.append(actor)


@pytest.fixture
def pool_with(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Pool]:
    def make(*actors: StandIn, gpus: int, within_s: float = 5.0) -> Pool:
        stand_in = StandInRay(*actors, gpus=gpus)
        monkeypatch.setattr(pool_module, "RaySession", lambda address: stand_in)
        monkeypatch.setattr(succession, "PLACED_S", within_s)
        monkeypatch.setattr(pool_module, "PLACED_S", within_s)
        return Pool(device="cuda")

    return make


async def verdicts_of(pool: Pool, *, num: int = 1) -> list[Evaluation]:
    await pool.start()
    try:
        work = asyncio.gather(*(pool.evaluate(request_of(n)) for n in range(num)))
        return await asyncio.wait_for(work, timeout=20)
    finally:
        await pool.close()


def test_a_pool_of_two_models_does_not_start(pool_with: Callable[..., Pool]) -> None:
    other = StandIn(device=replace(H200, name="NVIDIA A100", uuid="GPU-2"))
    with pytest.raises(EvaluatorError, match=r"^NVIDIA H200 GPU-1 of host host-1 and NVIDIA A100"):
        asyncio.run(verdicts_of(pool_with(StandIn(), other, gpus=2)))


def test_a_pool_whose_referees_find_no_place_says_so(pool_with: Callable[..., Pool]) -> None:
    pool = pool_with(StandIn(), StandIn(has_place=False), gpus=2, within_s=0.2)
    with pytest.raises(EvaluatorError, match=r"x:1 had no place for one of 2 referees within 0 s"):
        asyncio.run(verdicts_of(pool))


def test_a_referee_that_dies_as_it_starts_is_told_in_a_sentence(
    pool_with: Callable[..., Pool],
) -> None:
    with pytest.raises(EvaluatorError, match="died while it started"):
        asyncio.run(verdicts_of(pool_with(StandIn(dies_of="start"), gpus=1)))


def test_a_seat_without_a_successor_is_given_up_and_the_others_do_its_work(
    pool_with: Callable[..., Pool], caplog: pytest.LogCaptureFixture
) -> None:
    pool = pool_with(
        StandIn(dies_of="evaluate"), StandIn(), StandIn(has_place=False), gpus=2, within_s=0.2
    )

    async def run() -> None:
        await pool.start()
        verdicts = await asyncio.gather(*(pool.evaluate(request_of(n)) for n in range(9)))
        assert {verdict.reason for verdict in verdicts} == {"noisy_host"}
        assert len(await pool.actor_pids()) == 1
        await pool.close()

    asyncio.run(asyncio.wait_for(run(), timeout=20))
    assert "found no place for another one within 0 s; 1 go on" in caplog.text


@pytest.mark.parametrize(
    ("successors", "reason"),
    [
        ([StandIn(has_place=False)], "Ray found no place for another one within 0 s"),
        (
            [StandIn(device=with_version("driver", "1"))],
            "cannot stand for it: the first has driver",
        ),
        ([StandIn(dies_of="host"), StandIn(dies_of="start")], "next 2 died while they started"),
    ],
)
def test_without_a_seat_whoever_waits_hears_what_died_and_how_to_go_on(
    pool_with: Callable[..., Pool], successors: list[StandIn], reason: str
) -> None:
    pool = pool_with(StandIn(dies_of="evaluate"), *successors, gpus=1, within_s=0.2)
    with pytest.raises(EvaluatorError) as failure:
        asyncio.run(verdicts_of(pool, num=8))
    assert "no referee is left: the last one, on NVIDIA H200 GPU-1 of" in str(failure.value)
    assert reason in str(failure.value)
    assert "'evokernel resume'" in str(failure.value)


def test_a_successor_that_dies_as_it_starts_has_a_successor(pool_with: Callable[..., Pool]) -> None:
    pool = pool_with(StandIn(dies_of="evaluate"), StandIn(dies_of="start"), StandIn(), gpus=1)
    (verdict,) = asyncio.run(verdicts_of(pool))
    assert verdict.reason == "noisy_host"


def test_a_candidate_is_not_blamed_for_a_node_that_dies_with_all_its_gpus(
    pool_with: Callable[..., Pool],
) -> None:
    """Its second try would go to an actor that is dead already, as nobody has noticed yet."""
    first, second, third = StandIn(dies_of="evaluate"), StandIn(), StandIn()
    pool = pool_with(first, second, third, StandIn(), StandIn(), StandIn(), gpus=3)

    async def run() -> Evaluation:
        await pool.start()
        second.is_dead = third.is_dead = True
        verdict = await pool.evaluate(request_of(0))
        await pool.close()
        return verdict

    assert asyncio.run(asyncio.wait_for(run(), timeout=20)).reason == "noisy_host"


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
