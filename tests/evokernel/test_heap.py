"""What was there before a search is left out of garbage collection, and no longer than that."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from evokernel.heap import settled_heap


@pytest.fixture(autouse=True)
def _nothing_is_left_out() -> Iterator[None]:
    """As in a process of its own: the whole suite leaves out what it has imported."""
    gc.unfreeze()
    yield
    gc.freeze()


class Knot:
    """An object that only the collector can free."""

    def __init__(self) -> None:
        self.self = self


def test_what_was_there_stays_and_what_comes_is_collected() -> None:
    old = Knot()
    seen_old = weakref.ref(old)
    with settled_heap():
        del old
        new = Knot()
        seen_new = weakref.ref(new)
        del new
        gc.collect()
        assert seen_old() is not None
        assert seen_new() is None
    gc.collect()
    assert seen_old() is None


def test_it_ends_with_an_error_and_leaves_alone_what_somebody_else_froze() -> None:
    assert gc.get_freeze_count() == 0
    with pytest.raises(ValueError, match="stop"), settled_heap():
        raise ValueError("stop")
    assert gc.get_freeze_count() == 0
    with settled_heap():
        held = gc.get_freeze_count()
        with settled_heap():
            pass
        assert gc.get_freeze_count() == held > 0
