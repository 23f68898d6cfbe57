"""Lifting: what Inductor writes for a reference, from a worker's process to a program."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from archives.candidate import Candidate
from archives.evaluation import Rung, Status
from evaluator.evaluator import EvaluationRequest
from evaluator.referee.lifting import lift
from evaluator.referee.referee import new_referee
from evaluator.wire import ChannelClosed
from evaluator.worker.lifting import Lifter
from operators.lifting.program import write_lifted
from problems.catalogue import load_level
from problems.lifted import OPTION_SETS, Argument, Lifted, Output
from problems.problem import Problem, Scale
from tests.evaluator.worker_harness import ZygoteHarness

_MODEL = '''
import torch
from torch import nn


class Model(nn.Module):
    """A product with a number in it, and a view of it."""

    def __init__(self, size):
        super().__init__()
        self.parts = nn.ModuleList([nn.Linear(size, size, bias=False)])

    def forward(self, x, y, factor):
        product = torch.mm(x, self.parts[0].weight)
        return product, product.view(-1), y, torch.softmax(x * factor, 1)


def get_inputs():
    return [torch.rand(4, 8), torch.rand(3), 1.5]


def get_init_inputs():
    return [8]
'''


def _problem(source: str) -> Problem:
    return Problem(level=0, id=1, name="made", family="custom", scale=Scale.CUSTOM, source=source)


def test_a_worker_lifts_and_the_text_runs_alone(
    zygote: ZygoteHarness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = zygote.spawn("lift")
    asked: dict[str, Any] = {"source": _MODEL, "precision": "fp32", "device": "cpu"}
    assert worker.ask("finish")["reason"] == "not_open"
    worker.demand("prepare")
    worker.demand("open", **asked)
    assert worker.demand("compile", name="default", options={})["lifted"] is None
    lifted = Lifted.from_json(worker.demand("finish")["lifted"])
    assert (lifted.reason, lifted.detail, lifted.several) == ("", "", True)
    assert Argument(state="self.parts[0].weight") in lifted.arguments
    assert Argument(input=0) in lifted.arguments
    assert Argument(input=2, is_number=True) in lifted.arguments
    assert lifted.outputs[0] == Output(result=0)
    assert (lifted.device, lifted.vector_bits % 128) == ("cpu", 0)
    again = worker.demand("compile", name="again", options={})["lifted"]
    assert (again["reason"], again["code"]) == ("same_code", "")
    wrong = worker.demand("compile", name="odd", options={"no_such_option": 1})["lifted"]
    assert wrong["reason"] == "compile_failed"
    assert "no_such_option" in wrong["detail"]
    zygote.kill(worker)

    monkeypatch.setenv("EVOKERNEL_BUILD_DIR", str(tmp_path))
    source = write_lifted(_problem(_MODEL), lifted)
    assert "KERNELS.cpp_fused" in source
    program: dict[str, Any] = {"__name__": "lifted"}
    reference: dict[str, Any] = {"__name__": "reference"}
    exec(compile(source, "<p>", "exec"), program)
    exec(compile(_MODEL, "<r>", "exec"), reference)
    model, candidate = reference["Model"](8), program["ModelNew"](8)
    candidate.load_state_dict(model.state_dict())
    inputs = [torch.rand(4, 8), torch.rand(3), 0.7]
    with torch.no_grad():
        *got, softmax = candidate(*inputs)
        *wanted, wanted_softmax = model(*inputs)
        for one, other in zip(got, wanted, strict=True):
            assert torch.equal(one, other)
        torch.testing.assert_close(softmax, wanted_softmax, rtol=1e-6, atol=1e-7)
        with pytest.raises(ValueError, match="these kernels are for"):
            candidate(torch.rand(8, 4).T, *inputs[1:])


class _Worker:
    """Answers as a script says; an exception is raised."""

    def __init__(self, answers: Mapping[str, Any]) -> None:
        self.answers = answers
        self.asked: list[str] = []
        self.ended = False

    def request(self, op: str, timeout_s: float, **fields: Any) -> Any:  # noqa: ANN401
        name = fields.get("name", self.asked[-1].split()[-1] if self.asked else "")
        self.asked.append(f"{op} {name}")
        answer = self.answers.get(f"{op} {name}", self.answers.get(op))
        if isinstance(answer, Exception):
            raise answer
        return answer

    def end(self) -> None:
        self.ended = True


def _station(workers: list[_Worker]) -> Any:  # noqa: ANN401
    left = iter(workers)
    return SimpleNamespace(
        lift_plan="plan",
        device=SimpleNamespace(kind="cuda"),
        problem_s=1.0,
        sharing=nullcontext,
        lifting=nullcontext,
        spawner=SimpleNamespace(spawn=lambda _: next(left)),
    )


def _written(name: str) -> dict[str, Any]:
    return {"ok": True, "lifted": Lifted(options=name, code="x = 1\n", kernels={}).to_json()}


def test_what_kills_its_process_costs_one_option_set() -> None:
    ready = {"prepare": {"ok": True}, "open": {"ok": True}, "compile": {"ok": True, "lifted": None}}
    first = _Worker(
        {**ready, "finish one": _written("one"), "compile two": ChannelClosed("it is gone")}
    )
    second = _Worker({**ready, "finish three": _written("three")})
    sets: dict[str, dict[str, object]] = {"one": {}, "two": {}, "three": {}}
    found = lift(_station([first, second]), _problem(_MODEL), None, sets)
    assert [(one.options, one.reason) for one in found] == [
        ("one", ""),
        ("two", "process_failed"),
        ("three", ""),
    ]
    assert found[1].detail == "it is gone"
    assert first.ended
    assert second.ended


def test_failures_are_results_with_a_reason() -> None:
    refused = {"ok": False, "reason": "reply_too_large", "log": "a message has 2000000 bytes"}
    worker = _Worker(
        {"open": {"ok": True}, "compile": {"ok": True, "lifted": None}, "finish": refused}
    )
    (found,) = lift(_station([worker]), _problem(_MODEL), None, {"one": {}})
    assert (found.reason, found.detail) == ("reply_too_large", "a message has 2000000 bytes")
    broken = _Worker({"open": {"ok": False, "log": "Traceback\nValueError: no"}})
    found_all = lift(_station([broken]), _problem(_MODEL), None)
    assert [one.options for one in found_all] == list(OPTION_SETS)
    assert {(one.reason, one.detail) for one in found_all} == {("problem_raised", "ValueError: no")}


def test_the_device_s_memory_is_held_to_draw_and_to_run_alone() -> None:
    held: list[int] = []
    during: list[tuple[str, list[int]]] = []

    class Watched(_Worker):
        def request(self, op: str, timeout_s: float, **fields: Any) -> Any:  # noqa: ANN401
            during.append((op, list(held)))
            return super().request(op, timeout_s, **fields)

    @contextmanager
    def lifting(num_bytes: int) -> Iterator[None]:
        held.append(num_bytes)
        yield
        held.remove(num_bytes)

    ready = {"prepare": {"ok": True}, "open": {"ok": True}, "compile": {"ok": True, "lifted": None}}
    station = _station([Watched({**ready, "finish": _written("one")})])
    station.lifting = lifting
    lift(station, _problem(_MODEL), None, {"one": {}})
    assert during == [("prepare", []), ("open", [0]), ("compile", []), ("finish", [0])]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of torch, when it imports what compiles
def test_inputs_have_no_memory_while_the_reference_is_compiled() -> None:
    source = _MODEL.replace("torch.rand(3)", "torch.tensor([2, 0, 1])")
    lifter = Lifter(source, "fp32", "cpu")
    drawn, indices, _ = lifter._inputs
    assert isinstance(drawn, torch.Tensor)
    assert isinstance(indices, torch.Tensor)
    assert drawn.untyped_storage().nbytes() == 0
    assert lifter.compile("default", {}) is None
    assert drawn.untyped_storage().nbytes() == 0
    lifted = lifter.finish()
    assert (lifted.reason, lifted.detail) == ("", "")
    assert drawn.untyped_storage().nbytes() == 0
    assert indices.tolist() == [2, 0, 1]


_CHOSEN = ("default", "templates", "looped")


def test_a_program_lifted_on_a_cpu_passes_the_referee() -> None:
    """Its C++ is built in the sandbox, with torch's headers; its speed is not the question."""
    (problem,) = load_level(1, Scale.TINY, [23])
    referee = new_referee()
    try:
        (lifted,) = referee.lift(problem, ["narrow_vectors"])
        assert lifted.vector_bits in (0, 256)
        candidate = Candidate.of(problem.key, write_lifted(problem, lifted))
        verdict = referee.evaluate(EvaluationRequest(problem=problem, candidate=candidate))
    finally:
        referee.close()
    assert verdict.status in (Status.OK, Status.UNSTABLE), verdict
    assert verdict.rung >= Rung.CHECK


@pytest.mark.gpu
def test_programs_lifted_on_a_gpu_pass_the_referee() -> None:
    """Triton's kernels, a library's, and a model in parts whose buffers the call changes."""
    referee = new_referee("cuda")
    try:
        for number in (1, 23, 33):
            problem = load_level(1, Scale.SMALL, [number])[0]
            chosen = referee.lift(problem, _CHOSEN)
            assert {one.reason for one in chosen} <= {"", "same_code"}
            for lifted in [one for one in chosen if one.code]:
                source = write_lifted(problem, lifted)
                candidate = Candidate.of(problem.key, source)
                request = EvaluationRequest(problem=problem, candidate=candidate)
                evaluation = referee.evaluate(request)
                # Small problems take microseconds: some are too noisy for a verdict on speed.
                good = (Status.OK, Status.UNSTABLE)
                assert evaluation.status in good, f"{problem.label}: {evaluation.log}"
                own = evaluation.facts.own_kernel_share
                if own is not None:  # A noisy verdict comes before the census.
                    assert (own < 0.1) == (number == 1 and lifted.options != "templates")
    finally:
        referee.close()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_library_meets_no_index_that_nobody_wrote() -> None:
    """Kernels are not built; what they would have written may be taken for an index."""
    source = (
        "import torch\n\n\nclass Model(torch.nn.Module):\n"
        "    def forward(self, x, table):\n"
        "        rows = (x * 3.0).to(torch.int64)\n"
        "        return torch.nn.functional.embedding_bag(rows, table, mode='max')\n\n\n"
        "def get_inputs():\n    return [torch.rand(64, 512), torch.rand(4, 8)]\n\n\n"
        "def get_init_inputs():\n    return []\n"
    )
    dirty = [torch.full((64, 512), 1 << 40) for _ in range(8)]
    del dirty
    lifter = Lifter(source, "fp32", "cpu")
    assert lifter.compile("default", {}) is None
    lifted = lifter.finish()
    assert (lifted.reason, lifted.detail) == ("", "")
    assert "_embedding_bag" in lifted.code
    assert lifted.vector_bits, "no program is built to ask for vectors, and they are used"
