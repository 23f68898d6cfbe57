"""`evokernel ask`: the prompt that would be sent to a model, and what comes of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evokernel.cli.problems import BundledScale
from evokernel.cli.reading import (
    IdOption,
    JsonOption,
    LevelOption,
    evaluation_json,
    find_problem,
    open_run,
    print_json,
)
from evokernel.cli.show import describe_evaluation
from problems.errors import ConfigError, EvaluatorError, ProblemError

if TYPE_CHECKING:
    from archives.evaluation import Evaluation
    from evokernel.asking import Exchange, Inquiry, Subject
    from evokernel.config import RunConfig
    from operators.operator import Operator
    from problems.problem import Problem

__all__ = ["ask"]

_NO_VERDICT = 3


def ask(
    llm: Annotated[str, typer.Option(help="Language model, such as openai/gpt-5.")],
    level: LevelOption = None,
    id: IdOption = None,
    operator: Annotated[
        str | None,
        typer.Option(
            help="Who asks: translate, mutate, crossover, repair, or package.module:NAME. Default: "
            "mutate with a parent, else translate."
        ),
    ] = None,
    run: Annotated[
        Path | None, typer.Option(help="Run whose parents, elites and lessons are told of.")
    ] = None,
    parent: Annotated[
        list[str] | None,
        typer.Option(help="First digits of a candidate of the run to start from; repeatable."),
    ] = None,
    scale: Annotated[
        BundledScale | None,
        typer.Option(help="Sizes, where no run is given. Default: official on a GPU, else small."),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", help="One setting, such as llm.temperature=0.2; repeatable."),
    ] = None,
    device: Annotated[
        str,
        typer.Option(
            help="Where to measure without a run: auto (a GPU where there is one), cpu or cuda. "
            "With one: where that measured."
        ),
    ] = "auto",
    send: Annotated[
        bool, typer.Option("--send", help="Send it; print the reply and its evaluation.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Print the prompt that an operator would send to a model; send nothing unless told to.

    The question is the one that the search would ask. With --send, each follow-up is printed too,
    and the program that comes of it is measured.
    """
    import asyncio

    from evokernel.config import resolve
    from evokernel.devices import device_kind
    from evokernel.models import check_models
    from operators.registry import load_operator

    config = resolve(settings=settings or (), flags={"llm.models": (llm,)})
    name = operator or ("mutate" if parent else "translate")
    asking = load_operator(name if ":" in name or "." in name else f"llm.{name}")
    if send:
        for note in check_models(config.llm, Path.cwd()):
            typer.echo(f"evokernel: {note}", err=True)
    with _subject(config, run, level, id, scale, parent or [], device) as subject:
        # A reply is paid for: what measures the program that comes of it must be here.
        kind = device_kind(subject.device.kind) if send else subject.device.kind
        found = asyncio.run(_inquire(subject, asking, config, send=send))
        problem = subject.search.problem
    if not found.exchanges:
        raise ConfigError(f"nothing would be sent: {found.proposal.reason}: {found.proposal.note}")
    # A reply is paid for: it is printed whatever becomes of measuring it.
    if not as_json:
        _print(found, is_sent=send)
    evaluation, complaint = None, ""
    if found.proposal.source is not None:
        from evokernel.verdict import judge_once

        try:
            evaluation = asyncio.run(judge_once(problem, found.proposal.source, device=kind))
        except (EvaluatorError, ProblemError) as error:
            complaint = str(error)
    if as_json:
        print_json(_json(found, evaluation))
    elif evaluation is not None:
        _print_evaluation(evaluation)
    if complaint:
        typer.echo(f"evokernel: no verdict: {complaint}", err=True)
        raise typer.Exit(_NO_VERDICT)


@contextmanager
def _subject(
    config: RunConfig,
    run: Path | None,
    level: int | None,
    id: int | None,
    scale: BundledScale | None,
    parents: list[str],
    device: str,
) -> Iterator[Subject]:
    """What is asked about: a problem of a run, or a bundled one by itself."""
    import asyncio

    from evaluator.local import LocalEvaluator
    from evokernel.asking import subject_alone, subject_of_run
    from evokernel.devices import device_kind

    if run is None:
        if parents:
            raise ConfigError("--parent is a candidate of a run: name the run with --run")
        kind = device_kind(device)
        problem = _bundled(level, id, scale, kind)
        yield asyncio.run(
            subject_alone(problem, config, LocalEvaluator(device=kind, rate=kind == "cuda"))
        )
        return
    if scale is not None:
        raise ConfigError("--scale is for bundled problems: those of --run have their sizes")
    with open_run(run) as store:
        yield subject_of_run(store, find_problem(store, level, id), parents)


def _bundled(level: int | None, id: int | None, scale: BundledScale | None, kind: str) -> Problem:
    from evokernel.devices import default_scale
    from problems.catalogue import load_level
    from problems.problem import Scale

    if level is None or id is None:
        raise ConfigError("ask expects --level and --id, or a run with --run")
    sizes = Scale(scale.value) if scale else default_scale(kind)
    (problem,) = load_level(level, sizes, [id])
    return problem


async def _inquire(
    subject: Subject, operator: Operator, config: RunConfig, *, send: bool
) -> Inquiry:
    from evokernel.asking import inquire
    from evokernel.models import ProviderModels

    if not send:
        return await inquire(subject, operator, config, None)
    models = ProviderModels(config.llm, folder=Path.cwd(), rng_seed=config.rng_seed)
    async with models:
        return await inquire(subject, operator, config, models)


def _print(found: Inquiry, *, is_sent: bool) -> None:
    """Messages as they are, so that they can be piped on; what surrounds them goes to stderr."""
    shown = 0
    for number, exchange in enumerate(found.exchanges):
        for message in exchange.messages[shown:]:
            typer.echo(f"----- {message.role} (question {number})", err=True)
            typer.echo(message.text)
        # A follow-up repeats what was said before; its own part alone is new.
        shown = len(exchange.messages)
        if is_sent:
            _print_answer(exchange, number)
    if not is_sent:
        typer.echo("----- nothing was sent: --send does that", err=True)
        return
    proposal = found.proposal
    if proposal.source is None:
        typer.echo(f"----- no program: {proposal.reason}: {proposal.note}", err=True)
        return
    typer.echo(f"----- program ({proposal.note})", err=True)
    typer.echo(proposal.source)


def _print_evaluation(evaluation: Evaluation) -> None:
    typer.echo("----- evaluation", err=True)
    for line in describe_evaluation(evaluation):
        typer.echo(line)


def _print_answer(exchange: Exchange, number: int) -> None:
    answer = exchange.answer
    cost = f", ${answer.cost_usd:.4f}" if answer.cost_usd else ""
    ended = f"{answer.outcome}{f', {answer.finish}' if answer.finish else ''}{cost}"
    typer.echo(f"----- answer to question {number} ({ended})", err=True)
    typer.echo(answer.text or answer.log)


def _json(found: Inquiry, evaluation: Evaluation | None) -> dict[str, Any]:
    proposal = found.proposal
    return {
        "exchanges": [
            {
                "messages": [{"role": m.role, "text": m.text} for m in exchange.messages],
                "outcome": exchange.answer.outcome.value,
                "text": exchange.answer.text,
                "finish": exchange.answer.finish,
                "cost_usd": exchange.answer.cost_usd,
                "log": exchange.answer.log,
            }
            for exchange in found.exchanges
        ],
        "source": proposal.source,
        "reason": proposal.reason,
        "note": proposal.note,
        "evaluation": None if evaluation is None else evaluation_json(evaluation),
    }
