import ast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from operators.llm.reply import MAX_REPLY_CHARACTERS, Reading, read_reply

SETTINGS = settings(deadline=None, derandomize=True, max_examples=300)

PROGRAM = '''\
import torch

TUNE_PARAMS = {"BLOCK": [64, 128]}
CONFIG = {"BLOCK": 64}


class ModelNew(torch.nn.Module):
    """Softmax."""

    def forward(self, x):
        return x
'''
OTHER = PROGRAM.replace("return x", "return x + 1")
EDIT = """\
<<<<<<< SEARCH
        return x
=======
        return x + 1
>>>>>>> REPLACE
"""


def fenced(source: str, tag: str = "python", fence: str = "```") -> str:
    return f"{fence}{tag}\n{source}{fence}\n"


def indented(text: str, by: int) -> str:
    return "".join(" " * by + line for line in text.splitlines(keepends=True))


REPLIES = {
    "a fence": fenced(PROGRAM),
    "no tag": fenced(PROGRAM, ""),
    "another tag": fenced(PROGRAM, "Py3 title=model.py"),
    "tildes": fenced(PROGRAM, fence="~~~"),
    "a long fence": fenced(PROGRAM, fence="`````"),
    "prose around": f"I fuse it.\n\n{fenced(PROGRAM)}\nThis saves one pass.",
    "line ends of another system": fenced(PROGRAM).replace("\n", "\r\n"),
    "no newline at the end": fenced(PROGRAM).rstrip(),
    "a fence left open": f"```python\n{PROGRAM}".rstrip(),
    "a fence never opened": f"{PROGRAM}```\n",
    "an indented fence": "1. The program:\n\n" + indented(fenced(PROGRAM), 3),
    "a deeply indented fence": "- so:\n" + indented(fenced(PROGRAM), 8),
    "code indented in its fence": "```python\n" + indented(PROGRAM, 4) + "```",
    "bare code": PROGRAM,
    "bare code after prose": f"Here it is:\n\n{PROGRAM}",
    "a byte order mark": "\ufeff" + PROGRAM,
    "thoughts before": f"<think>\nTry\n{fenced(OTHER)}\nno.\n</think>\n\n{fenced(PROGRAM)}",
    "thoughts with a fence left open": f"<think>```python\nx = (</think>\n{fenced(PROGRAM)}",
    "thoughts without their beginning": f"try\n{fenced(OTHER)}\nno</think>\n{fenced(PROGRAM)}",
    "thoughts left open after the code": f"{fenced(PROGRAM)}\n<THINK>\nor\n{fenced(OTHER)}",
    "thoughts twice": f"<think>a</think>\nb\n<think>c</think>\n{fenced(PROGRAM)}",
    "other fences": "```\n$ pip install it\n```\n" + fenced(PROGRAM) + fenced("print(1)\n"),
    "a broken draft": fenced("class ModelNew(:\n") + fenced(PROGRAM),
    "a draft, then the final program": fenced(OTHER) + "Better:\n" + fenced(PROGRAM),
    "a remark on one class": fenced(PROGRAM)
    + "The heart of it is\n"
    + fenced("class ModelNew(B):\n    def forward(self, x): ...\n"),
    "a program and a block": f"{EDIT}\nor in full\n\n{fenced(PROGRAM)}",
}


@pytest.mark.parametrize("text", REPLIES.values(), ids=REPLIES.keys())
def test_the_program_is_found(text: str) -> None:
    reading = read_reply(text)
    assert reading.defect is None
    assert reading.source == PROGRAM


@pytest.mark.parametrize("fence", ["```", "    ```"])
def test_a_fence_inside_a_docstring_does_not_end_the_program(fence: str) -> None:
    source = PROGRAM.replace("Softmax.", f"Softmax.\n\n{fence}\nexample\n{fence}\n    ")
    for text in (fenced(source), f"Fused.\n\n{fenced(source)}\nDone.", source):
        assert read_reply(text).source == source


def test_a_tag_of_thoughts_inside_code_is_code() -> None:
    source = PROGRAM.replace("Softmax.", "Softmax.\n<think>\nnot a thought\n</think>\n")
    assert read_reply(fenced(source)).source == source


def test_blocks_change_the_parent() -> None:
    for text in (EDIT, fenced(EDIT), f"Adds one.\n\n{EDIT}", EDIT.replace("\n", "\r\n")):
        assert read_reply(text, PROGRAM).source == OTHER
        assert read_reply(text, PROGRAM.replace("\n", "\r\n")).source == OTHER


def test_blocks_count_where_the_parent_is_quoted_beside_them() -> None:
    assert read_reply(f"The parent was\n{fenced(PROGRAM)}\n{EDIT}", PROGRAM).source == OTHER


@pytest.mark.parametrize(
    ("text", "reason", "says"),
    [
        ("", "llm_no_code", "no program"),
        ("I cannot help with that.", "llm_no_code", "no program"),
        ("class ModelNew is what you want", "llm_no_code", "no program"),
        ("<think>" + fenced(PROGRAM), "llm_no_code", "no program"),
        (fenced("def f(): ...\n"), "llm_no_model_new", "only f"),
        (fenced("class Model: ...\n"), "llm_no_model_new", "defines Model and no ModelNew"),
        (fenced("int main() {}\n", "cpp"), "llm_no_model_new", "No fenced block"),
        (
            fenced("class ModelNew(nn.Module):\n    pass\n"),
            "llm_no_model_new",
            "no method forward",
        ),
        (fenced(PROGRAM.replace("(self, x)", "(self, x")), "llm_syntax_error", "in line 10"),
        (PROGRAM.replace("(self, x)", "(self, x"), "llm_syntax_error", "def forward(self, x"),
        (fenced(PROGRAM + "\0"), "llm_syntax_error", "null bytes"),
        (fenced(PROGRAM + "# \ud800"), "llm_syntax_error", "surrogates"),
        (fenced(PROGRAM + f"x = {'9' * 5000}"), "llm_syntax_error", "digits"),
        (EDIT, "llm_edit_unexpected", "expected the whole module"),
        ("x" * (MAX_REPLY_CHARACTERS + 1), "llm_too_long", "characters"),
    ],
)
def test_what_is_no_program_has_a_reason(text: str, reason: str, says: str) -> None:
    reading = read_reply(text)
    assert reading.source is None
    assert reading.defect is not None
    assert reading.defect.reason == reason
    assert says in reading.defect.sentence


@pytest.mark.parametrize(
    ("text", "reason", "says"),
    [
        (fenced(PROGRAM.replace("\n", " \n")), "llm_no_change", "word for word"),
        (EDIT.replace("x + 1", "x"), "llm_no_change", "word for word"),
        (EDIT.replace("return x\n=", "return y\n="), "llm_edit_mismatch", "Block 1 of 1"),
        (EDIT.replace("x + 1", "x +"), "llm_syntax_error", "With the blocks applied"),
        (EDIT[:40], "llm_edit_malformed", "Block 1"),
    ],
)
def test_blocks_that_do_not_fit_have_a_reason(text: str, reason: str, says: str) -> None:
    reading = read_reply(text, PROGRAM)
    assert reading.source is None
    assert reading.defect is not None
    assert reading.defect.reason == reason
    assert says in reading.defect.sentence


def test_a_change_of_indentation_alone_is_a_change() -> None:
    parent = PROGRAM.replace("return x", "for _ in x:\n            x = x + 1\n        return x")
    child = parent.replace("        return x", "            return x")
    assert read_reply(fenced(child), parent).source == child


@pytest.mark.parametrize(
    ("space", "point", "says"),
    [
        ('{"BLOCK": 128}', '{"BLOCK": 128}', "at 'BLOCK'"),
        ('{"BLOCK": []}', '{"BLOCK": 128}', "at 'BLOCK'"),
        ('{"A": [1], "B": [2**n for n in range(9)]}', '{"A": 1, "B": 1}', "at 'B'"),
        ('{"A": [1e999]}', '{"A": 1.0}', "TUNE_PARAMS"),
        ("dict(A=[1])", '{"A": 1}', "no literal dictionary of lists"),
        ('{"A": [1, 2]}', "dict(A=1)", "CONFIG is no literal"),
        ('{"A": [1, 2]}', None, "without CONFIG"),
        ('{"A": [1, 2]}', '{"A": 3}', "CONFIG['A'] is 3, expected one of"),
        ('{"A": [1, 2]}', '{"A": True}', "CONFIG['A'] is True"),
        ('{"A": [1], "B": [2]}', '{"A": 1}', "differ in B"),
        (None, "settings()", "CONFIG is no literal"),
    ],
)
def test_parameters_that_cannot_be_tuned_are_named(
    space: str | None, point: str | None, says: str
) -> None:
    source = "class ModelNew:\n    def forward(self): ...\n"
    source = (f"CONFIG = {point}\n" if point else "") + source
    source = (f"TUNE_PARAMS = {space}\n" if space else "") + source
    reading = read_reply(fenced(source))
    assert reading.source == source, "the program runs all the same"
    assert reading.defect is not None
    assert reading.defect.reason == "llm_bad_parameters"
    assert says in reading.defect.sentence


@pytest.mark.parametrize(
    "parameters",
    ["", "TUNE_PARAMS = {}\nCONFIG = {}\n", 'CONFIG = {"A": -1}\n', 'TUNE_PARAMS: dict = {"A": '
     '(-1, 2.5)}\nCONFIG: dict = {"A": -1}\n'],
)  # fmt: skip
def test_parameters_need_not_be_declared(parameters: str) -> None:
    reading = read_reply(f"{parameters}class ModelNew:\n    def forward(self): ...\n")
    assert reading.defect is None


@pytest.mark.parametrize(
    ("prose", "note"),
    [
        ("Fuse the two passes. It saves a read.", "Fuse the two passes"),
        ("Sure! Here's the kernel:\n\nIt *now* reads `x` once.", "It *now* reads x once"),
        ("## Changes\n\n- **Vectorized** the loop.\n- Unrolled it.", "Vectorized the loop"),
        ("Okay, the rows are\nsplit over threads. More.", "the rows are split over threads"),
        ("Summary: 1.5x fewer bytes", "1.5x fewer bytes"),
        ("Here is a version that tiles:", "Here is a version that tiles"),
        ("a \x1b[31mred\x07 word", "a [31mred word"),
        ("Done.", ""),
        ("word " * 50, "word " * 23 + "wo..."),
    ],
)  # fmt: skip
def test_what_the_model_says_becomes_the_note(prose: str, note: str) -> None:
    assert read_reply(f"{prose}\n\n{fenced(PROGRAM)}").note == note


def test_code_is_no_remark() -> None:
    assert read_reply(PROGRAM).note == ""
    assert read_reply(f"Adds one.\n\n{EDIT}", PROGRAM).note == "Adds one"


def test_only_a_closed_fence_says_that_the_program_is_complete() -> None:
    assert read_reply(fenced(PROGRAM)).closed
    assert not read_reply(f"```python\n{PROGRAM}").closed
    assert not read_reply(PROGRAM).closed
    assert not read_reply(EDIT, PROGRAM).closed


pieces = st.lists(
    st.one_of(
        st.text(max_size=20),
        st.sampled_from(
            ["```", "```python\n", "\n```\n", "~~~\n", "<think>", "</think>", "\r\n", "\r", '"""',
             "<<<<<<< SEARCH\n", "\n=======\n", "\n>>>>>>> REPLACE\n", "        return x\n",
             "class ModelNew:\n", "    def forward(self): ...\n", "CONFIG = ", "TUNE_PARAMS = ",
             '{"A": [1]}\n', '{"A": 1}\n', "\0", "\ud800", PROGRAM, "(" * 300, "-" * 3000,
             "0x" + "f" * 5000]
        ),
    ),
    max_size=12,
).map("".join)  # fmt: skip


def check(reading: Reading, parent: str | None) -> None:
    if reading.source is None:
        assert reading.defect is not None
        assert reading.defect.reason.startswith("llm_")
        assert reading.defect.sentence
        return
    names = {node.name for node in ast.parse(reading.source).body if isinstance(node, ast.ClassDef)}
    assert "ModelNew" in names
    assert reading.source.endswith("\n")
    assert reading.source != parent
    assert len(reading.note) <= 120
    assert "\n" not in reading.note


@SETTINGS
@given(text=pieces, parent=st.one_of(st.none(), st.just(PROGRAM), pieces))
def test_any_text_gives_a_program_or_a_reason(text: str, parent: str | None) -> None:
    check(read_reply(text, parent), parent)


@SETTINGS
@given(before=st.text(alphabet="ab \n#-`", max_size=30), cut=st.integers(0, len(PROGRAM)))
def test_a_reply_cut_anywhere_gives_a_program_or_a_reason(before: str, cut: int) -> None:
    check(read_reply(f"{before}\n{fenced(PROGRAM)[:cut]}"), None)
