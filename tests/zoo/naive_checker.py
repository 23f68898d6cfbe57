"""A checker as many are: one process on one core, one seed, torch.allclose, its own clock.

Every cheat of the zoo that runs on a CPU passes it, which shows that the zoo tests something. Each
candidate is run in a fork, so that what it leaves behind does not spoil the next one.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import torch

__all__ = ["check"]

CALLS = 40
READINGS = 5
"""Each side's time is the least of so many: a busy host must not decide what the zoo proves."""


def check(reference_source: str, candidate_source: str) -> dict[str, Any]:
    """Return whether a candidate looks right and how fast it looks."""
    module: dict[str, Any] = {"__name__": "checked"}
    exec(reference_source, module)
    exec(candidate_source, module)
    init = module["get_init_inputs"]()
    torch.manual_seed(42)
    reference = module["Model"](*init)
    torch.manual_seed(42)
    candidate = module["ModelNew"](*init)
    torch.manual_seed(42)
    inputs = module["get_inputs"]()
    kept = [value.clone() for value in inputs]
    with torch.no_grad():
        expected = reference(*kept)
        output = candidate(*inputs)
        time.sleep(0.05)
        right = torch.allclose(output.float(), expected, atol=1e-2, rtol=1e-2)
        readings = [
            [_call_s(model, inputs) for model in (reference, candidate)] for _ in range(READINGS)
        ]
        reference_s, candidate_s = (min(column) for column in zip(*readings, strict=True))
    return {"right": bool(right), "speedup": reference_s / max(candidate_s, 1e-9)}


def _call_s(model: Any, inputs: list[Any]) -> float:  # noqa: ANN401
    """Mean time of a call in s, by the process's own clock."""
    start = time.perf_counter()
    for _ in range(CALLS):
        model(*inputs)
    return (time.perf_counter() - start) / CALLS


def main() -> None:
    """Check candidates; the command line names a folder with pairs NAME.ref and NAME.py."""
    torch.set_num_threads(1)
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    for path in sorted(Path(sys.argv[1]).glob("*.py")):
        pid = os.fork()
        if pid:
            os.waitpid(pid, 0)
            continue
        result: dict[str, Any]
        try:
            result = check(path.with_suffix(".ref").read_text(), path.read_text())
        except Exception as error:  # noqa: BLE001 - whatever a candidate raises
            result = {"right": False, "speedup": 0.0, "error": repr(error)}
        line = json.dumps({"candidate": path.stem, **result})
        os.write(1, line.encode() + b"\n")
        os._exit(0)


if __name__ == "__main__":
    main()
