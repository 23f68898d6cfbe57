"""A real Ray cluster of three nodes on this machine, whose GPUs are only said to be there."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from archives.candidate import Candidate
from archives.evaluation import Status
from evaluator import pool as pool_module
from evaluator import succession
from evaluator.cluster import num_gpus_at
from evaluator.evaluator import EvaluationRequest
from evaluator.pool import Pool
from problems.errors import EvaluatorError
from tests.evaluator.referee_cases import SOFTMAX

HEALTH = {
    "health_check_initial_delay_ms": 1000,
    "health_check_period_ms": 1000,
    "health_check_failure_threshold": 5,
}
"""How Ray finds out that a node is gone: in seconds, where it would take half a minute."""
GIVEN_UP_S = 4.0


def request_of(number: int, *, seconds: int = 1) -> EvaluationRequest:
    """A request that the actor below takes some seconds for."""
    candidate = Candidate.of(SOFTMAX.key, f"NUMBER = {number}\nSECONDS = {seconds}\n")
    return EvaluationRequest(problem=SOFTMAX, candidate=candidate)


def actor_without_a_gpu() -> type:
    """A class that travels to the nodes as a whole, and says on which one it judges."""

    class Stand:
        def __init__(self, device: str, rates: object, deadlines: object) -> None:
            import ray

            self.node: str = ray.get_runtime_context().get_node_id()

        def host(self) -> str:
            return self.node

        def pid(self) -> int:
            import os

            return os.getpid()

        def start(self, *, calibrate: bool) -> tuple[str, object]:
            from archives.evaluation import DeviceFingerprint
            from evaluator.evaluator import Capacity

            device = DeviceFingerprint(
                kind="cuda", name="NVIDIA Test", uuid=f"GPU-{self.node}", threads=0, versions={}
            )
            return "ok", Capacity(device=device, in_flight=4, noise_floor=0.015, memory_bytes=1)

        def evaluate(self, request: EvaluationRequest) -> tuple[str, object]:
            import time

            from archives.evaluation import Evaluation, Status

            time.sleep(int(request.candidate.source.split()[-1]))
            return "ok", Evaluation(status=Status.UNSTABLE, reason="noisy_host", log=self.node)

        def close(self) -> None:
            pass

    return Stand


@pytest.fixture
def cluster() -> Iterator[Any]:
    from ray.cluster_utils import Cluster

    head = {"num_cpus": 1, "include_dashboard": False, "_system_config": HEALTH}
    made = Cluster(initialize_head=True, head_node_args=head)
    try:
        yield made
    finally:
        made.shutdown()


async def _lose_one_node_after_the_other(
    cluster: Any,  # noqa: ANN401 - Ray's cluster has no type
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = [cluster.add_node(num_cpus=1, num_gpus=1) for _ in range(2)]
    nodes = {node.node_id: node for node in made}
    assert num_gpus_at(cluster.address) == 2
    pool = Pool(device="cuda", address=cluster.address)
    try:
        capacity = await pool.start()
        assert capacity.in_flight == 8, "the head has no GPU, each other node has one"
        first = await asyncio.gather(*(pool.evaluate(request_of(n)) for n in range(8)))
        assert {verdict.log for verdict in first} == nodes.keys()
        monkeypatch.setattr(succession, "PLACED_S", GIVEN_UP_S)
        requests = [request_of(n, seconds=5 if n < 16 else 1) for n in range(8, 20)]
        work = [asyncio.create_task(pool.evaluate(request)) for request in requests]
        await asyncio.sleep(0.5)
        gone, left = nodes
        await asyncio.to_thread(cluster.remove_node, nodes[gone], allow_graceful=False)
        verdicts = await asyncio.wait_for(asyncio.gather(*work), timeout=60)
        assert {verdict.status for verdict in verdicts} == {Status.UNSTABLE}, verdicts
        assert {verdict.log for verdict in verdicts} == {left}
        while "1 go on" not in caplog.text:
            await asyncio.sleep(0.1)
        assert f"GPU-{gone} of host {gone} died" in caplog.text
        assert (await pool.evaluate(request_of(20))).log == left
        waiting = asyncio.create_task(pool.evaluate(request_of(21, seconds=600)))
        await asyncio.sleep(0.5)
        await asyncio.to_thread(cluster.remove_node, nodes[left], allow_graceful=False)
        with pytest.raises(EvaluatorError) as failure:
            await asyncio.wait_for(waiting, timeout=60)
        for part in (f"GPU-{left}", f"{GIVEN_UP_S:.0f} s", "'evokernel resume'"):
            assert part in str(failure.value)
    finally:
        await pool.close()


def test_a_pool_goes_on_without_the_nodes_that_die_and_says_when_none_is_left(
    cluster: Any,  # noqa: ANN401 - Ray's cluster has no type
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pool_module, "RefereeActor", actor_without_a_gpu())
    with caplog.at_level(logging.WARNING):
        work = _lose_one_node_after_the_other(cluster, caplog, monkeypatch)
        asyncio.run(asyncio.wait_for(work, timeout=200))


def test_an_address_where_nobody_listens_is_refused_at_once() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
        with pytest.raises(EvaluatorError, match=f"no Ray cluster answers at {address}"):
            asyncio.run(Pool(address=address).start())


def test_an_address_that_is_none_is_refused_in_a_sentence() -> None:
    with pytest.raises(EvaluatorError, match="could not be joined as the cluster at nonsense"):
        num_gpus_at("nonsense")
