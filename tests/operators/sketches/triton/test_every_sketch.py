"""No Triton sketch goes without its programs being run."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from operators.sketches.registry import SKETCHES


def test_programs_of_every_sketch_run_in_the_interpreter() -> None:
    run = {
        case.sketch
        for path in sorted(Path(__file__).parent.glob("test_triton_*.py"))
        for case in import_module(f"{__package__}.{path.stem}").CASES.values()
    }
    assert run >= {sketch.name for sketch in SKETCHES if sketch.device == "cuda"}
