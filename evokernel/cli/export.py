"""`evokernel export RUN DIR`: the best kernels as stand-alone files."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evokernel.cli.reading import JsonOption, RunArgument, open_run, print_json
from problems.errors import ConfigError

if TYPE_CHECKING:
    from archives.store import Store
    from problems.problem import Problem

__all__ = ["export"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Export:
    """What becomes of one problem: a file's text, or the reason why there is none."""

    problem: Problem
    path: Path
    candidate: str | None = None
    speedup: float | None = None
    matched_speedup: float | None = None
    text: str = ""
    reason: str = ""


def export(
    run: RunArgument,
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder to write into.")],
    fallback: Annotated[
        bool,
        typer.Option(
            "--fallback", help="Answer other shapes by the reference instead of an error."
        ),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Write the best kernel of each problem as a stand-alone file with a guarded ModelNew."""
    with open_run(run) as store:
        exports = [_export(store, problem, folder, fallback) for problem in store.problems()]
    written = [each for each in exports if each.text]
    _write(written)
    left_out = [each for each in exports if not each.text]
    if as_json:
        print_json(
            {
                "exported": [
                    {
                        **_named(each),
                        "path": str(each.path),
                        "candidate": each.candidate,
                        "speedup": each.speedup,
                        "matched_speedup": each.matched_speedup,
                    }
                    for each in written
                ],
                "left_out": [{**_named(each), "reason": each.reason} for each in left_out],
            }
        )
        return
    for each in written:
        matched = each.matched_speedup
        is_told = matched is not None and matched != each.speedup
        typer.echo(f"{each.path}  {each.speedup:.2f}x" + (f", {matched:.2f}x matched" * is_told))
    for each in left_out:
        typer.echo(f"{each.problem.label}: no file, {each.reason}")


def _export(store: Store, problem: Problem, folder: Path, fallback: bool) -> _Export:
    from evokernel.report import best_of
    from evokernel.standalone import standalone

    name = re.sub(r"[^A-Za-z0-9]+", "_", problem.name).strip("_")
    path = folder / f"level{problem.level}" / f"{problem.id}_{name}.py"
    best = best_of(store, problem)
    graph = store.graph(problem.key)
    if best is None:
        return _Export(problem=problem, path=path, reason="no correct candidate was found")
    if best.is_reference or best.objective_speedup <= 1:
        return _Export(problem=problem, path=path, reason="nothing beats the reference")
    if graph is None:
        return _Export(problem=problem, path=path, reason="its inputs were never traced")
    source = store.candidate(best.candidate, problem.key).source
    return _Export(
        problem=problem,
        path=path,
        candidate=best.candidate,
        speedup=best.speedup,
        matched_speedup=best.evaluation.matched_speedup,
        text=standalone(problem, source, best.evaluation, graph, fallback=fallback),
    )


def _write(exports: list[_Export]) -> None:
    try:
        taken = [each.path for each in exports if each.path.exists()]
    except OSError as error:
        raise ConfigError(f"cannot look into {error.filename}: {error.strerror}") from error
    if taken:
        raise ConfigError(
            f"the file {taken[0]} exists and is never overwritten: export into another folder"
        )
    for each in exports:
        try:
            each.path.parent.mkdir(parents=True, exist_ok=True)
            each.path.write_text(each.text, encoding="utf-8")
        except OSError as error:
            raise ConfigError(f"cannot write {each.path}: {error.strerror}") from error


def _named(each: _Export) -> dict[str, object]:
    return {"level": each.problem.level, "id": each.problem.id, "name": each.problem.name}
