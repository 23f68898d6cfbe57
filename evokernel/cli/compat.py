"""The option `--compat`: what `eval` and `report` say by the rules of others."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from evokernel.cli.reading import number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from evaluator.compat import KernelBenchVerdict
    from evokernel.compat import Judged

__all__ = ["NOTE", "CompatOption", "Rules", "comparison_json", "print_comparison", "verdict_json"]

NOTE = "By KernelBench's rules, for comparison only: a candidate shares a process with its judge."


class Rules(StrEnum):
    """Rules of others that candidates can be judged by, for comparison."""

    KERNELBENCH = "kernelbench"


CompatOption = Annotated[
    Rules | None,
    typer.Option(
        help="Judge by the rules of kernelbench: known seeds, one process, the mean of 100 "
        "timings. For comparison with published numbers; such rules can be fooled."
    ),
]


def verdict_json(verdict: KernelBenchVerdict) -> dict[str, Any]:
    """Return a verdict by KernelBench's rules as JSON-able data."""
    return {
        "rules": Rules.KERNELBENCH.value,
        "correct": verdict.correct,
        "speedup": verdict.speedup,
        "kernel_ms": verdict.kernel_ms,
        "reference_ms": verdict.reference_ms,
        "log": verdict.log,
    }


def comparison_json(judged: Sequence[Judged]) -> dict[str, Any]:
    """Return what KernelBench would report of a run as JSON-able data."""
    from evokernel.compat import fast_p_by_kernelbench

    return {
        "rules": Rules.KERNELBENCH.value,
        "fast_p": {str(p): share for p, share in fast_p_by_kernelbench(judged).items()},
        "problems": [
            {
                "level": one.problem.level,
                "id": one.problem.id,
                "name": one.problem.name,
                "candidate": one.candidate,
                **verdict_json(one.verdict),
            }
            for one in judged
        ],
    }


def print_comparison(judged: Sequence[Judged], out: Console) -> None:
    """Print what KernelBench would report of a run."""
    from evokernel.compat import fast_p_by_kernelbench

    table = Table(title=NOTE, title_justify="left", box=SIMPLE_HEAD)
    table.add_column("problem")
    table.add_column("correct")
    for name in ("speedup", "ms", "reference ms"):
        table.add_column(name, justify="right")
    for one in judged:
        verdict = one.verdict
        table.add_row(
            one.problem.label,
            "yes" if verdict.correct else "no",
            number(verdict.speedup, ".2f", "x"),
            number(verdict.kernel_ms, ".4f"),
            number(verdict.reference_ms, ".4f"),
        )
    out.print(table)
    shares = fast_p_by_kernelbench(judged).items()
    said = ", ".join(f"fast_{p:g} {share:.2f}" for p, share in shares if share is not None)
    out.print(f"{len(judged)} problems, degenerate ones included: {said}", highlight=False)
