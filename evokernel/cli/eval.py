"""`evokernel eval`: the referee's verdict on one candidate."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from evokernel.cli.compat import NOTE, CompatOption, verdict_json
from evokernel.cli.problems import BundledScale, Precision, PrecisionOption
from evokernel.cli.reading import (
    IdOption,
    JsonOption,
    LevelOption,
    console,
    evaluation_json,
    no_verdict_json,
    print_json,
)
from evokernel.cli.show import describe_evaluation
from problems.errors import ConfigError, EvaluatorError, ProblemError

if TYPE_CHECKING:
    from archives.evaluation import Evaluation
    from problems.problem import Problem

__all__ = ["evaluate"]

_CANDIDATE_FAILED = 1
_NO_VERDICT = 3


def evaluate(
    files: Annotated[
        list[Path],
        typer.Argument(
            help="REFERENCE and CANDIDATE, or with --level and --id the CANDIDATE alone."
        ),
    ],
    level: LevelOption = None,
    id: IdOption = None,
    scale: Annotated[
        BundledScale | None,
        typer.Option(
            help="Sizes of the bundled problem. Default: official on a GPU, small on a CPU."
        ),
    ] = None,
    precision: PrecisionOption = Precision.FP32,
    device: Annotated[
        str, typer.Option(help="Where to measure: auto (a GPU where there is one), cpu or cuda.")
    ] = "auto",
    baseline: Annotated[
        Path | None,
        typer.Option(
            help="File of `evokernel baseline` for the matched speedup. Default: one of this "
            "device, if known."
        ),
    ] = None,
    compat: CompatOption = None,
    as_json: JsonOption = False,
) -> None:
    """Check a candidate on fresh secret inputs and measure it against its reference.

    Exit codes: 0 it is correct and was measured, 1 it failed, 2 wrong usage, 3 no verdict.
    """
    import asyncio

    from evokernel.devices import device_kind
    from evokernel.origins import located
    from evokernel.verdict import judge_once

    kind = device_kind(device)
    problem, source = _read(files, level, id, scale, kind)
    problem = replace(problem, precision=precision.value)
    about = {
        "level": problem.level,
        "id": problem.id,
        "name": problem.name,
        "scale": problem.scale.value,
        "precision": problem.precision,
    }
    if compat is not None and baseline is not None:
        raise ConfigError("--baseline has no meaning with --compat: leave one of them out")
    try:
        if compat is not None:
            _print_compat(problem, source, kind, as_json=as_json, about=about)
            return
        evaluation = asyncio.run(judge_once(problem, source, device=kind, baseline=baseline))
    except ProblemError as error:
        if problem.level:
            raise
        raise ProblemError(located(problem, str(error), files[0])) from error
    except EvaluatorError as error:
        if as_json:
            print_json({**no_verdict_json(str(error)), **about})
        typer.echo(f"evokernel: no verdict: {error}", err=True)
        raise typer.Exit(_NO_VERDICT) from None
    if as_json:
        print_json({**evaluation_json(evaluation), **about})
    else:
        out = console()
        out.print(f"[bold]{escape(problem.label)}[/bold], {_sizes(problem)}")
        for line in describe_evaluation(evaluation):
            out.print(line, markup=False, highlight=False, soft_wrap=True)
    code = _exit_code(evaluation)
    if code:
        raise typer.Exit(code)


def _print_compat(
    problem: Problem, source: str, kind: str, *, as_json: bool, about: dict[str, object]
) -> None:
    """Judge by KernelBench's rules and tell; exit code 1 where the candidate is wrong."""
    from evokernel.compat import judge_by_kernelbench

    verdict = judge_by_kernelbench(problem, source, kind)
    if as_json:
        print_json({**verdict_json(verdict), **about})
    else:
        out = console()
        out.print(f"[bold]{escape(problem.label)}[/bold], {_sizes(problem)}")
        if verdict.speedup is None:
            out.print(f"wrong: {verdict.log}", markup=False, highlight=False, soft_wrap=True)
        else:
            out.print(
                f"correct, {verdict.speedup:.2f}x: {verdict.kernel_ms:.4g} ms, reference "
                f"{verdict.reference_ms:.4g} ms",
                highlight=False,
            )
        out.print(NOTE, markup=False, highlight=False)
    if not verdict.correct:
        raise typer.Exit(_CANDIDATE_FAILED)


def _sizes(problem: Problem) -> str:
    precision = "" if problem.precision == "fp32" else f" in {problem.precision}"
    return f"{problem.scale} scale{precision}"


def _read(
    files: list[Path],
    level: int | None,
    id: int | None,
    scale: BundledScale | None,
    kind: str,
) -> tuple[Problem, str]:
    from evokernel.devices import default_scale
    from problems.catalogue import load_level
    from problems.loaders import load_file
    from problems.problem import Scale

    if level is None and id is None:
        if len(files) != 2:
            raise ConfigError(
                f"eval expects two files, REFERENCE and CANDIDATE, got {len(files)}: give both, "
                "or --level and --id and the candidate alone"
            )
        if scale is not None:
            raise ConfigError(
                "--scale is for bundled problems: a reference file states its own sizes"
            )
        return load_file(files[0]), _text(files[1])
    if level is None or id is None or len(files) != 1:
        raise ConfigError(
            "eval of a bundled problem expects --level, --id and one file, the CANDIDATE; got "
            f"--level {level}, --id {id} and {len(files)} files"
        )
    sizes = Scale(scale.value) if scale else default_scale(kind)
    (problem,) = load_level(level, sizes, [id])
    return problem, _text(files[0])


def _text(path: Path) -> str:
    """The candidate's text, whatever it is: the verdict on it is the referee's."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"the candidate {path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"the candidate {path} is not UTF-8 text ({error.reason} at byte {error.start})"
        ) from error


def _exit_code(evaluation: Evaluation) -> int:
    from archives.evaluation import Status

    if evaluation.status is Status.OK:
        return 0
    return _NO_VERDICT if evaluation.status is Status.UNSTABLE else _CANDIDATE_FAILED
