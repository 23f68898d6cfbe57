"""The files under examples/ do what they say."""

from __future__ import annotations

import asyncio
import importlib.util
from pathlib import Path
from types import ModuleType

import pytest
import torch

import evokernel
from archives.attempt import AttemptState
from archives.candidate import Candidate, Language
from archives.configuration import read_configuration, read_space
from archives.evaluation import Evaluation, KernelFacts, Reuse, Rung, Status
from archives.store import Store
from evaluator.evaluator import EvaluationRequest, Purpose
from evaluator.local import LocalEvaluator
from operators.seeds import load_seeds, reference_as_candidate
from problems.catalogue import load_level
from problems.loaders import load_file
from problems.problem import Problem, Scale
from tests.evokernel import landscape as world

EXAMPLES = Path(__file__).parents[2] / "examples"
KERNEL = EXAMPLES / "kernels/level1/88_MinGPTNewGelu.py"


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.setenv("EVOKERNEL_BUILD_DIR", str(tmp_path))
    spec = importlib.util.spec_from_file_location("hand_written_gelu", KERNEL)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_kernel_is_a_seed_of_its_problem() -> None:
    problems = load_level(1, Scale.TINY, [19, 88])
    found = load_seeds(EXAMPLES / "kernels", problems)
    assert found.complaints == ()
    ((name, source),) = found.kernels[problems[1].key]
    assert name == "88_MinGPTNewGelu"
    assert Candidate.of(problems[1].key, source).language is Language.CPP
    point = read_configuration(source)
    assert all(point[name] in choices for name, choices in read_space(source).items())


@pytest.mark.parametrize("shape", [(3,), (7, 33), (2, 5, 4099)])
def test_the_kernel_is_right_for_any_shape(kernel: ModuleType, shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    model = kernel.ModelNew()
    for factor in (1.0, 30.0, 0.01):
        x = torch.randn(shape) * factor
        exact = torch.nn.functional.gelu(x.double(), approximate="tanh")
        torch.testing.assert_close(model(x).double(), exact, rtol=1e-5, atol=1e-6 * factor)


def test_the_kernel_takes_a_transposed_input(kernel: ModuleType) -> None:
    x = torch.randn(6, 8).t()
    exact = torch.nn.functional.gelu(x, approximate="tanh")
    torch.testing.assert_close(kernel.ModelNew()(x), exact)


def test_the_kernel_refuses_what_it_was_not_written_for(kernel: ModuleType) -> None:
    with pytest.raises(ValueError, match="expected a float32 tensor on the CPU"):
        kernel.ModelNew()(torch.zeros(2, dtype=torch.float64))


def test_the_problem_file_loads_as_a_problem() -> None:
    problem = load_file(EXAMPLES / "my_problem.py")
    assert (problem.level, problem.name, problem.scale) == (0, "my_problem", Scale.CUSTOM)


def test_the_referee_accepts_kernel_and_problem() -> None:
    mine = load_file(EXAMPLES / "my_problem.py")
    (gelu,) = load_level(1, Scale.SMALL, [88])
    pairs = [(gelu, KERNEL.read_text()), (mine, reference_as_candidate(mine))]

    async def judge() -> list[Evaluation]:
        evaluator = LocalEvaluator()
        await evaluator.start()
        try:
            return [await evaluator.evaluate(request(problem, text)) for problem, text in pairs]
        finally:
            await evaluator.close()

    for evaluation in asyncio.run(judge()):
        # A busy host may leave the time open, never the values.
        assert evaluation.status in (Status.OK, Status.UNSTABLE), evaluation.log
        assert evaluation.rung >= Rung.CHECK
        assert evaluation.error is not None
        assert evaluation.error_bound is not None
        assert evaluation.error <= evaluation.error_bound


def test_a_run_searches_the_problem_file(tmp_path: Path) -> None:
    report = evokernel.run(
        problem_file=EXAMPLES / "my_problem.py",
        generations=1,
        folder=tmp_path / "run",
        evaluator=world.Landscape(verdict=faster),
    )
    (line,) = report.problems
    assert (line.problem.label, line.problem.scale) == ("0/1 my_problem", Scale.CUSTOM)
    assert report.scale == "custom"
    assert line.best is not None


def test_a_run_starts_from_the_kernel(tmp_path: Path) -> None:
    report = evokernel.run(
        level=1,
        problems="19,88",
        scale="tiny",
        seeds=EXAMPLES / "kernels",
        generations=0,
        folder=tmp_path / "run",
        evaluator=world.Landscape(verdict=faster),
    )
    key = report.problems[1].problem.key
    with Store.open(tmp_path / "run") as store:
        (seed,) = (a for a in store.attempts(key) if a.note == "88_MinGPTNewGelu")
        assert (seed.operator, seed.state) == ("seed", AttemptState.ARCHIVED)
    assert report.problems[1].best is not None
    assert report.problems[1].best.candidate == seed.result
    assert report.problems[1].status == "verified"


def faster(request: EvaluationRequest) -> Evaluation:
    """Kernels are twice as fast as references, and renamed references are references."""
    rung = Rung.VERIFY if request.purpose is Purpose.VERIFY else Rung.TIME
    own = request.candidate.language is not Language.TORCH
    reuse = Reuse.REGISTERS if own else Reuse.LIBRARY
    facts = KernelFacts(launches=1, own_kernel_share=float(own), reuse=reuse, work=64)
    return world.fit(2.0 if own else 1.0, facts, rung)


def request(problem: Problem, source: str) -> EvaluationRequest:
    return EvaluationRequest(
        problem=problem, candidate=Candidate.of(problem.key, source), purpose=Purpose.SEARCH
    )
