"""The heap: garbage collection that leaves aside what was there before a search began.

Imported libraries hold half a million objects that stay to the end. Python's collector walks all of
them now and then, a quarter of a second each time, in which no verdict is recorded and no answer is
read. It needs to walk only what the search itself has made.

And it needs to look less often: what is under way at a time, 64 calls and their parsed programs, is
more than it waits for by default, so that it would look again and again at what is still in use.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["settled_heap"]

_NEW_OBJECTS = 20_000
"""Objects made and kept before the collector looks at them; Python's own number is 700."""


@contextmanager
def settled_heap() -> Iterator[None]:
    """Leave what is there now out of garbage collection, as long as the context lasts.

    Whoever has done the same for the whole process keeps it.
    """
    if gc.get_freeze_count():
        yield
        return
    gc.collect(1)  # Older garbage stays where it is; looking for it takes as long as all the rest.
    gc.freeze()
    before = gc.get_threshold()
    gc.set_threshold(_NEW_OBJECTS, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()
