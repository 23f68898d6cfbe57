"""Runs Triton programs on the CPU, in Triton's interpreter, against the reference in float64.

Triton decides at its import whether it interprets, so programs run in a process of their own. A
test file collects its cases and runs them all in one such process:

    CASES = {"softmax": case_of(SKETCH, problem, {"BLOCK": 16})}

    @pytest.fixture(scope="module")
    def verdicts() -> dict[str, str]:
        return interpreted(CASES)

    @pytest.mark.parametrize("name", CASES)
    def test_programs(name: str, verdicts: dict[str, str]) -> None:
        assert verdicts[name] == ""

What torch allocates is filled with NaN first, so an output that was not written shows.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from archives.configuration import read_configuration, read_space, with_configuration
from operators.sketches.sketch import Sketch
from problems.problem import Problem
from problems.trace import trace

__all__ = ["COARSE", "Case", "case_of", "cases_of", "interpreted", "on_device"]

COARSE = 1e5
"""Tolerance of programs that multiply by 11 bits, as float16 and TF32 have; float32 has 24."""
_ROOT = Path(__file__).parents[4]
_SCALED = {"CHAIN": 32, "PROGRAMS": 3, "WAVES": 2}
"""Switches that are on, at the sizes of tests: values for a GPU would change nothing there."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """A program to be run.

    Attributes:
        program: Its text, for the CPU.
        reference: Text of the problem.
        precision: "float32", "float16" or "bfloat16": dtype of floating-point inputs and weights.
        variations: Inputs are as drawn times a factor plus an offset, for each of these pairs.
        specials: Whether some inputs hold NaN and infinities as well, in a last variation.
        tolerance: Times the reference's own error that is allowed.
        sketch: Name of the sketch that wrote the program; "" where none did.
    """

    program: str
    reference: str
    precision: str = "float32"
    variations: tuple[tuple[float, float], ...] = ((1.0, 0.0), (-2.0, 0.5))
    specials: bool = False
    tolerance: float = 16.0
    sketch: str = ""


def case_of(
    sketch: Sketch,
    problem: Problem,
    changes: Mapping[str, Any] | None = None,
    *,
    precision: str = "float32",
    **options: Any,  # noqa: ANN401 - fields of `Case`
) -> Case:
    """Return the case of a sketch's program at its default configuration with some changes.

    A change must name a parameter of the program, so that a test cannot miss what it is about;
    its value may lie outside of `TUNE_PARAMS`, as tiny tiles do.
    """
    source = _written(sketch, problem, precision)
    default, space = read_configuration(source), read_space(source)
    assert set(default) == set(space), f"{sketch.name}: CONFIG and TUNE_PARAMS differ"
    assert all(default[name] in values for name, values in space.items()), sketch.name
    changed = dict(changes or {})
    assert set(changed) <= set(default), f"{sketch.name} has no {set(changed) - set(default)}"
    program = with_configuration(source, {**default, **changed})
    assert 'DEVICE = "cuda"' in program
    program = program.replace('DEVICE = "cuda"', 'DEVICE = "cpu"')
    return Case(
        program=program,
        reference=problem.source,
        precision=precision,
        sketch=sketch.name,
        **options,
    )


@lru_cache(maxsize=1)
def _written(sketch: Sketch, problem: Problem, precision: str) -> str:
    """A sketch's program; kept for the next case, which often changes its configuration only."""
    short = {"float32": "fp32", "float16": "fp16", "bfloat16": "bf16"}[precision]
    source = sketch.write(problem, trace(problem.source, short))
    assert source is not None, f"{sketch.name} does not know {problem.label}"
    return source


def cases_of(
    sketch: Sketch,
    problem: Problem,
    base: Mapping[str, Any] | None = None,
    **options: Any,  # noqa: ANN401 - fields of `Case`
) -> dict[str, Case]:
    """Return the case of `base`, and one for each other value of each structural parameter.

    Structural are parameters with boolean or string values, and numbers that may be 0, which
    switches something off: of those, 0 is held against the first other number. Block sizes are
    not.
    """
    first = case_of(sketch, problem, base, **options)
    chosen, space = read_configuration(first.program), read_space(first.program)
    cases = {f"{sketch.name} {problem.name}": first}
    for name, values in space.items():
        for value in _others(name, values, chosen[name]):
            changed = {**(base or {}), name: value}
            label = f"{sketch.name} {problem.name} {name}={value}"
            cases[label] = case_of(sketch, problem, changed, **options)
    return cases


def _others(name: str, values: Sequence[Any], chosen: bool | int | float | str) -> list[Any]:
    """What a parameter should be tried at besides its chosen value."""
    named = [value for value in values if isinstance(value, bool | str) and value != chosen]
    numbers = [value for value in values if not isinstance(value, bool | str)]
    on = next((number for number in numbers if number), None)
    if on is None or 0 not in numbers:
        return named
    return [*named, 0 if chosen else _SCALED.get(name, on)]


def interpreted(cases: Mapping[str, Case], timeout_s: float = 240.0) -> dict[str, str]:
    """Run cases in Triton's interpreter, in one process.

    Returns:
        For each name "" where the program does what its reference does, else what is wrong.
    """
    return _verdicts(cases, "cpu", timeout_s)


def on_device(
    cases: Mapping[str, Case], processes: int = 8, timeout_s: float = 280.0
) -> dict[str, str]:
    """Run cases on the GPU, in some processes side by side; returns the same as `interpreted`."""
    items = list(cases.items())
    parts = [dict(items[start::processes]) for start in range(min(processes, len(items)))]
    with ThreadPoolExecutor(processes) as pool:
        found = list(pool.map(lambda part: _verdicts(part, "cuda", timeout_s), parts))
    return {name: verdict for verdicts in found for name, verdict in verdicts.items()}


def _verdicts(cases: Mapping[str, Case], device: str, timeout_s: float) -> dict[str, str]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "cases.json"
        path.write_text(json.dumps({name: asdict(case) for name, case in cases.items()}))
        environment = os.environ | {
            "TRITON_INTERPRET": "1" if device == "cpu" else "0",
            "OMP_NUM_THREADS": "1",
            "PYTHONPATH": str(_ROOT),
        }
        module = "tests.operators.sketches.triton.interpreted"
        command = [sys.executable, "-m", module, str(path), device]
        done = subprocess.run(
            command, cwd=_ROOT, env=environment, capture_output=True, text=True, timeout=timeout_s
        )
    assert done.returncode == 0, done.stderr[-4000:]
    verdicts: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
    return verdicts
