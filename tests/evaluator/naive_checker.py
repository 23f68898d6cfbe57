"""A checker as many are: one process, one seed, torch.allclose, the process's own clock.

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
        times = []
        for model in (reference, candidate):
            start = time.perf_counter()
            for _ in range(3):
                model(*inputs)
            times.append(time.perf_counter() - start)
    return {"right": bool(right), "speedup": times[0] / max(times[1], 1e-12)}


def main() -> None:
    """Check candidates against a reference; both are files named on the command line."""
    torch.set_num_threads(1)
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
