"""`evokernel baseline`: how fast torch itself does problems on this device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.box import SIMPLE_HEAD
from rich.table import Table

from evokernel.cli.problems import BundledScale, Precision, PrecisionOption
from evokernel.cli.reading import JsonOption, console, number, print_json
from problems.errors import ConfigError

if TYPE_CHECKING:
    from evokernel.baselines import Baseline, ProblemBaseline
    from problems.problem import Problem

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
    precision: PrecisionOption = Precision.FP32,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    settings: Annotated[
        str | None,
        typer.Option(
            help="Which ways, such as eager,compile. Default: all of eager, eager_strict, "
            "eager_tf32, compile and max_autotune on a GPU, eager and compile on a CPU."
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="File to write. Default: where runs on this device find it by themselves."
        ),
    ] = None,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume", help="Go on with the file: what it has a time of is not measured again."
        ),
    ] = False,
    seconds: Annotated[
        float, typer.Option(min=0.01, help="Seconds of timed calls for each way.")
    ] = 0.4,
    deadline: Annotated[
        float,
        typer.Option(min=1.0, help="Seconds for each process, of which each compiler gets one."),
    ] = 300.0,
    max_minutes: Annotated[
        float | None,
        typer.Option(min=0.05, help="Minutes for all of it; --resume goes on from there."),
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Processes that compile beside each other; they time one after the other. "
            "Default: by the number of cores on a GPU, 1 on a CPU.",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Measure torch eager at each TF32 setting and compiled, with each one's error.

    What crashes or hangs costs its own row alone. The file is written after each step, so that an
    interruption loses what was in flight and nothing else.
    """
    from dataclasses import asdict

    from evokernel.baseline_file import load_baseline, save_baseline
    from evokernel.baseline_shelf import own_path
    from evokernel.devices import default_scale, device_kind
    from evokernel.yardsticks import Effort, measure_baseline, most_jobs
    from problems.catalogue import load_level, parse_ids
    from problems.problem import Scale

    kind = device_kind(device)
    if out is not None and not out.absolute().parent.is_dir():
        raise ConfigError(f"--out {out}: there is no folder {out.absolute().parent}: make it first")
    sizes = Scale(scale.value) if scale else default_scale(kind)
    ids = None if problems is None else parse_ids(problems)
    loaded = load_level(level, sizes, ids)
    chosen = [replace(problem, precision=precision.value) for problem in loaded]
    wanted = _settings(kind, settings)
    path = out or own_path(kind, level, sizes)
    # What a user's own file knows of other problems stays in any case.
    known = load_baseline(path) if path.exists() and (resume or out is None) else None

    def keep(found: Baseline, done: ProblemBaseline) -> None:
        save_baseline(found, path)
        _say(done)

    found = measure_baseline(
        chosen,
        kind,
        wanted,
        effort=Effort(
            budget_s=seconds,
            deadline_s=deadline,
            limit_s=None if max_minutes is None else 60 * max_minutes,
            jobs=jobs or most_jobs(kind),
        ),
        known=known,
        again=not resume,
        progress=keep,
    )
    if as_json:
        print_json(asdict(found))
    else:
        _print(found)
    typer.echo(f"evokernel: {_stock(found, chosen, wanted)}, kept in {path}", err=True)


def _stock(found: Baseline, chosen: Sequence[Problem], wanted: Sequence[str]) -> str:
    """How many of the times that were asked for are there now."""
    there = [found.of(problem) for problem in chosen]
    known = sum(
        one is not None and one.latency_ms(name) is not None for one in there for name in wanted
    )
    return f"{known} of {len(chosen) * len(wanted)} times"


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
    from evokernel.baselines import COMPILED, EAGER

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
    there = {setting.setting for problem in found.problems for setting in problem.settings}
    names = [name for name in (*EAGER, *COMPILED) if name in there]
    for name in names:
        table.add_column(name, justify="right")
        table.add_column("error", justify="right")
    for problem in found.problems:
        rows = {setting.setting: setting for setting in problem.settings}
        cells = []
        for name in names:
            row = rows.get(name)
            cells.append(number(None if row is None else row.latency_ms, ".4f"))
            cells.append(number(None if row is None else row.error, ".1e"))
        table.add_row(f"{problem.level}/{problem.id} {problem.name}", *cells)
    out.print(table)
