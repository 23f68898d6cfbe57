"""`evokernel roofline`: the speed of light of problems on a GPU."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.table import Table

from evokernel.cli.reading import JsonOption, console, print_json
from problems.errors import ProblemError

if TYPE_CHECKING:
    from evaluator.referee.hardware import Device
    from evaluator.referee.roofline import Light
    from problems.problem import Problem

__all__ = ["roofline"]


def roofline(
    gpu: Annotated[str, typer.Option(help="Name of the GPU, such as H200; it need not be here.")],
    level: Annotated[int, typer.Option(help="Level of the problems.")] = 1,
    problems: Annotated[
        str | None, typer.Option(help="Ids within the level, such as 1,19-25. Default: all.")
    ] = None,
    source: Annotated[
        Path | None, typer.Option(help="Folder of problems in KernelBench's layout.")
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
    chosen, complaints = _load(level, problems, source)
    bounds = asyncio.run(trace_bounds(chosen, device))
    complaints += [bound.complaint for bound in bounds if bound.light is None]
    for complaint in complaints:
        typer.echo(f"evokernel: left out: {complaint}", err=True)
    lights = [(bound.problem, bound.light) for bound in bounds if bound.light is not None]
    if not lights:
        raise ProblemError("no problem could be traced, the reasons are above")
    if as_json:
        print_json([_json(problem, light) for problem, light in lights])
    else:
        _print(device, lights)


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


def _json(problem: Problem, light: Light) -> dict[str, Any]:
    return {
        "level": problem.level,
        "id": problem.id,
        "name": problem.name,
        "bytes": light.work.bytes,
        "flops": light.work.flops,
        "bound": light.bound,
        "sol_ms": light.sol_ms,
        "hard_ms": light.hard_ms,
    }


def _print(device: Device, lights: Sequence[tuple[Problem, Light]]) -> None:
    out = console()
    estimated = "; estimated, not checked against its vendor" if device.estimated else ""
    out.print(
        f"Speed of light on {device.name}: {device.bandwidth_gbps:,.0f} GB/s, "
        f"{device.matrix_tflops('fp32'):,.0f} TFLOP/s for float32 products ({device.source}"
        f"{estimated})",
        markup=False,
        highlight=False,
        soft_wrap=True,
    )
    table = Table(box=SIMPLE_HEAD)
    table.add_column("problem")
    for name in ("MB", "GFLOP"):
        table.add_column(name, justify="right")
    table.add_column("bound")
    for name in ("light ms", "hard ms"):
        table.add_column(name, justify="right")
    for problem, light in lights:
        table.add_row(
            problem.label,
            f"{light.work.bytes / 1e6:,.1f}",
            f"{light.work.flops / 1e9:,.1f}",
            light.bound,
            f"{light.sol_ms:.4f}",
            f"{light.hard_ms:.4f}",
        )
    out.print(table)
