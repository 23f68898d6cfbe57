"""The memory of a command is that of all its processes, orphans included."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "peak_memory.py"
MEGABYTE = 1 << 20

# Two processes that hold 100 MB each; with "orphan" the parent of the second one ends at once.
PROGRAM = """
import os, sys, time
first = os.fork()
if not first and sys.argv[1] == "orphan" and os.fork():
    os._exit(0)
held = b"x" * (100 << 20)
time.sleep(1.0)
if first:
    os.waitpid(first, 0)
sys.exit(int(sys.argv[2]))
"""


def measured(*command: str) -> tuple[int, float, str]:
    reply = subprocess.run(
        [sys.executable, str(SCRIPT), "--interval", "0.1", "--", *command],
        capture_output=True,
        text=True,
        check=False,
    )
    found = re.search(r"peak memory ([\d.]+) GB", reply.stderr)
    return reply.returncode, float(found[1]) * 1e9 if found else 0.0, reply.stderr


def test_the_processes_of_a_command_are_added_up() -> None:
    code, peak, text = measured(sys.executable, "-c", PROGRAM, "family", "0")
    assert code == 0, text
    assert 200 * MEGABYTE < peak < 300 * MEGABYTE, text


def test_orphans_count_and_the_exit_code_is_the_commands() -> None:
    code, peak, text = measured(sys.executable, "-c", PROGRAM, "orphan", "7")
    assert code == 7, text
    assert 200 * MEGABYTE < peak < 300 * MEGABYTE, text


def test_a_command_that_does_not_exist_is_named() -> None:
    code, _, text = measured("no-such-command-anywhere")
    assert code == 127
    assert text.count("\n") == 1
    assert "no-such-command-anywhere" in text
