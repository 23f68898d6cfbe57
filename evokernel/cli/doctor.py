"""`evokernel doctor`: what this machine has of what EvoKernel needs."""

from __future__ import annotations

from dataclasses import asdict

import typer
from rich.markup import escape

from evokernel.cli.reading import JsonOption, console, print_json

__all__ = ["doctor"]

_STYLES = {"ok": "green", "missing": "bold red", "note": "yellow"}


def doctor(as_json: JsonOption = False) -> None:
    """Say what this machine has, what is missing, and what to do; exit code 1 if it cannot work."""
    from evokernel.doctor import examine, isolation_of_a_worker

    findings = examine(isolation_of_a_worker)
    if as_json:
        print_json([asdict(finding) for finding in findings])
    else:
        out = console()
        for finding in findings:
            style = _STYLES[finding.status]
            advice = f": {finding.advice}" if finding.advice else ""
            out.print(
                f"[{style}]{finding.status:<7}[/{style}] {finding.name:<9} "
                + escape(finding.found + advice),
                highlight=False,
                soft_wrap=True,
            )
    if any(finding.status == "missing" for finding in findings):
        raise typer.Exit(1)
