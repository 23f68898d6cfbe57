"""The CUDA referee's protocol from both ends, on a stand-in for the GPU."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from archives.candidate import Candidate
from archives.evaluation import Rung, Status
from evaluator.evaluator import EvaluationRequest
from evaluator.referee.correctness import Bound, Deviation, bound_of
from evaluator.referee.cuda.arena import CudaArena
from evaluator.referee.cuda.candidate import CudaCandidate, CudaOutputs
from evaluator.referee.cuda.reference import CudaReference, Numbers
from evaluator.referee.cuda.session import CudaSession
from evaluator.referee.failure import CandidateFailed
from evaluator.referee.ladder import climb
from evaluator.referee.timing import Ratio
from evaluator.referee.verdict import Findings
from evaluator.wire import VARIANTS
from problems.errors import EvaluatorError, ProblemError
from problems.problem import Problem
from tests.evaluator.referee_cases import LINEAR, SOFTMAX, problem_of
from tests.evaluator.stand_in_gpu import open_arena
from tests.zoo.entries import cheats
from tests.zoo.entries import problem as zoo_problem

pytestmark = pytest.mark.usefixtures("stand_in_folder")

HEAD = "import torch\nfrom torch import nn\n\n\nclass ModelNew(nn.Module):"
SCALED = """
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x, factor):
        return x * factor, (x > 0).sum(1)


def get_inputs():
    return [torch.randn(64, 256), 1.5]


def get_init_inputs():
    return []
"""


def same(problem: Problem) -> str:
    return problem.source.replace("class Model(", "class ModelNew(")


def climbed(
    problem: Problem, source: str, folder: Path, *, memory_bytes: int = 32 << 30
) -> tuple[Findings, Ratio | CandidateFailed, CudaSession]:
    findings = Findings()
    with open_arena(problem, folder, memory_bytes=memory_bytes) as (arena, session, _):
        candidate = Candidate.of(problem.key, source)
        request = EvaluationRequest(problem=problem, candidate=candidate)
        try:
            ratio, _ = climb(arena, request, findings)
        except CandidateFailed as failure:
            return findings, failure, session
    return findings, ratio, session


@pytest.mark.parametrize("problem", [SOFTMAX, LINEAR], ids=lambda problem: str(problem.name))
def test_the_reference_as_a_candidate_is_right_and_timed(problem: Problem, tmp_path: Path) -> None:
    findings, ratio, _ = climbed(problem, same(problem), tmp_path)
    if isinstance(ratio, CandidateFailed):
        assert ratio.status is Status.UNSTABLE, ratio.log
        pytest.skip("this host is too busy to time anything")
    assert findings.rung is Rung.TIME
    assert ratio.latency_ms > 0
    assert findings.error is not None
    assert findings.error_bound is not None
    assert findings.error <= findings.error_bound


def test_what_a_rehearsal_made_of_weights_is_made_anew(tmp_path: Path) -> None:
    """There kernels do nothing: whoever packs once for each version must see another one."""
    packing = same(LINEAR).replace(
        "return torch.relu(self.linear(x))",
        "if self.linear.weight._version != getattr(self, 'version', None):\n"
        "            self.version = self.linear.weight._version\n"
        "            # As if a kernel packed them that is not launched on a rehearsal's zeros.\n"
        "            self.packed = self.linear.weight * bool(x.any())\n"
        "        return torch.relu(nn.functional.linear(x, self.packed, self.linear.bias))",
    )
    assert packing != same(LINEAR)
    findings, ratio, _ = climbed(LINEAR, packing, tmp_path)
    assert findings.rung >= Rung.CHECK, ratio


def test_plain_numbers_and_several_outputs_reach_a_candidate(tmp_path: Path) -> None:
    problem = problem_of(SCALED)
    findings, ratio, _ = climbed(problem, same(problem), tmp_path)
    assert not isinstance(ratio, CandidateFailed) or ratio.status is Status.UNSTABLE, ratio
    assert findings.rung >= Rung.CHECK
    wrong = same(problem).replace("x * factor", "x * 1.5")
    _, failure, _ = climbed(problem, wrong, tmp_path)
    assert isinstance(failure, CandidateFailed)
    assert failure.status is Status.WRONG_VALUE


def test_a_view_of_an_input_is_read_where_the_input_lies(tmp_path: Path) -> None:
    problem = problem_of(SOFTMAX.source.replace("torch.softmax(x, dim=1)", "x.t()"))
    findings, _, _ = climbed(problem, same(problem), tmp_path)
    assert findings.rung >= Rung.CHECK


def test_sets_drawn_in_turn_judge_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evaluator.referee.cuda.memory.CONTEXT_BYTES", 1)
    memory_bytes = 24 << 20
    findings, ratio, session = climbed(LINEAR, same(LINEAR), tmp_path, memory_bytes=memory_bytes)
    assert session.memory.in_turn
    assert not isinstance(ratio, CandidateFailed) or ratio.status is Status.UNSTABLE, ratio
    assert findings.rung >= Rung.CHECK
    wrong = same(LINEAR).replace("torch.relu", "torch.nn.functional.leaky_relu")
    _, failure, _ = climbed(LINEAR, wrong, tmp_path, memory_bytes=memory_bytes)
    assert isinstance(failure, CandidateFailed)
    assert failure.status is Status.WRONG_VALUE


def test_what_is_permitted_of_a_set_drawn_in_turn_rests_on_that_set_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the errors met in opening a problem were small by luck, it passes all the same."""
    monkeypatch.setattr("evaluator.referee.cuda.memory.CONTEXT_BYTES", 1)
    with open_arena(LINEAR, tmp_path, memory_bytes=24 << 20) as (arena, session, sets):
        draws = session.draws
        lucky = Bound(rms=1e-12, peak=1e-12)
        draws.bounds = dict.fromkeys(draws.bounds, (lucky,))
        process = arena.process(tmp_path / "build", timed=False)
        process.open(0, same(LINEAR))
        accuracy = arena.check(process, 0)
        assert 0 < accuracy.error <= accuracy.bound / 4
        assert len(sets) > 2
        process.end()


def test_who_is_judged_in_turn_gives_its_outputs_back_after_each_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evaluator.referee.cuda.memory.CONTEXT_BYTES", 1)
    done: list[str] = []
    call, forget = CudaCandidate.call, CudaCandidate.forget

    def noted_call(self: CudaCandidate, index: int, numbers: Numbers) -> CudaOutputs:
        done.append("call")
        return call(self, index, numbers)

    def noted_forget(self: CudaCandidate) -> None:
        done.append("forget")
        forget(self)

    monkeypatch.setattr(CudaCandidate, "call", noted_call)
    monkeypatch.setattr(CudaCandidate, "forget", noted_forget)
    _, _, session = climbed(LINEAR, same(LINEAR), tmp_path, memory_bytes=24 << 20)
    sets = len(session.draws.checks_in_turn)
    assert sets > 2
    assert done[: 2 * sets] == ["call", "forget"] * sets
    assert set(done[2 * sets :]) == {"forget"}, "after it was timed, and after its census"


def test_two_candidates_of_one_problem_are_judged_in_turn_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evaluator.referee.cuda.memory.CONTEXT_BYTES", 1)
    wrong = same(LINEAR).replace("torch.relu", "torch.nn.functional.leaky_relu")
    found: dict[str, object] = {}
    with open_arena(LINEAR, tmp_path, memory_bytes=24 << 20) as (arena, session, sets):
        turns = session.turns
        assert turns is not None

        def judge(source: str) -> None:
            with turns.candidate() as turn:
                candidate = Candidate.of(LINEAR.key, source)
                request = EvaluationRequest(problem=LINEAR, candidate=candidate)
                try:
                    found[source] = climb(
                        CudaArena(arena._bench, session, sets, turn), request, Findings()
                    )
                except CandidateFailed as failure:
                    found[source] = failure.status

        threads = [threading.Thread(target=judge, args=(one,)) for one in (same(LINEAR), wrong)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    assert found[wrong] is Status.WRONG_VALUE
    assert found[same(LINEAR)] is Status.UNSTABLE or isinstance(found[same(LINEAR)], tuple)


def test_a_drawing_that_fails_leaves_the_hidden_weights_published(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evaluator.referee.cuda.memory.CONTEXT_BYTES", 1)
    with open_arena(LINEAR, tmp_path, memory_bytes=24 << 20) as (_, session, sets):
        assert not sets[0].plan.hidden_weights

        def fail(*_: object, **__: object) -> None:
            raise EvaluatorError("no memory")

        published: list[int | None] = []
        publish = session.reference.weights

        def noted(seed: int | None) -> None:
            published.append(seed)
            publish(seed)

        monkeypatch.setattr(session.reference, "draw", fail)
        monkeypatch.setattr(session.reference, "weights", noted)
        with pytest.raises(EvaluatorError, match="no memory"):
            session.draws.draw_in_turn(0)
        assert published[0] is None
        assert published[-1] is not None


@pytest.mark.parametrize("memory_bytes", [32 << 30, 24 << 20], ids=["side by side", "in turn"])
@pytest.mark.parametrize(("function", "draws"), [("x.square().mean()", 3), ("x.square()", 1)])
def test_what_is_permitted_of_a_single_number_rests_on_several_draws(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, function: str, draws: int, memory_bytes: int
) -> None:
    monkeypatch.setattr("evaluator.referee.cuda.memory.CONTEXT_BYTES", 1)
    problem = problem_of(SOFTMAX.source.replace("torch.softmax(x, dim=1)", function))
    drawn: list[str] = []
    errors: dict[str, list[Deviation]] = {}
    draw, expect = CudaReference.draw, CudaReference.expect

    def noted_draw(
        self: CudaReference, number: int, seed: int, variant: str, *, runs: bool
    ) -> None:
        drawn.append(variant)
        draw(self, number, seed, variant, runs=runs)

    def noted_expect(self: CudaReference, number: int) -> tuple[list[Deviation], list[float]]:
        found = expect(self, number)
        errors.setdefault(drawn[-1], []).append(found[0][0])
        return found

    monkeypatch.setattr(CudaReference, "draw", noted_draw)
    monkeypatch.setattr(CudaReference, "expect", noted_expect)
    with open_arena(problem, tmp_path, memory_bytes=memory_bytes) as (_, session, _):
        assert session.memory.in_turn == (memory_bytes < 1 << 30)
        for variant in VARIANTS:
            seen = errors[variant][:draws]
            (bound,) = session.draws.bounds[variant]
            assert len(seen) == draws
            assert bound == bound_of(seen, "float32")


@pytest.mark.parametrize("memory_bytes", [32 << 30, 24 << 20], ids=["side by side", "in turn"])
def test_what_is_right_near_the_own_distribution_alone_does_not_pass_while_timed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, memory_bytes: int
) -> None:
    monkeypatch.setattr("evaluator.referee.cuda.memory.CONTEXT_BYTES", 1)
    cheat = next(entry for entry in cheats() if entry.name == "passed_on_when_timed")
    problem = problem_of(zoo_problem(cheat.problem).source)
    findings, failure, session = climbed(problem, cheat.source, tmp_path, memory_bytes=memory_bytes)
    assert session.memory.in_turn == (memory_bytes < 1 << 30)
    assert isinstance(failure, CandidateFailed)
    assert (failure.status, failure.reason) == (Status.WRONG_VALUE, "wrong_when_timed")
    assert findings.rung is Rung.CHECK, "it was right when it was checked"


FAILURES: Sequence[tuple[str, str, Status, str]] = [
    (
        "writes to its input",
        """
    def forward(self, x):
        y = torch.softmax(x, 1)
        x.add_(1)
        return y
""",
        Status.MUTATED_INPUT,
        "mutated_input",
    ),
    (
        "is a little off",
        """
    def forward(self, x):
        return torch.softmax(1.001 * x, 1)
""",
        Status.WRONG_VALUE,
        "wrong_value",
    ),
    (
        "leaves a row unwritten",
        """
    def forward(self, x):
        y = torch.empty_like(x)
        y[:-1] = torch.softmax(x, 1)[:-1]
        return y
""",
        Status.WRONG_VALUE,
        "wrong_value",
    ),
    (
        "has another dtype",
        """
    def forward(self, x):
        return torch.softmax(x.double(), 1)
""",
        Status.WRONG_DTYPE,
        "wrong_dtype",
    ),
    (
        "returns a list",
        """
    def forward(self, x):
        return [torch.softmax(x, 1)]
""",
        Status.WRONG_SHAPE,
        "wrong_output_count",
    ),
    (
        "repeats one row",
        """
    def forward(self, x):
        return torch.softmax(x, 1)[:1].expand(x.shape)
""",
        Status.WRONG_SHAPE,
        "overlapping_output",
    ),
    (
        "raises",
        """
    def forward(self, x):
        raise ValueError("no")
""",
        Status.RUNTIME_ERROR,
        "forward_raised",
    ),
    (
        "does not construct",
        """
    def __init__(self):
        raise ValueError("no")
""",
        Status.BUILD_ERROR,
        "build_raised",
    ),
    (
        "uses one buffer",
        """
    def __init__(self):
        super().__init__()
        self.kept = None

    def forward(self, x):
        if self.kept is None:
            self.kept = torch.empty_like(x)
        self.kept.copy_(torch.softmax(x, 1))
        return self.kept
""",
        Status.WRONG_VALUE,
        "output_reused",
    ),
    (
        "replays what it returned first once it is called often",
        """
    def __init__(self):
        super().__init__()
        self.calls, self.kept = 0, None

    def forward(self, x):
        self.calls += 1
        if self.calls < 12 or self.kept is None:
            self.kept = torch.softmax(x, 1)
        return self.kept.clone()
""",
        Status.WRONG_VALUE,
        "wrong_when_timed",
    ),
]


@pytest.mark.parametrize(
    ("body", "status", "reason"),
    [case[1:] for case in FAILURES],
    ids=[case[0] for case in FAILURES],
)
def test_a_candidate_fails_that(body: str, status: Status, reason: str, tmp_path: Path) -> None:
    _, failure, _ = climbed(SOFTMAX, HEAD + body, tmp_path)
    assert isinstance(failure, CandidateFailed)
    assert (failure.status, failure.reason) == (status, reason), failure.log


def test_a_problem_that_a_constant_solves_is_refused(tmp_path: Path) -> None:
    constant = problem_of(SOFTMAX.source.replace("torch.softmax(x, dim=1)", "x * 0 + 1"))
    with pytest.raises(ProblemError, match="null_gate"), open_arena(constant, tmp_path):
        pass


def test_a_problem_larger_than_the_gpu_is_refused(tmp_path: Path) -> None:
    needed = r"needs \d+ bytes of the GPU's memory, 1048576 are available"
    with (
        pytest.raises(ProblemError, match=needed),
        open_arena(SOFTMAX, tmp_path, memory_bytes=1 << 20),
    ):
        pass
