"""Where threads and processes run, and who goes first.

On a host with other work a timed leg is cut into slices, and niceness does not help where each
session has a scheduling group of its own. So what is timed, and the thread with the clock, take
the lowest real-time priority where that is permitted (to root, usually); elsewhere nothing
changes. The kernel leaves 5 % of a core to the others, and a deadline ends whatever hangs.

Linux keeps these settings for each thread: a caller's other threads are left alone.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress

__all__ = ["prefer_process", "thread_settings"]

REAL_TIME_PRIORITY = 1


def prefer_process(pid: int) -> None:
    """Let a process that is to be timed, and threads it starts later, precede others."""
    with suppress(PermissionError, ProcessLookupError):
        os.sched_setscheduler(pid, os.SCHED_RR, os.sched_param(REAL_TIME_PRIORITY))


@contextmanager
def thread_settings(cpus: Iterable[int], *, preferred: bool) -> Iterator[None]:
    """Run the calling thread on some cores for the block, then where it ran before.

    Args:
        cpus: The cores.
        preferred: Whether it precedes other work, which nothing that it starts inherits; else it
            has no privilege, like what it starts.
    """
    thread = threading.get_native_id()
    affinity = os.sched_getaffinity(0)
    policy, parameter = os.sched_getscheduler(thread), os.sched_getparam(thread)
    wanted = (
        (os.SCHED_RR | os.SCHED_RESET_ON_FORK, REAL_TIME_PRIORITY)
        if preferred
        else (os.SCHED_OTHER, 0)
    )
    try:
        os.sched_setaffinity(0, cpus)
        with suppress(PermissionError):
            os.sched_setscheduler(thread, wanted[0], os.sched_param(wanted[1]))
        yield
    finally:
        os.sched_setaffinity(0, affinity)
        with suppress(PermissionError):
            os.sched_setscheduler(thread, policy, parameter)
