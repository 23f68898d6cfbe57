import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from operators.llm.edits import Edit, apply_edits, find_edits
from operators.llm.program import Defect

SETTINGS = settings(deadline=None, derandomize=True, max_examples=200)

PARENT = """\
def first(x):
    y = x + 1
    return y


def second(x):
    for i in x:
        if i:
            y = i + 1
    return y
"""


def block(search: str, replace: str) -> str:
    return f"<<<<<<< SEARCH\n{search}=======\n{replace}>>>>>>> REPLACE\n"


def edit(search: str, replace: str) -> Edit:
    return Edit(search=tuple(search.split("\n")), replace=tuple(replace.split("\n")))


def applied(search: str, replace: str) -> str:
    result = apply_edits(PARENT, [edit(search, replace)])
    assert isinstance(result, str)
    return result


def refused(*edits: Edit) -> Defect:
    result = apply_edits(PARENT, edits)
    assert isinstance(result, Defect)
    return result


def test_blocks_are_found_in_order_with_the_text_around_them() -> None:
    first, second = block("a\n", "b\n"), block("c\n", "")
    found = find_edits(f"First.\n```python\n{first}```\nThen:\n{second}End")
    assert found is not None
    assert found.defect is None
    assert found.edits == (
        Edit(search=("a",), replace=("b",)),
        Edit(search=("c",), replace=()),
    )
    assert found.rest == "First.\n```python\n```\nThen:\nEnd"


def test_markers_may_be_indented_and_of_other_lengths() -> None:
    found = find_edits("  <<<<<< SEARCH\n  a\n  =====\n  b\n  >>>>>>>> REPLACE (done)")
    assert found is not None
    assert found.edits == (Edit(search=("  a",), replace=("  b",)),)


@pytest.mark.parametrize("text", ["", "SEARCH", "=======", "x <<<<<<< SEARCH", "# REPLACE SEARCH"])
def test_text_without_blocks_has_none(text: str) -> None:
    assert find_edits(text) is None


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (block("a\n", "b\n").replace(">>>>>>> REPLACE", ""), "lacks its line '>>>>>>> REPLACE'"),
        (block("a\n", "b\n").replace("=======", ""), "lacks its line '======='"),
        ("<<<<<<< SEARCH", "lacks its line '======='"),
        (block("a\n", "b\n")[:-16] + block("c\n", "d\n"), "Block 1 lacks its line '>>>>>>> REPL"),
        (block("a\n", "b\n") + block("c\n", "d\n")[:-16], "Block 2 lacks its line '>>>>>>> REPL"),
    ],
)
def test_a_block_that_lacks_a_marker_is_named(text: str, says: str) -> None:
    found = find_edits(text)
    assert found is not None
    assert found.defect is not None
    assert found.defect.reason == "llm_edit_malformed"
    assert says in found.defect.sentence


def test_an_exact_place_goes_before_one_that_differs_in_white_space() -> None:
    parent = "a = 1 \nb = 2\na = 1\n"
    assert apply_edits(parent, [edit("a = 1", "c = 3")]) == "a = 1 \nb = 2\nc = 3\n"


def test_white_space_at_the_ends_of_lines_does_not_matter() -> None:
    changed = applied("def first(x): \n    y = x + 1\t", "def first(x):\n    y = x + 2")
    assert changed == PARENT.replace("y = x + 1", "y = x + 2")


def test_a_block_indented_as_a_whole_is_indented_back() -> None:
    search = "if i:\n    y = i + 1"
    replace = "if i > 2:\n    y = i + 2\n\nelse:\n    y = 0"
    assert applied(search, replace) == PARENT.replace(
        "        if i:\n            y = i + 1\n",
        "        if i > 2:\n            y = i + 2\n\n        else:\n            y = 0\n",
    )
    deeper = "            if i:\n                y = i + 1"
    changed = applied(deeper, "            if i:\n        z = 1\n                y = i + 1")
    assert changed == PARENT.replace("        if i:\n", "        if i:\n    z = 1\n")


def test_another_shape_of_indentation_is_another_place() -> None:
    assert refused(edit("if i:\n        y = i + 1", "pass")).reason == "llm_edit_mismatch"


def test_lines_are_removed_by_an_empty_replacement() -> None:
    result = apply_edits(PARENT, [Edit(search=("    y = x + 1",), replace=())])
    assert result == PARENT.replace("    y = x + 1\n", "")


def test_each_block_sees_what_the_one_before_left() -> None:
    edits = [edit("    y = x + 1", "    y = x + 3"), edit("    y = x + 3", "    y = x + 4")]
    assert apply_edits(PARENT, edits) == PARENT.replace("x + 1", "x + 4")


def test_a_place_that_is_not_there_is_said_with_the_nearest_lines() -> None:
    good = edit("    y = x + 1", "    y = x + 2")
    defect = refused(good, edit("def second(x):\n    for i in range(x):", "pass"))
    assert defect.reason == "llm_edit_mismatch"
    assert "Block 2 of 2" in defect.sentence
    assert "The nearest lines there (6 to 7)" in defect.sentence
    assert defect.sentence.endswith("\ndef second(x):\n    for i in x:")


def test_a_line_that_only_resembles_one_is_said_too() -> None:
    assert refused(edit("for ii in x:", "pass")).sentence.endswith("\n    for i in x:")
    assert "begins with '@@@', is not in the parent" in refused(edit("@@@", "")).sentence


def test_a_place_that_is_there_twice_is_said_with_its_lines() -> None:
    defect = refused(edit("    return y", "    return z"))
    assert defect.reason == "llm_edit_ambiguous"
    assert "found 2 times (at lines 3, 10)" in defect.sentence


def test_an_empty_search_is_refused() -> None:
    assert "empty SEARCH" in refused(edit(" \n", "x")).sentence


def test_what_a_mismatch_quotes_is_bounded() -> None:
    parent = "\n".join(["x" * 100_000] * 50)
    result = apply_edits(parent, [Edit(search=("x" * 100_000,) * 49 + ("y",), replace=())])
    assert isinstance(result, Defect)
    assert len(result.sentence) < 5_000


code = st.lists(st.sampled_from(["", "a", "  a", "    b", "\tb", "c ", "=="]), max_size=8)


@SETTINGS
@given(before=code, old=code.filter(lambda lines: any(map(str.strip, lines))), new=code, after=code)
def test_a_block_quoted_from_the_parent_applies_or_is_ambiguous(
    before: list[str], old: list[str], new: list[str], after: list[str]
) -> None:
    parent = "\n".join([*before, *old, *after])
    text = block("".join(f"{line}\n" for line in old), "".join(f"{line}\n" for line in new))
    found = find_edits(text)
    assert found is not None
    result = apply_edits(parent, found.edits)
    if isinstance(result, Defect):
        assert result.reason == "llm_edit_ambiguous"
    else:
        assert result == "\n".join([*before, *new, *after])


@SETTINGS
@given(parent=code, search=code, replace=code)
def test_any_block_applies_or_has_a_reason(
    parent: list[str], search: list[str], replace: list[str]
) -> None:
    result = apply_edits("\n".join(parent), [Edit(search=tuple(search), replace=tuple(replace))])
    assert isinstance(result, str) or result.sentence.startswith("Block 1 of 1")
