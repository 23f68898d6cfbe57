"""How much memory a command takes at its peak, all its processes together.

    python benchmarks/peak_memory.py [--interval SECONDS] -- COMMAND...

Runs the command and adds up, every half second, the memory of all processes that descend from it:
the proportional set size (PSS), which counts a page shared by n processes as 1/n in each, so that
the sum counts it once. Processes whose parent has ended count too. At the end it prints peak and
wall time to stderr, and exits as the command did.

Not seen: a peak shorter than the interval, files in a tmpfs that no process has mapped, and
processes of other users where this one may not read their pages.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

from evaluator.processes import descendants, memory_bytes
from evaluator.worker.kernel import prctl

PR_SET_CHILD_SUBREAPER = 36
NOT_STARTED = 127
KILLED = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class Peak:
    """What a command took.

    Attributes:
        memory_bytes: Largest sum of PSS that was seen.
        processes: How many processes shared it.
        at_s: When that was, seconds after the start.
        wall_s: How long the command ran.
        exit_code: Its exit code, negative for a signal.
    """

    memory_bytes: int
    processes: int
    at_s: float
    wall_s: float
    exit_code: int


def measure(command: Sequence[str], interval_s: float) -> Peak:
    """Run a command and watch it; orphans become children of this process, for good.

    Raises:
        OSError: The command cannot be started.
    """
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    # Ctrl-C reaches the whole foreground group: the command decides what becomes of it.
    signal.signal(signal.SIGINT, lambda *_: None)
    start = time.monotonic()
    peak, processes, at_s = 0, 0, 0.0
    with subprocess.Popen(command) as child:  # noqa: S603 - the user's own command
        while True:
            members = descendants(os.getpid())[1:]
            total = sum(memory_bytes(member) for member in members)
            if total > peak:
                peak, processes, at_s = total, len(members), time.monotonic() - start
            try:
                code = child.wait(timeout=interval_s)
            except subprocess.TimeoutExpired:
                continue
            return Peak(
                memory_bytes=peak,
                processes=processes,
                at_s=at_s,
                wall_s=time.monotonic() - start,
                exit_code=code,
            )


def main() -> int:
    """Print the peak; return the command's exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--interval", type=float, default=0.5, help="seconds between two looks")
    parser.add_argument("command", nargs="+", help="after --: what is to be run")
    arguments = parser.parse_args()
    try:
        peak = measure(arguments.command, arguments.interval)
    except OSError as error:
        print(f"peak_memory: {arguments.command[0]} cannot be run: {error}", file=sys.stderr)
        return NOT_STARTED
    print(
        f"peak memory {peak.memory_bytes / 1e9:.3f} GB (sum of PSS of {peak.processes} processes, "
        f"{peak.at_s:.1f} s after the start), wall time {peak.wall_s:.1f} s",
        file=sys.stderr,
    )
    return peak.exit_code if peak.exit_code >= 0 else KILLED - peak.exit_code


if __name__ == "__main__":
    sys.exit(main())
