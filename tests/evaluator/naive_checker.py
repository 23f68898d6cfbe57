"""A checker as many are: one process on one core, one seed, torch.allclose, its own clock.

Every cheat of the zoo passes it, which shows that the zoo tests something. Each candidate is run
in a fork, so that what it leaves behind does not spoil the next one.
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

CALLS = 200


def check(reference_source: str, candidate_source: str) -> dict[str, Any]:
    """Return whether a candidate looks right and how fast it looks."""
    reference_module: dict[str, Any] = {"__name__": "reference"}
    candidate_module: dict[str, Any] = {"__name__": "candidate"}
    exec(reference_source, reference_module)
    exec(candidate_source, candidate_module)
    init = reference_module["get_init_inputs"]()
    torch.manual_seed(42)
    reference = reference_module["Model"](*init)
    torch.manual_seed(42)
    candidate = candidate_module["ModelNew"](*init)
    torch.manual_seed(42)
    inputs = reference_module["get_inputs"]()
    kept = [value.clone() for value in inputs]
    with torch.no_grad():
        output = candidate(*inputs)
        expected = reference(*kept)
        time.sleep(0.05)
        right = torch.allclose(output, expected, atol=1e-2, rtol=1e-2)
        reference_s, candidate_s = (_call_s(model, inputs) for model in (reference, candidate))
    return {"right": bool(right), "speedup": reference_s / max(candidate_s, 1e-9)}


def _call_s(model: Any, inputs: list[Any]) -> float:  # noqa: ANN401
    """Mean time of a call in s, by the process's own clock."""
    start = time.perf_counter()
    for _ in range(CALLS):
        model(*inputs)
    return (time.perf_counter() - start) / CALLS


def main() -> None:
    """Check candidates against a reference; both are files named on the command line."""
    torch.set_num_threads(1)
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    reference, *candidates = sys.argv[1:]
    for name in candidates:
        pid = os.fork()
        if pid:
            os.waitpid(pid, 0)
            continue
        result = check(Path(reference).read_text(), Path(name).read_text())
        line = json.dumps({"candidate": Path(name).stem, **result})
        os.write(1, line.encode() + b"\n")
        os._exit(0)


if __name__ == "__main__":
    main()
