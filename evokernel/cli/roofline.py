"""`evokernel roofline`: the speed of light of problems on a GPU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.table import Table

from evokernel.cli.problems import Precision, PrecisionOption
from evokernel.cli.reading import JsonOption, console, number, print_json
from problems.errors import ConfigError, ProblemError

if TYPE_CHECKING:
    from evaluator.referee.hardware import Device
    from evaluator.referee.roofline import Light
    from evokernel.baselines import Baseline
    from problems.problem import Problem

__all__ = ["roofline"]

_WORDS = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16"}


def roofline(
    gpu: Annotated[str, typer.Option(help="Name of the GPU, such as H200; it need not be here.")],
    level: Annotated[int, typer.Option(help="Level of the problems.")] = 1,
    problems: Annotated[
        str | None, typer.Option(help="Ids within the level, such as 1,19-25. Default: all.")
    ] = None,
    source: Annotated[
        Path | None, typer.Option(help="Folder of problems in KernelBench's layout.")
    ] = None,
    precision: PrecisionOption = Precision.FP32,
    baseline: Annotated[
        Path | None,
        typer.Option(
            help="File of `evokernel baseline` from such a GPU, for the cap on the speedup over "
            "eager torch."
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Print how fast each problem could be at most, at KernelBench's sizes.

    Compulsory bytes over bandwidth, matrix operations over the fastest permitted unit, or one
    launch, whichever takes longest. A time below the hard bound is impossible.
    """
    import asyncio

    from evaluator.referee.hardware import find_device
    from evokernel.lights import trace_bounds

    device = find_device(gpu)
    known = None if baseline is None else _load_baseline(baseline, device)
    loaded, complaints = _load(level, problems, source)
    chosen = [replace(problem, precision=precision.value) for problem in loaded]
    bounds = asyncio.run(trace_bounds(chosen, device))
    complaints += [bound.complaint for bound in bounds if bound.light is None]
    for complaint in complaints:
        typer.echo(f"evokernel: left out: {complaint}", err=True)
    lights = [(bound.problem, bound.light) for bound in bounds if bound.light is not None]
    if not lights:
        raise ProblemError("no problem could be traced, the reasons are above")
    if as_json:
        print_json([_json(problem, light, known) for problem, light in lights])
    else:
        _print(device, lights, known, precision)


def _load(level: int, ids: str | None, source: Path | None) -> tuple[Sequence[Problem], list[str]]:
    """The problems, and one sentence for each file that is none."""
    from problems.catalogue import load_level, parse_ids
    from problems.loaders import load_folder
    from problems.problem import Scale

    numbers = None if ids is None else parse_ids(ids)
    if source is None:
        return load_level(level, Scale.OFFICIAL, numbers), []
    found, errors = load_folder(source, level, numbers)
    return found, [str(error) for error in errors]


def _load_baseline(path: Path, device: Device) -> Baseline:
    from evaluator.referee.hardware import find_device
    from evokernel.baseline_file import load_baseline

    found = load_baseline(path)
    if found.kind != "cuda" or find_device(found.device) != device:
        raise ConfigError(
            f"the baseline {path} was measured on {found.device}, --gpu asks for {device.name}: "
            "give one from such a GPU"
        )
    return found


def _eager_ms(problem: Problem, baseline: Baseline) -> float | None:
    """Time of eager torch at its defaults; None where the problem was not measured."""
    known = baseline.of(problem)
    return None if known is None else known.latency_ms("eager")


def _cap(eager_ms: float | None, light: Light) -> float | None:
    return None if eager_ms is None else eager_ms / light.sol_ms


def _json(problem: Problem, light: Light, baseline: Baseline | None) -> dict[str, Any]:
    row = {
        "level": problem.level,
        "id": problem.id,
        "name": problem.name,
        "bytes": light.work.bytes,
        "flops": light.work.flops,
        "convolution_flops": light.work.convolution_flops,
        "bound": light.bound,
        "sol_ms": light.sol_ms,
        "hard_ms": light.hard_ms,
    }
    if baseline is None:
        return row
    eager_ms = _eager_ms(problem, baseline)
    return {**row, "eager_ms": eager_ms, "speedup_cap": _cap(eager_ms, light)}


def _print(
    device: Device,
    lights: Sequence[tuple[Problem, Light]],
    baseline: Baseline | None,
    precision: Precision,
) -> None:
    out = console()
    estimated = "; estimated, not checked against its vendor" if device.estimated else ""
    out.print(
        f"Speed of light on {device.name}: {device.bandwidth_gbps:,.0f} GB/s, "
        f"{device.matrix_tflops(precision.value):,.0f} TFLOP/s for {_WORDS[precision.value]} "
        f"products ({device.source}{estimated})",
        markup=False,
        highlight=False,
        soft_wrap=True,
    )
    table = Table(box=SIMPLE_HEAD)
    table.add_column("problem")
    for name in ("MB", "GFLOP"):
        table.add_column(name, justify="right")
    table.add_column("bound")
    for name in ("light ms", "hard ms", *(("eager ms", "cap") if baseline else ())):
        table.add_column(name, justify="right")
    for problem, light in lights:
        eager_ms = None if baseline is None else _eager_ms(problem, baseline)
        known = (number(eager_ms, ".4f"), number(_cap(eager_ms, light), ".2f", "x"))
        table.add_row(
            problem.label,
            f"{light.work.bytes / 1e6:,.1f}",
            f"{light.work.flops / 1e9:,.1f}",
            light.bound,
            f"{light.sol_ms:.4f}",
            f"{light.hard_ms:.4f}",
            *(known if baseline else ()),
        )
    out.print(table)
