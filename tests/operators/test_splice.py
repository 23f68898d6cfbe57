import ast
import asyncio
from collections.abc import Sequence

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from archives.attempt import Slot
from archives.candidate import Candidate
from archives.configuration import read_configuration, read_space, with_configuration
from archives.evaluation import ConfigurationResult, Evaluation, Interval, Rung, Status
from operators.operator import OperatorContext, Parent, Proposal
from operators.parts import exchange, exchangeable, rename_class
from operators.splice import SPLICE
from problems.problem import Problem, Scale

SETTINGS = settings(deadline=None, derandomize=True, max_examples=50)

PROBLEM = Problem(
    level=1, id=19, name="ReLU", family="elementwise", scale=Scale.TINY, source="class Model: ...\n"
)
PROGRAM = """\
TUNE_PARAMS = {"A": [0, 1, 2], "B": [0, 1, 2], "C": [False, True]}
CONFIG = {"A": 0, "B": 0, "C": False}


class ModelNew: ...
"""
HOME = """\
import torch

# the home's own remark
TUNE_PARAMS = {"TILE": [8, 16], "UNROLL": [1, 2]}
CONFIG = {"TILE": 8, "UNROLL": 1}


def scale(x):
    return x * 2


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return scale(x)
"""
DONOR = """\
import torch
import math

TUNE_PARAMS = {"TILE": [8, 16, 32], "DEPTH": [1, 2]}
CONFIG = {"TILE": 16, "DEPTH": 2}
FACTOR = 4


def half(x):
    return x / math.sqrt(FACTOR)


@torch.no_grad()
def unrelated(x):
    return x


def scale(x):
    return half(x) * FACTOR


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return scale(x)
"""


def parent(source: str, tried: Sequence[ConfigurationResult] = ()) -> Parent:
    return Parent(
        slot=Slot(problem=PROBLEM.key, generation=0, island=0, index=0),
        candidate=Candidate.of(PROBLEM.key, source),
        evaluation=Evaluation(
            status=Status.OK,
            rung=Rung.TIME,
            latency_ms=1.0,
            reference_ms=2.0,
            speedup=2.0,
            interval=Interval(low=1.9, high=2.1),
        ),
        tried=tuple(tried),
    )


def splice(
    first: Parent, second: Parent, seed: int = 0, known: frozenset[str] = frozenset()
) -> Proposal:
    context = OperatorContext(problem=PROBLEM, graph=None, known=known)
    return asyncio.run(SPLICE.propose([first, second], context, np.random.default_rng(seed)))


def at(a: int, b: int, c: bool) -> str:
    return with_configuration(PROGRAM, {"A": a, "B": b, "C": c})


points = st.tuples(st.integers(0, 2), st.integers(0, 2), st.booleans())


@SETTINGS
@given(one=points, other=points, seed=st.integers(0, 2**32))
def test_mixed_points_take_each_value_from_a_parent(
    one: tuple[int, int, bool], other: tuple[int, int, bool], seed: int
) -> None:
    parents = parent(at(*one)), parent(at(*other))
    proposal = splice(*parents, seed)
    if proposal.source is None:
        assert proposal.reason == "same_configuration"
        assert sum(a != b for a, b in zip(one, other, strict=True)) < 2
        return
    assert read_configuration(proposal.source) == proposal.configurations[0]
    values = [tuple(point.values()) for point in proposal.configurations]
    assert len(set(values)) == len(values)
    assert not {one, other} & set(values)
    for value in values:
        assert all(v in pair for v, pair in zip(value, zip(one, other, strict=True), strict=True))
    assert splice(*parents, seed) == proposal


def test_mixed_points_that_were_tried_are_left_out() -> None:
    tried = [
        ConfigurationResult(configuration={"A": a, "B": b, "C": False}, status=Status.OK)
        for a, b in [(0, 1), (1, 0)]
    ]
    first, second = parent(at(0, 0, False), tried), parent(at(1, 1, False), tried)
    assert splice(first, second).reason == "same_configuration"
    tried.pop()
    proposal = splice(parent(at(0, 0, False), tried), parent(at(1, 1, False), tried))
    assert proposal.configurations == ({"A": 1, "B": 0, "C": False},)


def test_a_part_is_taken_over_with_what_it_needs() -> None:
    assert exchangeable(HOME, DONOR) == ["scale"]
    child = exchange(HOME, DONOR, ["scale"])
    assert "# the home's own remark" in child
    assert "def unrelated" not in child
    assert "import math" in child
    namespace: dict[str, object] = {}
    exec(child[child.index("CONFIG =") : child.index("class ModelNew")], namespace)
    scale = namespace["scale"]
    assert callable(scale)
    assert scale(3.0) == 6.0
    assert read_space(child) == read_space(HOME)


def test_parts_that_would_change_their_meaning_stay() -> None:
    clash = DONOR.replace("FACTOR = 4", "FACTOR = 4\nCONFIG['TILE']").replace(
        "return half(x) * FACTOR", "return x * CONFIG['TILE']"
    )
    assert exchangeable(HOME, clash) == []
    assert exchangeable(HOME, DONOR.replace("def scale(x)", "def scale(x, y=1)")) == []
    assert exchangeable(HOME, HOME.replace("# the home's own remark", "")) == []
    assert exchangeable(HOME, "def broken(") == []


def test_a_value_made_of_other_values_is_not_the_same() -> None:
    home = """SOURCE = "one"
KERNELS = load(SOURCE)


def run(x):
    return KERNELS.one(x)
"""
    donor = home.replace('"one"', '"two"').replace("KERNELS.one", "KERNELS.two")
    assert exchangeable(home, donor) == []
    assert exchangeable(home, donor.replace('"two"', '"one"')) == ["run"]


def test_splicing_code_proposes_the_child_of_either_parent_until_all_are_known() -> None:
    children = set()
    for seed in range(20):
        proposal = splice(parent(HOME), parent(DONOR), seed)
        assert proposal.source is not None
        ast.parse(proposal.source)
        assert proposal.note == "took over scale"
        children.add(proposal.source)
    assert len(children) == 2
    known = frozenset(Candidate.of(PROBLEM.key, child).id for child in children)
    # What is left is the parameter that both have.
    last = splice(parent(HOME), parent(DONOR), known=known)
    assert last.note == "took over TILE=16" or last.note == "took over TILE=8"


def test_programs_with_nothing_in_common_give_a_reason() -> None:
    other = 'TUNE_PARAMS = {"X": [1, 2]}\nCONFIG = {"X": 1}\n\n\nclass ModelNew: ...\n'
    assert splice(parent(HOME), parent(other)).reason == "no_common_part"
    assert splice(parent("class ModelNew: ...\n"), parent("x = 1\n")).reason == "no_common_part"


@SETTINGS
@given(text=st.sampled_from([HOME, DONOR, PROGRAM, "def broken(", ""]), seed=st.integers(0, 99))
def test_any_pair_gives_a_module_or_a_reason(text: str, seed: int) -> None:
    for other in (HOME, DONOR, PROGRAM, "x = 1\n"):
        proposal = splice(parent(text), parent(other), seed)
        assert (proposal.source is None) == bool(proposal.reason)
        if proposal.source is not None:
            ast.parse(proposal.source)


def test_a_class_is_renamed_in_code_alone() -> None:
    source = (
        "# Model stays here\r\n"
        "class  Model(Base):\r\n"
        '    """A Model."""\r\n'
        "    def __init__(self):\r\n"
        "        super(Model, self).__init__()\r\n"
        "        self.Model = 'Model', Modelled, été(Model)\r\n"
    )
    renamed = rename_class(source, "Model", "ModelNew")
    assert renamed.splitlines() == [
        "# Model stays here",
        "class  ModelNew(Base):",
        '    """A Model."""',
        "    def __init__(self):",
        "        super(ModelNew, self).__init__()",
        "        self.Model = 'Model', Modelled, été(ModelNew)",
    ]
