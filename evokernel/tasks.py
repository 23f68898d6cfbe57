"""Running coroutines together: all of them, or the first failure and nothing left behind."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any

__all__ = ["cancel_all", "run_together"]


async def run_together(coroutines: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Run coroutines until all are done.

    Raises:
        BaseException: The first failure among them, after all others were cancelled; unlike a
            task group's, it is not wrapped.
    """
    tasks = [asyncio.ensure_future(coroutine) for coroutine in coroutines]
    try:
        await asyncio.gather(*tasks)
    finally:
        await cancel_all(tasks)


async def cancel_all(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel what still runs, and wait until it has ended."""
    pending = list(tasks)
    for task in pending:
        task.cancel()
    await asyncio.gather(*pending, return_exceptions=True)
