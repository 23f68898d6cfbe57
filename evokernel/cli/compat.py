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
        "proves_nothing": verdict.proves_nothing,
    }


def comparison_json(judged: Sequence[Judged]) -> dict[str, Any]:
    """Return what KernelBench would report of a run as JSON-able data."""
    from evokernel.compat import fast_p_by_kernelbench, telling_by_kernelbench

    telling = telling_by_kernelbench(judged)
    return {
        "rules": Rules.KERNELBENCH.value,
        "fast_p": {str(p): share for p, share in fast_p_by_kernelbench(judged).items()},
        "num_proving_nothing": len(judged) - len(telling),
        "fast_p_without_these": {
            str(p): share for p, share in fast_p_by_kernelbench(telling).items()
        },
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
    """Print what KernelBench would report of a run, with and without what proves nothing."""
    from evokernel.compat import telling_by_kernelbench

    table = Table(title=NOTE, title_justify="left", box=SIMPLE_HEAD)
    table.add_column("problem")
    table.add_column("correct")
    for name in ("speedup", "ms", "reference ms"):
        table.add_column(name, justify="right")
    for one in judged:
        verdict = one.verdict
        table.add_row(
            one.problem.label,
            _correct(verdict),
            number(verdict.speedup, ".2f", "x"),
            number(verdict.kernel_ms, ".4f"),
            number(verdict.reference_ms, ".4f"),
        )
    out.print(table)
    telling = telling_by_kernelbench(judged)
    said = f"{len(judged)} problems, degenerate ones included: {_shares(judged)}"
    out.print(said, highlight=False)
    if len(telling) < len(judged):
        said = (
            f"{len(judged) - len(telling)} prove nothing by these rules, by which something passes "
            f"that computes nothing; without them: {_shares(telling)}"
        )
        out.print(said, highlight=False)


def _correct(verdict: KernelBenchVerdict) -> str:
    said = "yes" if verdict.correct else "no"
    return f"{said} (passes too: {verdict.proves_nothing})" if verdict.proves_nothing else said


def _shares(judged: Sequence[Judged]) -> str:
    from evokernel.compat import fast_p_by_kernelbench

    shares = fast_p_by_kernelbench(judged).items()
    return ", ".join(f"fast_{p:g} {share:.2f}" for p, share in shares if share is not None)
