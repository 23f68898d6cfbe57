"""The heap: garbage collection that leaves aside what was there before a search began.

Imported libraries hold half a million objects that stay to the end. Python's collector walks all of
them now and then, a quarter of a second each time, in which no verdict is recorded and no answer is
read. It needs to walk only what the search itself has made.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["settled_heap"]


@contextmanager
def settled_heap() -> Iterator[None]:
    """Leave what is there now out of garbage collection, as long as the context lasts.

    Whoever has done the same for the whole process keeps it.
    """
    if gc.get_freeze_count():
        yield
        return
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
