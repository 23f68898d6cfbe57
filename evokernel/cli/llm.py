"""`evokernel llm RUN`: what language models cost and brought, and what was said to them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from evokernel.cli.reading import (
    JsonOption,
    RunArgument,
    console,
    number,
    open_run,
    print_json,
)
from problems.errors import ConfigError

if TYPE_CHECKING:
    from archives.attempt import Slot
    from archives.llm_call import LlmCall
    from archives.records import CallSummary
    from archives.store import Store
    from evokernel.spending import Spending, SpendingLine
    from problems.problem import Problem

__all__ = ["llm", "print_spending"]

_UNKNOWN = "unknown"
_NUM_SHOWN = 12
"""How many problems an error lists."""


def llm(
    run: RunArgument,
    call: Annotated[
        int | None,
        typer.Option(
            "--call", metavar="ID", help="Print one call: all that was sent and answered."
        ),
    ] = None,
    calls: Annotated[
        bool, typer.Option("--calls", help="List the calls with their ids, one line each.")
    ] = False,
    problem: Annotated[
        str | None,
        typer.Option("--problem", help="One problem alone, such as 1/23 (level/id) or 23."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Print what language models cost and what they brought, by model and operator."""
    if call is not None and (calls or problem is not None):
        raise ConfigError("--call prints one call alone: leave out --calls and --problem")
    with open_run(run) as store:
        if call is not None:
            _one_call(store, call, as_json)
        elif calls:
            _list_calls(store, problem, as_json)
        else:
            _spending(store, problem, as_json)


def print_spending(spending: Spending, out: Console) -> None:
    """Print spending for people: what it cost, what it brought, and the shares of waste."""
    total = spending.total
    if not spending.lines:
        out.print(f"[bold]{escape(spending.run)}[/bold]: no language model was asked")
        return
    out.print(
        f"[bold]{escape(spending.run)}[/bold]: {_counted(total.calls, 'call')}, "
        f"{_cost(total)}, accepted children {total.accepted}, gain {total.gain:.2f}",
        highlight=False,
    )
    for text in _waste(total):
        out.print(text, style="dim", highlight=False)
    rows = spending.lines if len(spending.lines) == 1 else (*spending.lines, total)
    out.print(_spent(rows))
    out.print(_brought(rows))


def _waste(total: SpendingLine) -> Iterator[str]:
    """What was lost, and what is not known of the costs."""
    if total.failed:
        share = f"{total.failed} of {_counted(total.calls, 'call')} ({total.failed_share:.0%})"
        yield f"{share} brought no reply: {_by_outcome(total)}"
    if total.repeated:
        yield (
            f"{total.repeated} of {_counted(total.candidates, 'candidate')} "
            f"({total.repeated_share:.0%}) repeated one that was known already"
        )
    if total.unpriced:
        yield (
            f"Calls whose price is not known, left out of the sums: {total.unpriced}. "
            "llm.input_price_usd and llm.output_price_usd state it for a new run."
        )
    if total.uncounted:
        yield f"Replies whose tokens the provider did not count: {total.uncounted}."


def _spent(lines: Sequence[SpendingLine]) -> Table:
    table = Table(title="Spent", title_justify="left", box=SIMPLE_HEAD)
    for name in ("model", "operator"):
        table.add_column(name, overflow="fold")
    for name in ("calls", "sent", "failed", "tokens sent", "received", "cost", "mean seconds"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("failed how", overflow="fold")
    for line in lines:
        table.add_row(
            *_names(line),
            str(line.calls),
            str(line.sent),
            str(line.failed),
            _tokens(line.prompt_tokens),
            _tokens(line.completion_tokens),
            _cost(line),
            number(line.latency_s, ".2f"),
            _by_outcome(line),
        )
    return table


def _brought(lines: Sequence[SpendingLine]) -> Table:
    table = Table(title="Brought", title_justify="left", box=SIMPLE_HEAD)
    for name in ("model", "operator"):
        table.add_column(name, overflow="fold")
    for name in ("proposals", "candidates", "repeated", "correct", "accepted", "gain", "best"):
        table.add_column(name, justify="right", no_wrap=True)
    for line in lines:
        counts = (line.proposals, line.candidates, line.repeated, line.correct, line.accepted)
        table.add_row(
            *_names(line),
            *map(str, counts),
            number(line.gain),
            number(line.best_speedup, ".2f", "x"),
        )
    return table


def _names(line: SpendingLine) -> tuple[str, str]:
    return (escape(line.model), escape(line.operator)) if line.operator else ("all", "")


def _counted(count: int, what: str) -> str:
    return f"{count} {what}" + ("" if count == 1 else "s")


def _by_outcome(line: SpendingLine) -> str:
    return ", ".join(f"{name} {count}" for name, count in line.failures.items())


def _tokens(count: int | None) -> str:
    return _UNKNOWN if count is None else str(count)


def _cost(line: SpendingLine) -> str:
    """Money spent; what is not known is never passed over."""
    if line.cost_usd is None:
        return "cost unknown"
    return _money(line.cost_usd) + (f" + {line.unpriced} unknown" if line.unpriced else "")


def _money(cost_usd: float | None) -> str:
    return _UNKNOWN if cost_usd is None else f"${cost_usd:.4f}"


def _spending(store: Store, wanted: str | None, as_json: bool) -> None:
    from evokernel.spending import read_spending, spending_to_json

    found = read_spending(store, _key(store, wanted))
    if as_json:
        print_json(spending_to_json(found))
    else:
        print_spending(found, console())


def _list_calls(store: Store, wanted: str | None, as_json: bool) -> None:
    summaries = store.calls(_key(store, wanted))
    problems = {problem.key: problem for problem in store.problems()}
    if as_json:
        print_json([_summary_json(each, problems[each.slot.problem]) for each in summaries])
        return
    for each in summaries:
        typer.echo(_describe(each, problems[each.slot.problem]))


def _one_call(store: Store, id: int, as_json: bool) -> None:
    from archives.encoding import storable

    found = store.call(id)
    problem = next(each for each in store.problems() if each.key == found.slot.problem)
    if as_json:
        print_json(_call_json(found, id, problem))
        return
    typer.echo(_describe_call(found, id, problem))
    for message in found.messages:
        typer.echo(f"\n--- {message.role} ---\n{storable(message.text)}")
    if found.text:
        typer.echo(f"\n--- reply ---\n{storable(found.text)}")


def _key(store: Store, wanted: str | None) -> str | None:
    """The key of the problem that was named as level/id or id; None where none was."""
    if wanted is None:
        return None
    names = {problem.key: f"{problem.level}/{problem.id}" for problem in store.problems()}
    found = [key for key, name in names.items() if wanted in (name, name.partition("/")[2])]
    if len(found) == 1:
        return found[0]
    shown = ", ".join(list(names.values())[:_NUM_SHOWN])
    more = ", ..." if len(names) > _NUM_SHOWN else ""
    raise ConfigError(
        f"--problem {wanted} names {'several problems' if found else 'no problem'} of the run "
        f"{store.folder}: expected one out of {shown}{more}"
    )


def _describe(call: CallSummary, problem: Problem) -> str:
    """One call in one line."""
    how = call.outcome.value + (f" ({call.finish})" if call.finish else "")
    pieces = [
        f"{call.id:>6}  {problem.level}/{problem.id}  {_place(call.slot)}, call {call.number}",
        f"{call.model}  {call.operator}",
        how,
        _usage(call) if call.outcome.was_sent else "not sent",
        " ".join(call.log.split()),
    ]
    return "  ".join(piece for piece in pieces if piece)


def _describe_call(call: LlmCall, id: int, problem: Problem) -> str:
    """Everything about a call but its texts, a few lines."""
    outcome = call.outcome.value + (f", finish {call.finish}" if call.finish else "")
    parameters = ", ".join(f"{name}={value!r}" for name, value in call.parameters.items())
    lines = [
        f"call {id}: {call.operator} asked {call.model} for {problem.label}, "
        f"{_place(call.slot)}, call {call.number} of the attempt",
        f"outcome {outcome}" + (f": {' '.join(call.log.split())}" if call.log else ""),
        _usage(call) if call.outcome.was_sent else "not sent",
        f"parameters {parameters or 'none'}",
        f"prompt hash {call.prompt_hash}",
    ]
    return "\n".join(lines)


def _usage(call: CallSummary | LlmCall) -> str:
    tries = f" in {call.tries} tries" if call.tries > 1 else ""
    return (
        f"tokens {_tokens(call.prompt_tokens)} sent, {_tokens(call.completion_tokens)} received  "
        f"cost {_money(call.cost_usd)}  {call.latency_s:.2f} s{tries}"
    )


def _place(slot: Slot) -> str:
    return f"generation {slot.generation}, island {slot.island}, attempt {slot.index}"


def _summary_json(call: CallSummary, problem: Problem) -> dict[str, Any]:
    return {"call": call.id, **_facts_json(call, problem)}


def _call_json(call: LlmCall, id: int, problem: Problem) -> dict[str, Any]:
    from archives.encoding import storable

    return {
        "call": id,
        **_facts_json(call, problem),
        "parameters": dict(call.parameters),
        "messages": [
            {"role": message.role, "text": storable(message.text)} for message in call.messages
        ],
        "reply": storable(call.text),
    }


def _facts_json(call: CallSummary | LlmCall, problem: Problem) -> dict[str, Any]:
    return {
        "level": problem.level,
        "id": problem.id,
        "name": problem.name,
        "generation": call.slot.generation,
        "island": call.slot.island,
        "index": call.slot.index,
        "number": call.number,
        "model": call.model,
        "operator": call.operator,
        "outcome": call.outcome.value,
        "finish": call.finish,
        "log": call.log,
        "prompt_tokens": call.prompt_tokens,
        "completion_tokens": call.completion_tokens,
        "cost_usd": call.cost_usd,
        "latency_s": call.latency_s,
        "tries": call.tries,
        "prompt_hash": call.prompt_hash,
    }
