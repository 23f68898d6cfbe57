"""Ray for the pool: started on this machine or joined, asked, and left.

The only module that imports Ray.
"""

from __future__ import annotations

import logging
import os
import socket
import tempfile
from collections.abc import Awaitable
from types import ModuleType
from typing import Any, TypeVar

from problems.errors import EvaluatorError

__all__ = ["LOCAL", "ActorDied", "RaySession", "num_gpus_at", "outcome"]

T = TypeVar("T")
LOCAL = "local"
"""The address that stands for a Ray of this machine, started for the run alone."""
_REACHED_S = 5.0
"""Seconds within which a cluster takes a connection; Ray itself tries for minutes."""


class ActorDied(Exception):
    """An actor died before it answered."""


class RaySession:
    """Ray as one program uses it: its own, or a cluster that runs already."""

    def __init__(self, address: str | None = None) -> None:
        """Prepare it; nothing is started or joined before `start`.

        Args:
            address: Of a cluster that runs already, as Ray reads it; None or "local": Ray is
                started on this machine.
        """
        self._address = address or LOCAL
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._ours = False

    @property
    def words(self) -> str:
        """Where it is, for people."""
        return "this machine" if self._address == LOCAL else f"the cluster at {self._address}"

    def start(self) -> None:
        """Start Ray or join it, unless this process has done so already.

        Raises:
            EvaluatorError: It does not start, or nobody answers at the address.
        """
        ray = _ray()
        if ray.is_initialized():
            return
        if self._address != LOCAL:
            _require_reachable(self._address)
        self._folder = tempfile.TemporaryDirectory(prefix="evokernel-ray-")
        settings: dict[str, Any] = {
            # Said in any case: else RAY_ADDRESS, or a cluster that runs here, would be joined.
            "address": self._address,
            "namespace": "evokernel",
            # Else a stray evaluator.py in the user's folder would win over ours.
            "runtime_env": {"working_dir": self._folder.name},
            "log_to_driver": False,
            "logging_level": logging.ERROR,
        }
        if self._address == LOCAL:
            settings |= {"include_dashboard": False, "num_cpus": max(os.cpu_count() or 1, 2)}
        try:
            ray.init(**settings)
        except (ConnectionError, OSError, RuntimeError, ValueError) as error:
            self.stop()
            done = "started on" if self._address == LOCAL else "joined as"
            raise EvaluatorError(f"Ray could not be {done} {self.words}: {error}") from error
        self._ours = True

    def num_gpus(self) -> int:
        """Return how many GPUs the live nodes have, whoever uses them."""
        return int(_ray().cluster_resources().get("GPU", 0))

    def new_actor(self, kind: type, options: dict[str, Any], *arguments: object) -> Any:  # noqa: ANN401 - Ray's handles have no type
        """Ask for an actor; Ray finds a place for it when it can.

        Args:
            kind: Its class.
            options: What Ray is to reserve for it, and how it behaves.
            arguments: For its constructor.
        """
        return _ray().remote(kind).options(**options).remote(*arguments)

    def kill(self, actor: Any) -> None:  # noqa: ANN401 - Ray's handles have no type
        """End an actor, or withdraw one that has no place yet; what it held becomes free."""
        _ray().kill(actor)

    def stop(self) -> None:
        """End Ray, or leave the cluster, where `start` started or joined it."""
        if self._ours:
            _ray().shutdown()
            self._ours = False
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None


def num_gpus_at(address: str) -> int:
    """Return how many GPUs a cluster has; it is joined and left.

    Args:
        address: Of the cluster, as Ray reads it.

    Raises:
        EvaluatorError: Nobody answers there, or it cannot be joined.
    """
    session = RaySession(address)
    try:
        session.start()
        return session.num_gpus()
    finally:
        session.stop()


async def outcome(reference: Awaitable[T]) -> T:
    """Wait for an actor's answer.

    Raises:
        ActorDied: The actor died first, or can have no place.
        EvaluatorError: Ray itself fails.
    """
    errors = _ray().exceptions
    try:
        return await reference
    except (errors.RayActorError, errors.ActorUnschedulableError) as error:
        raise ActorDied(" ".join(str(error).split())) from error
    except errors.RayError as error:
        said = str(error).strip().splitlines() or [type(error).__name__]
        raise EvaluatorError(f"an evaluator process gave no answer through Ray: {said[-1]}") from (
            error
        )


def _require_reachable(address: str) -> None:
    """Require that something listens at a plain HOST:PORT; what else Ray reads is left to it."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or "/" in host:
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_REACHED_S).close()
    except (OSError, OverflowError) as error:
        raise EvaluatorError(
            f"no Ray cluster answers at {address} ({error}): start one with 'ray start --head' "
            "and give the address that it prints, or leave --ray-address out to use this machine"
        ) from error


def _ray() -> ModuleType:
    """Import Ray at its first use: it takes a second."""
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    import ray

    module: ModuleType = ray
    return module
