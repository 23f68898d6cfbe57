import asyncio
from pathlib import Path

import numpy as np
import pytest

from archives.candidate import Candidate, Language
from operators.operator import OperatorContext
from operators.registry import OPERATORS, load_operator
from operators.seeds import SEED, load_seeds, reference_as_candidate
from problems.errors import OperatorError
from problems.problem import Problem, Scale

REFERENCE = """\
import torch


class Model(torch.nn.Module):
    def __init__(self):
        super(Model, self).__init__()

    def forward(self, x):
        return torch.relu(x)


def get_inputs():
    return [torch.rand(4)]


def get_init_inputs():
    return []
"""
KERNEL = "class ModelNew:\n    def forward(self, x):\n        return x\n"


def problem(level: int, number: int, name: str) -> Problem:
    return Problem(
        level=level,
        id=number,
        name=name,
        family="custom",
        scale=Scale.TINY,
        source=REFERENCE + f"\nNUMBER = {level}, {number}\n",
    )


SOFTMAX = problem(1, 23, "Softmax")
LOG_SOFTMAX = problem(1, 24, "LogSoftmax")


def propose(known: frozenset[str] = frozenset()) -> tuple[str | None, str, str]:
    context = OperatorContext(problem=SOFTMAX, graph=None, seeds=[("human", KERNEL)], known=known)
    proposal = asyncio.run(SEED.propose([], context, np.random.default_rng(0)))
    return proposal.source, proposal.note, proposal.reason


def test_the_reference_comes_first_then_human_kernels_then_nothing() -> None:
    known: set[str] = set()
    notes = []
    while (proposal := propose(frozenset(known)))[0] is not None:
        source, note, _ = proposal
        assert source is not None
        notes.append(note)
        known.add(Candidate.of(SOFTMAX.key, source).id)
    assert notes == ["reference", "human"]
    assert proposal[2] == "seeds_exhausted"


def test_the_reference_is_a_candidate_without_kernels_of_its_own() -> None:
    source = reference_as_candidate(SOFTMAX)
    assert source == SOFTMAX.source.replace("Model(torch", "ModelNew(torch").replace(
        "super(Model,", "super(ModelNew,"
    )
    assert Candidate.of(SOFTMAX.key, source).language is Language.TORCH


def write(folder: Path, name: str, text: str = KERNEL) -> None:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.mark.parametrize(
    "name",
    [
        "level1/23_Softmax.py",
        "level_1/23_anything.py",
        "23_anything.py",
        "level_1_problem_23_sample_0_kernel.py",
        "Softmax.py",
        "softmax_two_pass.py",
        "deep/er/SOFTMAX.py",
        "soft_max.py",
        "Soft_Max_two_pass.py",
    ],
)
def test_a_file_is_matched_by_level_and_id_or_by_name(tmp_path: Path, name: str) -> None:
    write(tmp_path, name)
    found = load_seeds(tmp_path, [LOG_SOFTMAX, SOFTMAX])
    assert found.complaints == ()
    assert dict(found.kernels) == {SOFTMAX.key: ((Path(name).stem, KERNEL),)}


@pytest.mark.parametrize("name", ["log_softmax.py", "LogSoftmax.py", "Log_Soft_Max_v2.py"])
def test_names_are_compared_without_underscores_and_the_longest_wins(
    tmp_path: Path, name: str
) -> None:
    write(tmp_path, name)
    assert list(load_seeds(tmp_path, [SOFTMAX, LOG_SOFTMAX]).kernels) == [LOG_SOFTMAX.key]


def test_a_longer_word_is_another_name(tmp_path: Path) -> None:
    write(tmp_path, "softmaxish.py")
    assert "belongs to no problem" in load_seeds(tmp_path, [SOFTMAX]).complaints[0]


def test_a_number_without_a_level_says_nothing_when_there_are_two_levels(tmp_path: Path) -> None:
    write(tmp_path, "23_LogSoftmax.py")
    found = load_seeds(tmp_path, [SOFTMAX, LOG_SOFTMAX, problem(2, 23, "Other")])
    assert list(found.kernels) == [LOG_SOFTMAX.key]


def test_each_useless_file_gives_one_sentence_and_the_others_go_on(tmp_path: Path) -> None:
    write(tmp_path, "level1/23_a.py", "def broken(:\n")
    write(tmp_path, "level1/23_b.py", "class Other: ...\n")
    write(tmp_path, "level1/23_c.py", "class ModelNew: ...\n")
    write(tmp_path, "level1/23_d.py")
    write(tmp_path, "level1/99_e.py")
    (tmp_path / "level1/23_f.py").write_bytes(b"\xff\xfe")
    found = load_seeds(tmp_path, [SOFTMAX])
    assert [name for name, _ in found.kernels[SOFTMAX.key]] == ["23_d"]
    text = "\n".join(found.complaints)
    assert "23_a.py is not a Python module: invalid syntax (line 1)" in text
    assert "23_b.py defines no class ModelNew" in text
    assert "23_c.py defines ModelNew without a method forward" in text
    assert "99_e.py belongs to no problem of this run" in text
    assert "23_f.py is not a Python module" in text
    assert len(found.complaints) == 5


def test_a_missing_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(OperatorError, match="there is no folder"):
        load_seeds(tmp_path / "none", [SOFTMAX])


def test_the_registry_names_every_operator_by_its_own_name() -> None:
    models = ["llm.translate", "llm.mutate", "llm.crossover", "llm.repair"]
    assert list(OPERATORS) == ["seed", "sketch", "compiler", "tune", "splice", "rewrite", *models]
    assert all(load_operator(name).name == name for name in OPERATORS)
    assert load_operator("operators.tune:TUNE") is OPERATORS["tune"]


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("tine", "did you mean 'tune'"),
        ("nothing.like:THIS", "cannot be imported"),
        ("operators.tune:NOTHING", "has no attribute 'NOTHING'"),
        ("operators.tune:Tune", "is a class: name an instance"),
        ("operators.tune:propose_points", "lacks a 'name'"),
        (":X", "cannot be imported"),
    ],
)
def test_a_wrong_operator_is_one_sentence(name: str, sentence: str) -> None:
    with pytest.raises(OperatorError, match=sentence):
        load_operator(name)
