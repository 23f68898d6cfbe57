"""Candidates' processes wait a while for memory that others have at the moment."""

from __future__ import annotations

from pathlib import Path

import pytest

from evaluator.referee.cuda import starting
from evaluator.referee.cuda.reference import Room
from problems.errors import EvaluatorError
from tests.evaluator.referee_cases import SOFTMAX
from tests.evaluator.stand_in_gpu import open_arena


@pytest.mark.parametrize("patience_s", [30.0, 0.0])
def test_a_room_is_asked_for_until_there_is_memory_or_patience_ends(
    patience_s: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusals = 2
    monkeypatch.chdir(tmp_path)  # The stand-in's workers are threads, and write where they are.
    monkeypatch.setattr(starting, "PAUSE_S", 0.0)
    monkeypatch.setattr(starting, "PATIENCE_S", patience_s)
    with open_arena(SOFTMAX, tmp_path) as (arena, session, _):
        process = arena.process(arena.build_folder(), timed=False)
        room, asked = session.reference.room, []

        def crowded(sets: int) -> Room:
            asked.append(sets)
            if len(asked) <= refusals:
                raise EvaluatorError("others have the memory")
            return room(sets)

        monkeypatch.setattr(session.reference, "room", crowded)
        try:
            if patience_s:
                arena.furnish(process)
            else:
                with pytest.raises(EvaluatorError, match="others have the memory"):
                    arena.furnish(process)
        finally:
            process.end()
    assert len(asked) == (refusals + 1 if patience_s else 1)
