"""The reference of each problem as its own candidate, on a GPU: nothing may be claimed of it.

    python benchmarks/cuda_aa.py [--ids 1,12,23] [--scale official] [--jobs 4]

Verifies each (three fresh processes of 20 blocks). Prints one line of JSON for each problem, then
a summary: the largest half-width of an interval, claims above the noise floor, and the median time
of the reference over that of a file of eager times where one is given.
"""

from __future__ import annotations

import argparse
import json
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from archives.candidate import Candidate
from evaluator.evaluator import EvaluationRequest, Purpose
from evaluator.referee.cuda.station import CUDA_VERSION, CudaStation
from evaluator.referee.referee import Referee
from evaluator.referee.timing import LEAST_NOISE_FLOOR
from problems.catalogue import load_level, parse_ids
from problems.errors import EvoKernelError
from problems.problem import Problem, Scale

TWENTY = "1,2,4,6,9,12,19,21,23,25,32,36,40,47,51,63,82,88,95,97"


def verified(referee: Referee, problem: Problem, eager_ms: dict[int, float]) -> dict[str, Any]:
    """Verify a problem's reference against itself."""
    source = problem.source.replace("class Model(", "class ModelNew(")
    candidate = Candidate.of(problem.key, source)
    request = EvaluationRequest(problem=problem, candidate=candidate, purpose=Purpose.VERIFY)
    start = time.perf_counter()
    try:
        found = referee.evaluate(request)
    except EvoKernelError as error:
        return {"id": problem.id, "status": "ERROR", "log": str(error)}
    seconds = round(time.perf_counter() - start, 1)
    facts = {"id": problem.id, "status": str(found.status), "seconds": seconds, "log": found.log}
    if found.interval is None or found.speedup is None or found.reference_ms is None:
        return {**facts, "reason": found.reason}
    low, high = found.interval.low, found.interval.high
    eager = eager_ms.get(problem.id)
    return {
        **facts,
        "speedup": round(found.speedup, 4),
        "interval": [round(low, 4), round(high, 4)],
        "half_width": round((high - low) / 2, 4),
        "latency_ms": round(found.latency_ms or 0, 5),
        "reference_ms": round(found.reference_ms, 5),
        "over_eager": None if eager is None else round(found.reference_ms / eager, 3),
        "claimed": low > 1 + LEAST_NOISE_FLOOR or high < 1 - LEAST_NOISE_FLOOR,
    }


def eager_times(path: Path | None) -> dict[int, float]:
    """Read a file of eager times of level 1, in ms by problem."""
    if path is None:
        return {}
    rows = json.loads(path.read_text())["rows"]
    return {row["id"]: row["ms"]["eager"] for row in rows if row["level"] == 1}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ids", default=TWENTY)
    parser.add_argument("--scale", default="official")
    parser.add_argument("--jobs", type=int, default=4)
    parser.add_argument("--eager", type=Path, help="as tests/evaluator/h200_times.json")
    options = parser.parse_args()
    problems = load_level(1, Scale(options.scale), parse_ids(options.ids))
    eager_ms = eager_times(options.eager)
    referee = Referee(CudaStation())
    try:
        with ThreadPoolExecutor(options.jobs) as threads:
            found = []
            under_way = [threads.submit(verified, referee, one, eager_ms) for one in problems]
            for done in as_completed(under_way):
                found.append(done.result())
                print(json.dumps(found[-1]), flush=True)
    finally:
        referee.close()
    timed = [one for one in found if "speedup" in one]
    ratios = sorted(one["over_eager"] for one in timed if one["over_eager"])
    print(
        json.dumps(
            {
                "referee": CUDA_VERSION,
                "timed": len(timed),
                "of": len(found),
                "claims": [one["id"] for one in timed if one["claimed"]],
                "half_width_max": max((one["half_width"] for one in timed), default=None),
                "over_eager": ratios and [ratios[0], ratios[len(ratios) // 2], ratios[-1]],
            }
        )
    )


if __name__ == "__main__":
    main()
