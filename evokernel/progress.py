"""Progress: a running engine shown to people on stderr.

On a terminal a few lines are redrawn twice a second; elsewhere, such as in a log file, one line
is added every now and then. Only the engine's counters are read.
"""

from __future__ import annotations

import asyncio
import statistics

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from evokernel.engine import Engine
from evokernel.monitor import ProblemView

__all__ = ["show_progress", "summary_line"]

_REFRESH_S = 0.5
_LINE_S = 15.0
_BEST_SHOWN = 5


async def show_progress(engine: Engine) -> None:
    """Show an engine on stderr until cancelled."""
    console = Console(stderr=True)
    if not console.is_terminal:
        while True:
            await asyncio.sleep(_LINE_S)
            console.print(summary_line(engine), highlight=False, soft_wrap=True)
    with Live(console=console, auto_refresh=False, transient=True) as live:
        while True:
            live.update(_panel(engine), refresh=True)
            await asyncio.sleep(_REFRESH_S)


def summary_line(engine: Engine) -> str:
    """Return one line: problems, evaluations, rate, gain so far, coverage, time left."""
    monitor = engine.monitor
    views = list(monitor.problems.values())
    done = sum(view.is_done for view in views)
    elapsed_s = max(engine.budget.elapsed_s(), 1e-9)
    faster = [view.speedup for view in views if view.speedup and view.speedup > 1]
    coverage = statistics.fmean(view.coverage for view in views) if views else 0.0
    parts = [
        f"problems {done}/{len(views)}",
        f"evaluations {monitor.evaluations} ({monitor.evaluations / elapsed_s:.1f}/s)",
        f"verifications {monitor.verifications}",
        f"faster {len(faster)}",
        f"coverage {coverage:.0%}",
        _time_text(engine),
    ]
    if monitor.evaluator_failures:
        parts.insert(3, f"evaluator failures {monitor.evaluator_failures}")
    if monitor.calls or monitor.calls_under_way:
        parts.insert(3, _calls_text(engine))
    if monitor.note:
        parts.append(monitor.note)
    return "  ".join(parts)


def _calls_text(engine: Engine) -> str:
    """What models were asked, and what that has cost the run so far."""
    spent = engine.spent
    cost = "cost unknown" if spent.unpriced else f"${spent.cost_usd:,.2f}"
    return (
        f"calls {spent.calls:,} (+{engine.monitor.calls_under_way}), {spent.tokens / 1000:,.0f}k "
        f"tokens, {cost}"
    )


def _time_text(engine: Engine) -> str:
    elapsed_s = engine.budget.elapsed_s()
    monitor = engine.monitor
    estimates = [engine.budget.left_s()]
    if monitor.steps_done:
        missing = max(0, monitor.steps - monitor.steps_done)
        estimates.append(elapsed_s / monitor.steps_done * missing)
    known = [estimate for estimate in estimates if estimate is not None]
    left = f", {_clock(min(known))} left" if known else ""
    return f"time {_clock(elapsed_s)}{left}"


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def _panel(engine: Engine) -> Group:
    monitor = engine.monitor
    bar = ProgressBar(total=max(monitor.steps, 1), completed=monitor.steps_done, width=60)
    return Group(Text(summary_line(engine)), bar, _best(list(monitor.problems.values())))


def _best(views: list[ProblemView]) -> Table:
    """What is going on, and the best so far."""
    table = Table.grid(padding=(0, 2))
    quiet = ("waiting", "skipped")
    busy = [v for v in views if not v.is_done and v.stage not in quiet and "done" not in v.stage]
    for view in busy[:_BEST_SHOWN]:
        table.add_row("now", view.label, _speedup(view), view.stage)
    best = sorted((v for v in views if v.speedup), key=lambda v: -(v.speedup or 0.0))
    for view in best[:_BEST_SHOWN]:
        table.add_row("best", view.label, _speedup(view), view.stage)
    return table


def _speedup(view: ProblemView) -> str:
    if view.speedup is None:
        return ""
    matched = " matched" if view.is_matched else ""
    return f"{view.speedup:.2f}x{matched}" + ("" if view.is_verified else " (search)")
