"""`evokernel lineage RUN CANDIDATE`: where a candidate came from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer
from rich.markup import escape

from evokernel.cli.reading import (
    CandidateArgument,
    JsonOption,
    RunArgument,
    console,
    find_candidate,
    number,
    open_run,
    print_json,
)

if TYPE_CHECKING:
    from archives.attempt import Slot
    from archives.lineage import Step

__all__ = ["lineage"]


def lineage(run: RunArgument, candidate: CandidateArgument, as_json: JsonOption = False) -> None:
    """Print a candidate's ancestors: by which operator each came, what changed, what it gained."""
    from archives.lineage import ancestors, attempts_of, tree

    with open_run(run) as store:
        problem, full_id = find_candidate(store, candidate)
        attempts = store.attempts(problem.key)
        speedups = store.speedups(problem.key)
    origin = attempts_of(attempts, full_id)[0]
    steps = ancestors(attempts, origin.slot, speedups)
    if as_json:
        print_json(
            {
                "level": problem.level,
                "id": problem.id,
                "name": problem.name,
                "candidate": full_id,
                "depth": steps[-1].depth,
                "steps": [_step_json(step) for step in steps],
            }
        )
        return
    out = console()
    out.print(f"[bold]{full_id[:12]}[/bold] for {escape(problem.label)}, {steps[-1].depth} deep")
    for branch, step in tree(steps):
        typer.echo(branch + _describe(step))


def _describe(step: Step) -> str:
    attempt = step.attempt
    held = attempt.result or attempt.candidate
    gain = "" if step.gain is None else f" ({step.gain:.2f} of its best parent)"
    outcome = number(step.speedup, ".2f", "x") + gain
    if attempt.reason:
        outcome = f"{attempt.state.value}: {attempt.reason}"
    slot = attempt.slot
    return (
        f"{attempt.operator}  {(held or '-')[:12]}  {outcome}  generation {slot.generation}, "
        f"island {slot.island}  {attempt.note}"
    ).rstrip()


def _step_json(step: Step) -> dict[str, Any]:
    attempt = step.attempt
    return {
        **_slot_json(attempt.slot),
        "operator": attempt.operator,
        "change": attempt.note,
        "state": attempt.state.value,
        "reason": attempt.reason,
        "candidate": attempt.result or attempt.candidate,
        "depth": step.depth,
        "speedup": step.speedup,
        "gain": step.gain,
        "parents": [_slot_json(parent) for parent in attempt.parents],
    }


def _slot_json(slot: Slot) -> dict[str, int]:
    return {"generation": slot.generation, "island": slot.island, "index": slot.index}
