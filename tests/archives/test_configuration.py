import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archives.candidate import Candidate
from archives.configuration import (
    read_configuration,
    read_space,
    with_configuration,
    with_space,
    without_configuration,
)

values = st.one_of(
    st.booleans(),
    st.integers(-(10**12), 10**12),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text("ab ß'\"\\{}#\n", max_size=8),
)
points = st.dictionaries(st.sampled_from(["BLOCK", "ONLINE", "größe", "tile"]), values)
PROGRAM = '''\
"""Ein Kernel für Größen; "CONFIG = {}" in a text is no declaration."""
TUNE_PARAMS = {"BLOCK": [64, 128], "ONLINE": (False, True)}  # the space
CONFIG = {  # the point
    "BLOCK": 64, "ONLINE": False,
}  # até aqui


class ModelNew:
    CONFIG = {"not": "top level"}
'''


@given(point=points)
def test_a_written_point_is_read_back_and_nothing_else_changes(
    point: dict[str, bool | int | float | str],
) -> None:
    edited = with_configuration(PROGRAM, point)
    assert read_configuration(edited) == point
    assert without_configuration(edited) == without_configuration(PROGRAM)
    assert read_space(edited) == {"BLOCK": (64, 128), "ONLINE": (False, True)}


@given(point=points)
def test_the_order_of_a_mapping_does_not_make_another_candidate(
    point: dict[str, bool | int | float | str],
) -> None:
    backwards = dict(reversed(point.items()))
    assert with_configuration(PROGRAM, point) == with_configuration(PROGRAM, backwards)


def test_a_program_keeps_its_identity_over_its_points() -> None:
    first = Candidate.of("p", with_configuration(PROGRAM, {"BLOCK": 64, "ONLINE": True}))
    second = Candidate.of("p", with_configuration(PROGRAM, {"BLOCK": 128, "ONLINE": True}))
    assert first.program_id == second.program_id
    assert first.id != second.id


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_line_ends_of_any_kind_are_counted_right(newline: str) -> None:
    source = PROGRAM.replace("\n", newline)
    edited = with_configuration(source, {"BLOCK": 128})
    assert read_configuration(edited) == {"BLOCK": 128}
    assert edited.startswith(source[: source.index("CONFIG = {  #")])
    assert ast.parse(edited)


@pytest.mark.parametrize(
    "declaration",
    [
        "TUNE_PARAMS = {}",
        "TUNE_PARAMS = [1, 2]",
        'TUNE_PARAMS = {"A": 1}',
        'TUNE_PARAMS = {"A": []}',
        "TUNE_PARAMS = {1: [2]}",
        'TUNE_PARAMS = {"A": [None]}',
        'TUNE_PARAMS = {"A": [compute()]}',
        "if True:\n    TUNE_PARAMS = {'A': [1]}",
        "TUNE_PARAMS: dict",
        "def broken(:",
    ],
)
def test_what_is_no_literal_space_declares_nothing(declaration: str) -> None:
    assert read_space(declaration) == {}


@pytest.mark.parametrize(
    ("source", "point"),
    [
        ("CONFIG = {'A': 1}\nCONFIG = {'A': 2}", {"A": 2}),
        ("CONFIG: dict[str, int] = {'A': 3}", {"A": 3}),
        ("CONFIG = {'A': [1]}", {}),
        ("CONFIG = None", {}),
        ("x = 1", {}),
    ],
)
def test_the_last_top_level_literal_is_the_point(source: str, point: dict[str, int]) -> None:
    assert read_configuration(source) == point


@pytest.mark.parametrize("source", ["x = 1", "def broken(:"])
def test_a_program_without_a_point_cannot_be_given_one(source: str) -> None:
    assert without_configuration(source) == source
    with pytest.raises(ValueError, match="declares no top-level CONFIG"):
        with_configuration(source, {"A": 1})


@pytest.mark.parametrize("value", [float("inf"), float("nan")])
def test_a_value_that_no_literal_can_say_is_refused(value: float) -> None:
    with pytest.raises(ValueError, match=r"'BLOCK' is .*finite"):
        with_configuration(PROGRAM, {"BLOCK": value})


def test_absurdly_nested_text_declares_nothing() -> None:
    source = "CONFIG = " + "-" * 100_000 + "1"
    assert read_configuration(source) == {}
    assert without_configuration(source) == source


@pytest.mark.parametrize("value", ["1e999", "-1e999", f"0x{'f' * 5000}"])
def test_a_value_that_no_literal_can_say_is_no_declaration(value: str) -> None:
    source = f'TUNE_PARAMS = {{"A": [{value}]}}\nCONFIG = {{"A": {value}}}\n'
    assert read_space(source) == {}
    assert read_configuration(source) == {}
    assert Candidate.of("p", source).id != Candidate.of("p", "").id


def test_a_new_space_replaces_the_literal_alone() -> None:
    source = "x = 1\nTUNE_PARAMS = {'A': [1, 2]}  # space\nCONFIG = {'A': 1}\n"
    changed = with_space(source, {"A": (1,)})
    assert read_space(changed) == {"A": (1,)}
    assert changed.startswith("x = 1\n")
    assert changed.endswith("}  # space\nCONFIG = {'A': 1}\n")


def test_a_program_without_a_space_has_none_to_replace() -> None:
    with pytest.raises(ValueError, match="TUNE_PARAMS"):
        with_space("x = 1\n", {"A": (1,)})
