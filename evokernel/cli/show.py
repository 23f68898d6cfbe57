"""`evokernel show RUN CANDIDATE`: a candidate's source and evaluation."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from evokernel.cli.reading import (
    CandidateArgument,
    JsonOption,
    RunArgument,
    console,
    evaluation_json,
    find_candidate,
    number,
    open_run,
    print_json,
)

if TYPE_CHECKING:
    from archives.evaluation import Evaluation, KernelFacts, Mismatch

__all__ = ["describe_evaluation", "show"]


def show(run: RunArgument, candidate: CandidateArgument, as_json: JsonOption = False) -> None:
    """Print a candidate: its evaluation, and its source as it was measured."""
    with open_run(run) as store:
        problem, full_id = find_candidate(store, candidate)
        found = store.candidate(full_id)
        evaluation = store.evaluation(problem.key, full_id)
        history = store.evaluations(problem.key, full_id)
        withdrawn = store.known(problem.key)[full_id].withdrawn
    if as_json:
        print_json(
            {
                "candidate": found.id,
                "program": found.program_id,
                "language": found.language.value,
                "level": problem.level,
                "id": problem.id,
                "name": problem.name,
                "withdrawn": withdrawn,
                "evaluation": None if evaluation is None else evaluation_json(evaluation),
                "evaluations": [
                    {"purpose": record.purpose, **evaluation_json(record.evaluation)}
                    for record in history
                ],
                "source": found.source,
            }
        )
        return
    out = console()
    out.print(f"[bold]{found.id[:12]}[/bold] for {problem.label}, {found.language.value}")
    if withdrawn:
        out.print(f"withdrawn: {withdrawn}", markup=False, highlight=False)
    if evaluation is None:
        out.print("not evaluated")
    else:
        for line in describe_evaluation(evaluation):
            out.print(line, markup=False, highlight=False, soft_wrap=True)
    out.print()
    typer.echo(found.source)


def describe_evaluation(evaluation: Evaluation) -> list[str]:
    """Return an evaluation in a few lines for people."""
    reason = f", {evaluation.reason}" if evaluation.reason else ""
    lines = [f"{evaluation.status.value}{reason} (rung {evaluation.rung.name.lower()})"]
    if evaluation.speedup is not None and evaluation.interval is not None:
        low, high = evaluation.interval.low, evaluation.interval.high
        lines.append(
            f"{evaluation.speedup:.3f}x, 99 % interval {low:.3f} to {high:.3f}; matched "
            f"{number(evaluation.matched_speedup, '.3f', 'x')}; "
            f"{number(evaluation.latency_ms, '.4f')} ms against "
            f"{number(evaluation.reference_ms, '.4f')} ms"
        )
    if evaluation.roofline_share is not None:
        lines.append(f"{evaluation.roofline_share:.0%} of what this device was measured to allow")
    kernels = _describe_facts(evaluation.facts)
    if kernels:
        lines.append(kernels)
    if evaluation.error is not None:
        lines.append(
            f"error {evaluation.error:.2e} of the output's root mean square, "
            f"{number(evaluation.error_bound, '.2e')} permitted"
        )
    if evaluation.configurations:
        lines.append(f"{len(evaluation.configurations)} configurations tried, the best: ")
        lines[-1] += str(dict(evaluation.configuration or {}))
    device = "-" if evaluation.device is None else str(evaluation.device)
    lines.append(
        f"device {device}, referee {evaluation.referee_version or '-'}, isolation "
        f"{evaluation.isolation or '-'}"
    )
    if evaluation.log:
        lines.append(evaluation.log)
    return lines


def _describe_spread(spread: float | Mismatch) -> str:
    from archives.evaluation import Mismatch

    if spread is Mismatch.SHAPES:
        return "return different shapes"
    if spread is Mismatch.NUMBERS:
        return "return numbers here and NaN or infinity there"
    return f"differ by up to {spread:.1e}" if spread else "agree bit for bit"


def _describe_facts(facts: KernelFacts) -> str:
    """The facts that were measured, in one line; "" where none was."""
    pieces = []
    if facts.own_kernel_share is not None:
        pieces.append(f"own kernels take {facts.own_kernel_share:.0%} of the time")
    if facts.launches is not None:
        pieces.append(f"{facts.launches} launch{'es' if facts.launches != 1 else ''} per call")
    if facts.streams is not None:
        pieces.append(f"on {facts.streams} stream{'s' if facts.streams != 1 else ''}")
    if facts.reuse is not None:
        pieces.append(f"reuse in {facts.reuse}")
    if facts.work is not None:
        # A CPU's main loop, whose registers are known, or a program of a GPU's grid.
        unit = "program" if facts.vector_bits is None else "iteration"
        pieces.append(f"{facts.work} bytes per {unit}")
    pieces += _describe_program(facts)
    if facts.vector_bits is not None:
        pieces.append(f"{facts.vector_bits}-bit vectors" if facts.vector_bits else "scalar code")
    if facts.spread is not None:
        pieces.append(f"calls on the same inputs {_describe_spread(facts.spread)}")
    return ", ".join(pieces)


def _describe_program(facts: KernelFacts) -> list[str]:
    """What a GPU's longest kernel takes, as far as it was measured."""
    pieces = []
    if facts.programs is not None:
        pieces.append(f"{facts.programs:,} programs a launch")
    if facts.registers is not None:
        pieces.append(f"{facts.registers} registers a thread")
    if facts.shared_bytes is not None:
        pieces.append(f"{facts.shared_bytes:,} bytes of shared memory a program")
    return pieces
