"""The canonical form: what it forgets, and what it does not."""

from __future__ import annotations

import ast

from hypothesis import given
from hypothesis import strategies as st

from problems.canonical import canonical_form, digest
from problems.catalogue import load_level
from problems.problem import Scale

SOURCE = """
import math


def area(radius, *, scale=1.0):
    return scale * math.pi * radius**2


class Disc:
    name = "disc"

    def grow(self, by):
        self.radius += by
        return self
"""
LINES = SOURCE.splitlines()
comment_text = st.text(
    st.characters(codec="utf-8", exclude_categories=("Cc", "Cs", "Zl", "Zp")), max_size=30
)


@given(position=st.integers(0, len(LINES)), text=comment_text)
def test_comments_and_blank_lines_do_not_matter(position: int, text: str) -> None:
    changed = "\n".join([*LINES[:position], "", f"# {text}", *LINES[position:]])
    assert canonical_form(changed) == canonical_form(SOURCE)


@given(spaces=st.integers(0, 8), newline=st.sampled_from(["\n", "\r\n"]))
def test_layout_does_not_matter(spaces: int, newline: str) -> None:
    changed = SOURCE.replace(" * ", " " * spaces + "*" + " " * spaces).replace("\n", newline)
    assert canonical_form(changed) == canonical_form(SOURCE)


@given(text=st.text(st.characters(codec="ascii", exclude_characters='"\\\0\r'), max_size=30))
def test_docstrings_do_not_matter(text: str) -> None:
    line = "def area(radius, *, scale=1.0):\n"
    changed = SOURCE.replace(line, f'{line}    """{text}"""\n')
    assert canonical_form(changed) == canonical_form(SOURCE)


@given(value=st.one_of(st.floats(allow_nan=False, allow_infinity=False), st.integers()))
def test_numbers_matter(value: float) -> None:
    changed = SOURCE.replace("scale=1.0", f"scale={value!r}")
    same = repr(value) == "1.0"
    assert (canonical_form(changed) == canonical_form(SOURCE)) == same


@given(name=st.from_regex(r"[a-z]{1,8}_", fullmatch=True))
def test_names_matter(name: str) -> None:
    changed = SOURCE.replace("radius", name)
    assert canonical_form(changed) != canonical_form(SOURCE)


@given(text=st.text(max_size=60))
def test_any_text_has_a_form(text: str) -> None:
    assert canonical_form(text) == canonical_form(text)


def test_a_string_that_is_no_docstring_matters() -> None:
    changed = SOURCE.replace('name = "disc"', 'name = "disk"')
    assert canonical_form(changed) != canonical_form(SOURCE)


def test_unparsing_a_problem_keeps_its_form() -> None:
    for problem in load_level(1, Scale.OFFICIAL):
        rewritten = ast.unparse(ast.parse(problem.source))
        assert canonical_form(rewritten) == canonical_form(problem.source)


def test_text_that_does_not_parse_is_its_own_form() -> None:
    assert canonical_form("def broken(:") != canonical_form("def broken((:")
    assert canonical_form("def  broken(:\r\n") == canonical_form("def broken(:")


@given(first=st.lists(st.text(max_size=5), max_size=4), second=st.lists(st.text(max_size=5)))
def test_digests_agree_exactly_for_equal_parts(first: list[str], second: list[str]) -> None:
    assert (digest(*first) == digest(*second)) == (first == second)
    assert len(digest(*first)) == 64


def test_a_number_too_long_to_be_written_has_a_form() -> None:
    source = f"x = 0x{'f' * 5000}\n"
    assert canonical_form(source) == canonical_form(source.replace("=", " = "))
    assert canonical_form(source) != canonical_form(source.replace("x =", "y ="))
