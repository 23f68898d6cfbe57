"""The made-up world as if it were an H200: verdicts of a GPU, and what torch reaches there."""

from __future__ import annotations

from dataclasses import replace

from archives.evaluation import DeviceFingerprint, Evaluation
from archives.rates import Rates
from evaluator.evaluator import Capacity, EvaluationRequest
from evokernel.baselines import Baseline, ProblemBaseline, Setting
from tests.evokernel import landscape as world

GPU = DeviceFingerprint(
    kind="cuda",
    name="NVIDIA H200",
    uuid="gpu-0",
    threads=0,
    versions={"torch": "2.11.0", "driver": "580.1"},
)
RATES = Rates(
    read_gbps=4534, write_gbps=4670, copy_gbps=4251, fp32=51.2, tf32=430, fp16=840, launch_ms=0.0035
)
ERROR = 1e-6
"""Error of every program of this world: that of strict float32."""
SHARE = 0.5
"""Of the ceiling, at a speedup of 1."""
STRICT = 1.5
"""How much longer strict float32 takes than torch's defaults, which use TF32 here."""


class GpuLandscape(world.Landscape):
    """Verdicts without a matched speedup, as a GPU's referee gives them."""

    async def start(self) -> Capacity:
        return replace(await super().start(), device=GPU, rates=RATES)

    def judge(self, request: EvaluationRequest) -> Evaluation:
        found = super().judge(request)
        return replace(
            found,
            matched_speedup=None,
            error=ERROR,
            device=GPU,
            roofline_share=min(SHARE * (found.speedup or 0.0), 0.95),
        )


def baseline(device: DeviceFingerprint = GPU, count: int = 2) -> Baseline:
    """What torch reaches on the first problems: 1 ms at its defaults, whose error is TF32's."""
    settings = (
        Setting(setting="eager", latency_ms=1.0, error=3e-4),
        Setting(setting="eager_strict", latency_ms=STRICT, error=ERROR),
        Setting(setting="eager_tf32", latency_ms=1.0, error=3e-4),
        Setting(setting="compile", latency_ms=0.8, error=3e-4),
        Setting(setting="max_autotune", latency_ms=0.5, error=3e-4),
    )
    return Baseline(
        kind=device.kind,
        device=device.name,
        threads=device.threads,
        scale="tiny",
        versions={**device.versions, "torch": "2.11.0+cu130"},
        date="2026-11-30",
        problems=tuple(
            ProblemBaseline(
                key=problem.key,
                level=problem.level,
                id=problem.id,
                name=problem.name,
                settings=settings,
            )
            for problem in world.problems(count)
        ),
    )
