"""`evokernel archive RUN --id 23`: a problem's grid and its elites."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.table import Table

from evokernel.cli.reading import (
    IdOption,
    JsonOption,
    LevelOption,
    RunArgument,
    console,
    find_problem,
    number,
    open_run,
    print_json,
)
from problems.errors import ConfigError

if TYPE_CHECKING:
    from archives.descriptors import Axis
    from archives.grid import Grid
    from archives.store import Store
    from problems.problem import Problem

__all__ = ["archive"]


def archive(
    run: RunArgument,
    id: IdOption = None,
    level: LevelOption = None,
    island: Annotated[
        int | None, typer.Option(help="One island alone. Default: the best over all islands.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Print the grid of a problem: its axes, how full it is, and who holds its cells.

    Elites are in the order of their objective: the speedup that the search climbed by.
    """
    with open_run(run) as store:
        problem = find_problem(store, level, id)
        axes = _axes(store)
        grid = _grid(store, problem, axes, island)
        elites = [_elite(store, problem, axes, elite.cell, grid) for elite in grid.elites()]
    elites.sort(key=lambda elite: (-elite["objective_speedup"], elite["cell"]))
    if as_json:
        print_json(
            {
                "level": problem.level,
                "id": problem.id,
                "name": problem.name,
                "island": island,
                "axes": [
                    {"name": axis.name, "title": axis.title, "bins": list(axis.labels)}
                    for axis in axes
                ],
                "num_cells": grid.num_cells,
                "num_occupied": len(grid),
                "coverage": grid.coverage,
                "qd_score": grid.qd_score,
                "qd_offset": grid.qd_offset,
                "elites": elites,
            }
        )
        return
    _print(problem, axes, grid, elites)


def _axes(store: Store) -> tuple[Axis, ...]:
    from archives.descriptors import DEFAULT_AXES, axes_named

    config = json.loads(store.run().config_json or "{}")
    return axes_named(config.get("archive", {}).get("axes", DEFAULT_AXES))


def _grid(store: Store, problem: Problem, axes: Sequence[Axis], island: int | None) -> Grid:
    from archives.descriptors import dims_of
    from archives.grid import Grid

    elites = store.elites(problem.key)
    islands = sorted({elite.slot.island for elite in elites})
    if island is not None and island not in islands:
        raise ConfigError(
            f"problem {problem.label} has no elites on island {island}: its islands with elites "
            f"are {', '.join(map(str, islands)) or 'none'}"
        )
    grid = Grid(dims_of(axes))
    for elite in elites:
        if island is None or elite.slot.island == island:
            grid.add(elite)
    return grid


def _elite(
    store: Store, problem: Problem, axes: Sequence[Axis], cell: tuple[int, ...], grid: Grid
) -> dict[str, Any]:
    elite = grid.elite(cell)
    assert elite is not None, "the cell is occupied"
    attempt = store.attempt(elite.slot)
    evaluation = store.evaluation(problem.key, elite.candidate)
    # What is reported of an elite is its latest verification; the grid is ordered by the search.
    measured = None if evaluation is None else evaluation.speedup
    interval = None if evaluation is None else evaluation.interval
    return {
        "cell": list(cell),
        "bins": [axis.labels[index] for axis, index in zip(axes, cell, strict=True)],
        "objective_speedup": elite.objective_speedup,
        "speedup": measured,
        "speedup_low": None if interval is None else interval.low,
        "matched_speedup": None if evaluation is None else evaluation.matched_speedup,
        "roofline_share": None if evaluation is None else evaluation.roofline_share,
        "latency_ms": None if evaluation is None else evaluation.latency_ms,
        "island": elite.slot.island,
        "generation": elite.slot.generation,
        "index": elite.slot.index,
        "operator": None if attempt is None else attempt.operator,
        "candidate": elite.candidate,
    }


def _print(
    problem: Problem, axes: Sequence[Axis], grid: Grid, elites: Sequence[dict[str, Any]]
) -> None:
    out = console()
    out.print(
        f"[bold]{problem.label}[/bold]: {len(grid)} of {grid.num_cells} cells occupied "
        f"({grid.coverage:.1%}), QD score {grid.qd_score:.2f} (offset {grid.qd_offset:.2f})"
    )
    for position, axis in enumerate(axes):
        held = [elite["cell"][position] for elite in elites]
        bins = (f"{label}: {held.count(i)}" for i, label in enumerate(axis.labels))
        out.print(f"  {axis.name} ({axis.title})  {' | '.join(bins)}", highlight=False)
    table = Table(title="Elites", title_justify="left", box=SIMPLE_HEAD)
    for axis in axes:
        table.add_column(axis.name)
    for name in (
        "objective",
        "speedup",
        "99 % low",
        "matched",
        "ceiling",
        "ms",
        "island",
        "generation",
    ):
        table.add_column(name, justify="right")
    table.add_column("operator")
    table.add_column("candidate")
    for elite in elites:
        table.add_row(
            *elite["bins"],
            number(elite["objective_speedup"], ".2f", "x"),
            number(elite["speedup"], ".2f", "x"),
            number(elite["speedup_low"], ".2f", "x"),
            number(elite["matched_speedup"], ".2f", "x"),
            number(elite["roofline_share"], ".0%"),
            number(elite["latency_ms"], ".3f"),
            str(elite["island"]),
            str(elite["generation"]),
            elite["operator"] or "-",
            elite["candidate"][:12],
        )
    out.print(table)
