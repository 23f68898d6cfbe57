"""Writers that are killed: forks of one process, so that imports are paid for once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType

__all__ = ["Writers"]

_ROOT = Path(__file__).parents[2]
_ENDED = "\0ended\n"
"""What follows the last line of a writer, which may have been cut off."""
_FORKS = """
import os, pathlib, sys

for line in sys.stdin:
    child = os.fork()
    if child == 0:
        print(os.getpid(), flush=True)
        write(pathlib.Path(line.strip()))
        sys.exit("a writer goes on until it is killed")
    os.waitpid(child, 0)
    print("\\0ended", flush=True)
"""


class Writers:
    """Starts writers of a run, one after the other, and kills each; use it as a context."""

    def __init__(self, program: str) -> None:
        """Prepare it.

        Args:
            program: Text of a module with `write(run: Path)`, which prints a line for each thing
                that it has recorded and never returns.
        """
        self._command = [sys.executable, "-c", program + _FORKS]

    def __enter__(self) -> Writers:
        self._process = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=_ROOT,
            start_new_session=True,
        )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.communicate()

    def kill(self, run: Path, num_lines: int, delay_s: float) -> list[str]:
        """Let a writer record, kill it, and return the whole lines that it printed.

        Args:
            run: Folder of the run.
            num_lines: Lines to wait for.
            delay_s: Seconds from then to the kill.
        """
        assert self._process.stdin is not None
        self._process.stdin.write(f"{run}\n")
        self._process.stdin.flush()
        writer = int(self._line())
        lines: list[str] = []
        for _ in range(num_lines):
            lines.append(self._line())
            assert not lines[-1].endswith(_ENDED), "the writer ended by itself"
        time.sleep(delay_s)
        os.kill(writer, signal.SIGKILL)
        while not (line := self._line()).endswith(_ENDED):
            lines.append(line)
        return lines

    def _line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line.endswith("\n"), "the process that starts writers has ended"
        return line
