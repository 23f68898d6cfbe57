"""`evokernel run`: start a search."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evokernel.cli.sitting import conduct
from problems.errors import ConfigError

if TYPE_CHECKING:
    from evokernel.launch import Plan

__all__ = ["run"]

_LABELS_SHOWN = 8


def run(
    context: typer.Context,
    level: Annotated[int | None, typer.Option(help="Level of the problems, such as 1.")] = None,
    problems: Annotated[
        str | None, typer.Option(help="Ids within the level, such as 1,19-25. Default: all.")
    ] = None,
    generations: Annotated[
        int | None, typer.Option(help="Generations after the one that holds the seeds.")
    ] = None,
    max_minutes: Annotated[
        float | None, typer.Option(help="Minutes for the run, final verification included.")
    ] = None,
    max_evaluations: Annotated[
        int | None, typer.Option(help="Candidates to measure at most, verification not counted.")
    ] = None,
    llm: Annotated[
        list[str] | None,
        typer.Option(help="Language model to ask, such as openai/gpt-5; repeatable."),
    ] = None,
    max_cost: Annotated[
        float | None, typer.Option(help="Dollars for language models at most.")
    ] = None,
    preset: Annotated[
        str | None, typer.Option(help="Preset: demo, default, gpu, thorough or best-of-n.")
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", help="One setting, such as search.islands=6; repeatable."),
    ] = None,
    seeds: Annotated[
        Path | None, typer.Option(help="Folder of human kernels to start from.")
    ] = None,
    from_run: Annotated[
        Path | None,
        typer.Option(
            "--from",
            help="Folder of another run: start from its elites, and what won on like problems.",
        ),
    ] = None,
    source: Annotated[
        Path | None, typer.Option(help="Folder of problems in KernelBench's layout.")
    ] = None,
    problem_file: Annotated[
        Path | None, typer.Option(help="One problem file of your own, in place of a level.")
    ] = None,
    scale: Annotated[
        str | None,
        typer.Option(
            help="Sizes: official, small or tiny. Default: official on a GPU, small on a CPU."
        ),
    ] = None,
    precision: Annotated[
        str | None,
        typer.Option(help="Type of inputs and weights: fp32, fp16 or bf16. Default: fp32."),
    ] = None,
    device: Annotated[str | None, typer.Option(help="Where to measure: auto, cpu or cuda.")] = None,
    ray_address: Annotated[
        str | None,
        typer.Option(help="Ray cluster to measure on, such as 10.0.0.1:6379. Default: here."),
    ] = None,
    rng_seed: Annotated[
        int | None, typer.Option(help="Root of the search's random streams. Default: 0.")
    ] = None,
    folder: Annotated[
        Path | None,
        typer.Option("--run", help="New folder to keep the run in. Default: runs/TIME."),
    ] = None,
    replay: Annotated[
        Path | None,
        typer.Option(help="Repeat this run from its record; measures nothing, asks nobody."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would be done, and do nothing.")
    ] = False,
) -> None:
    """Search for kernels that beat the reference programs, and report what was found.

    Values are looked for in the defaults, the preset, --set, and the other options;
    the last one found wins.
    """
    from evokernel.config import resolve
    from evokernel.launch import create_run, default_folder, make_plan

    if replay is not None:
        _require_alone(context)
        _replay(replay, folder or default_folder(datetime.now()))
        return
    resolved = resolve(
        preset=preset,
        settings=settings or (),
        flags={
            "problems.level": level,
            "problems.ids": problems,
            "problems.source": _absolute(source),
            "problems.file": _absolute(problem_file),
            "problems.seeds": _absolute(seeds),
            "problems.from_run": _absolute(from_run),
            "problems.scale": scale,
            "problems.precision": precision,
            "problems.device": device,
            "evaluation.ray_address": ray_address,
            "search.generations": generations,
            "budget.max_minutes": max_minutes,
            "budget.max_evaluations": max_evaluations,
            "llm.models": tuple(llm) if llm else None,
            "llm.max_cost_usd": max_cost,
            "rng_seed": rng_seed,
        },
    )
    plan = make_plan(resolved, asks=not dry_run)
    for complaint in plan.complaints:
        typer.echo(f"evokernel: left out: {complaint}", err=True)
    for note in plan.notes:
        typer.echo(f"evokernel: {note}", err=True)
    if dry_run:
        typer.echo(_describe(plan))
        return
    with create_run(plan, folder or default_folder(datetime.now())) as store:
        conduct(store, plan)


def _require_alone(context: typer.Context) -> None:
    """Require that nothing but the new folder is given beside --replay."""
    others = sorted(
        option.opts[0]
        for option in context.command.params
        if option.name not in (None, "replay", "folder") and _is_given(context, option.name or "")
    )
    if others:
        raise ConfigError(
            f"--replay repeats a run as it was, and only --run goes with it: leave out "
            f"{', '.join(others)}"
        )


def _is_given(context: typer.Context, name: str) -> bool:
    """Tell whether an option was given, rather than left at its default."""
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def _replay(recorded: Path, folder: Path) -> None:
    """Repeat a run; what it is to do stands in its store."""
    from evokernel.cli.reading import open_run
    from evokernel.replay import ReplayEvaluator, create_replay

    with open_run(recorded) as old:
        evaluator = ReplayEvaluator(old)
        store, plan = create_replay(old, folder)
        with store:
            conduct(store, plan, evaluator=evaluator, replayed=old)


def _absolute(path: Path | None) -> str | None:
    """A path that means the same when the run is resumed from another folder."""
    return None if path is None else str(path.resolve())


def _labels(plan: Plan) -> str:
    """The first problems by name, and how many more there are."""
    shown = ", ".join(problem.label for problem in plan.problems[:_LABELS_SHOWN])
    more = len(plan.problems) - _LABELS_SHOWN
    return f"{shown} and {more} more" if more > 0 else shown


def _describe(plan: Plan) -> str:
    search = plan.config.search
    kernels = sum(len(kernels) for kernels in plan.seeds.values())
    # How many programs found a problem is not known before its graph is traced.
    founders = ", those of the founding not counted" if search.founding else ""
    measured = founders if plan.config.budget.max_evaluations is None else ""
    return "\n".join(
        (
            f"problems     {len(plan.problems)} at {plan.scale} scale, on {plan.device_words}: "
            f"{_labels(plan)}",
            f"search       {search.mode}: {search.islands} islands, generation 0 and "
            f"{search.generations} more, {search.proposals} children each",
            f"operators    {', '.join(plan.operators)}; {kernels} kernels to start from",
            f"attempts     at most {plan.num_attempts:,}{founders}",
            f"evaluations  at most {plan.num_evaluations:,}{measured}, and up to "
            f"{len(plan.problems) * plan.config.evaluation.verify_tries:,} verifications",
            f"store        at most {plan.num_bytes:,} bytes{founders}",
            *_describe_models(plan),
        )
    )


def _describe_models(plan: Plan) -> Iterator[str]:
    """What models will be asked, and what that may cost."""
    from evokernel.forecast import forecast

    models = plan.config.llm.models
    if not models:
        return
    found = forecast(plan.config, plan.num_attempts, len(plan.operators) - 1)
    yield f"models       {', '.join(models)}"
    yield (
        f"calls        about {found.calls:,}, where all operators get the same share; at most "
        f"{found.most_calls:,} children come from models"
    )
    yield f"tokens       about {found.tokens:,}"
    if found.cost_usd is None or found.most_cost_usd is None:
        yield "cost         unknown, no price is known"
    else:
        yield f"cost         about ${found.cost_usd:,.2f}, at most ${found.most_cost_usd:,.2f}"
