from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from evokernel.engine import Engine
from evokernel.progress import show_progress, summary_line
from tests.evokernel import landscape as world


def test_the_line_tells_how_far_a_run_is(tmp_path: Path) -> None:
    config = world.config()
    with world.new_store(tmp_path / "run", config) as store:
        engine = Engine(
            store=store, config=config, evaluator=world.Landscape(), operators=world.operators()
        )
        assert summary_line(engine).startswith("problems 0/0  evaluations 0")
        asyncio.run(engine.run())
        line = summary_line(engine)
        assert line.startswith("problems 2/2")
        assert f"evaluations {store.counts().evaluations} (" in line
        assert f"verifications {store.counts().verifications}" in line
        assert "coverage" in line
        assert "0:00 left" in line


def test_a_live_display_is_drawn_until_it_is_cancelled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    config = world.config()

    async def both(engine: Engine) -> None:
        shown = asyncio.ensure_future(show_progress(engine))
        await engine.run()
        await asyncio.sleep(0.6)
        shown.cancel()
        await asyncio.gather(shown, return_exceptions=True)

    with world.new_store(tmp_path / "run", config) as store:
        engine = Engine(
            store=store, config=config, evaluator=world.Landscape(), operators=world.operators()
        )
        asyncio.run(both(engine))
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "1/1 Valley1" in captured.err
    assert "problems 2/2" in captured.err
