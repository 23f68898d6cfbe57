"""What the device at hand reaches: memory by reading, writing and copying, products by precision.

    python benchmarks/device_rates.py [cuda|cpu]

Prints JSON. Nothing else may use the device meanwhile.
"""

from __future__ import annotations

import json
import sys
import time
from functools import partial

import torch

from evaluator.worker.rates import measure_rates


def main() -> None:
    """Measure and print."""
    device = torch.device(sys.argv[1] if len(sys.argv) > 1 else "cuda")
    name = torch.cuda.get_device_name() if device.type == "cuda" else "cpu"
    start = time.perf_counter()
    rates = measure_rates(device, partial(print, file=sys.stderr))
    print(
        json.dumps(
            {
                "device": name,
                "torch": torch.__version__,
                "seconds": round(time.perf_counter() - start, 2),
                **{key: round(value, 4) for key, value in rates.to_json().items() if value},
            },
            indent=1,
        )
    )


if __name__ == "__main__":
    main()
