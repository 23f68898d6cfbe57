"""`evokernel baseline`: how fast torch itself does problems on this device."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.box import SIMPLE_HEAD
from rich.table import Table

from evokernel.cli.problems import BundledScale
from evokernel.cli.reading import JsonOption, console, number, print_json
from problems.errors import ConfigError

if TYPE_CHECKING:
    from evokernel.baselines import Baseline, ProblemBaseline

__all__ = ["baseline"]


def baseline(
    level: Annotated[int, typer.Option(help="Level of the problems.")] = 1,
    problems: Annotated[
        str | None, typer.Option(help="Ids within the level, such as 1,19-25. Default: all.")
    ] = None,
    scale: Annotated[
        BundledScale | None,
        typer.Option(help="Sizes of the problems. Default: official on a GPU, small on a CPU."),
    ] = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    settings: Annotated[
        str | None,
        typer.Option(
            help="Which ways, such as eager,compile. Default: all of eager, eager_strict, "
            "eager_tf32, compile and max_autotune on a GPU, eager and compile on a CPU."
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="File to write, for `report`.")] = None,
    seconds: Annotated[
        float, typer.Option(min=0.01, help="Seconds of timed calls for each way.")
    ] = 0.4,
    deadline: Annotated[
        float, typer.Option(min=1.0, help="Seconds for each problem, then the next follows.")
    ] = 300.0,
    as_json: JsonOption = False,
) -> None:
    """Measure torch eager at each TF32 setting and compiled, with each one's error.

    Every problem has a process of its own: one that crashes or hangs costs its own row alone.
    """
    from dataclasses import asdict

    from evokernel.baseline_file import save_baseline
    from evokernel.devices import default_scale, device_kind
    from evokernel.yardsticks import Effort, measure_baseline
    from problems.catalogue import load_level, parse_ids
    from problems.problem import Scale

    kind = device_kind(device)
    if out is not None and not out.absolute().parent.is_dir():
        raise ConfigError(f"--out {out}: there is no folder {out.absolute().parent}: make it first")
    sizes = Scale(scale.value) if scale else default_scale(kind)
    chosen = load_level(level, sizes, None if problems is None else parse_ids(problems))
    found = measure_baseline(
        chosen,
        kind,
        _settings(kind, settings),
        effort=Effort(budget_s=seconds, deadline_s=deadline),
        progress=_say,
    )
    if out is not None:
        save_baseline(found, out)
    if as_json:
        print_json(asdict(found))
    else:
        _print(found)


def _settings(kind: str, wanted: str | None) -> tuple[str, ...]:
    from evokernel.baselines import settings_for

    possible = settings_for(kind)
    if wanted is None:
        return possible
    names = tuple(dict.fromkeys(name.strip() for name in wanted.split(",")))
    for name in names:
        if name not in possible:
            raise ConfigError(
                f"--settings {wanted}: there is no '{name}' on this device: expected some of "
                f"{', '.join(possible)}"
            )
    return names


def _say(done: ProblemBaseline) -> None:
    times = ", ".join(
        f"{setting.setting} {number(setting.latency_ms, '.4f', ' ms')}" for setting in done.settings
    )
    typer.echo(f"{done.level}/{done.id} {done.name}: {times}", err=True)
    for setting in done.settings:
        if setting.log:
            typer.echo(f"  {setting.setting}: {setting.log}", err=True)


def _print(found: Baseline) -> None:
    out = console()
    versions = ", ".join(f"{name} {version}" for name, version in found.versions.items())
    out.print(
        f"torch on {found.device}, {found.scale} scale, {versions}: ms, and worst error relative "
        "to the output",
        markup=False,
        highlight=False,
        soft_wrap=True,
    )
    table = Table(box=SIMPLE_HEAD)
    table.add_column("problem")
    names = [setting.setting for setting in found.problems[0].settings]
    for name in names:
        table.add_column(name, justify="right")
        table.add_column("error", justify="right")
    for problem in found.problems:
        cells = [
            cell
            for setting in problem.settings
            for cell in (number(setting.latency_ms, ".4f"), number(setting.error, ".1e"))
        ]
        table.add_row(f"{problem.level}/{problem.id} {problem.name}", *cells)
    out.print(table)
