"""From a model's reply to a program, or to a precise reason why there is none.

A reply holds a whole module, fenced or bare, or SEARCH/REPLACE blocks against the parent. A whole
module goes before blocks, since it needs no parent. Of several modules the last counts, as models
revise themselves, unless it is less than half as long as the longest: then it is a remark.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

from operators.llm.edits import Edits, apply_edits, find_edits
from operators.llm.fences import Block, Fences, unified, without_thoughts
from operators.llm.program import Defect, parameter_defect, program_defect
from operators.llm.remark import first_remark

__all__ = ["MAX_REPLY_CHARACTERS", "Reading", "read_reply"]

MAX_REPLY_CHARACTERS = 1_000_000
"""Longer replies are not read."""

_MAX_BLOCKS = 64
"""The last so many fenced blocks are looked at."""

_CODE_START = re.compile(
    r"^(?:import [A-Za-z_]|from [A-Za-z_.]+ import |class [A-Za-z_]+[(:]|TUNE_PARAMS = |CONFIG = )",
    re.MULTILINE,
)
_EXPECTED = (
    "program: expected the whole module, with its class ModelNew, in one fenced block that begins "
    "with a line of three backticks and python"
)
_CLASS = re.compile(r"^[ \t]*class ModelNew\b", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What was read in a reply.

    Attributes:
        source: Text of the program; None where there is none that could run.
        defect: What is wrong; None where nothing is. A program whose parameters alone are declared
            wrongly ("llm_bad_parameters") comes with its defect.
        note: What the model says it did, one line for people; "" where it does not say.
        closed: Whether the program's text surely ends where it was meant to end.
    """

    source: str | None = None
    defect: Defect | None = None
    note: str = ""
    closed: bool = False

    def __post_init__(self) -> None:
        assert self.source is not None or self.defect is not None, "a program or a defect"


def read_reply(text: str, parent: str | None = None) -> Reading:
    """Read a model's reply; whatever it says, this is a value.

    Args:
        text: The reply.
        parent: Text that SEARCH/REPLACE blocks apply to; None: only a whole module will do.

    Returns:
        The program, its text with unified line ends and a newline at its end; or the reason for
        none: "llm_no_code", "llm_no_model_new", "llm_syntax_error", "llm_bad_parameters",
        "llm_edit_mismatch", "llm_edit_ambiguous", "llm_edit_malformed", "llm_edit_unexpected",
        "llm_no_change" (the parent once more) or "llm_too_long".
    """
    if len(text) > MAX_REPLY_CHARACTERS:
        sentence = f"The reply has {len(text)} characters, expected at most {MAX_REPLY_CHARACTERS}"
        return Reading(defect=Defect(reason="llm_too_long", sentence=sentence))
    text = without_thoughts(unified(text))
    home = None if parent is None else unified(parent)
    edits = find_edits(text)
    fences = Fences(text if edits is None else edits.rest)
    found = _module(fences)
    if edits is not None and (isinstance(found, Defect) or _is_same(found.text, home)):
        changed = _edited(edits, home)
        if isinstance(changed, Defect):
            found = changed
        else:
            found = _Module(text=changed, closed=False, prose=fences.prose)
    if isinstance(found, Defect):
        prose = _CODE_START.split(fences.prose, maxsplit=1)[0]
        return Reading(defect=found, note=first_remark(prose))
    note = first_remark(found.prose)
    if _is_same(found.text, home):
        sentence = "The program is the parent's, word for word: change something that makes it fast"
        return Reading(defect=Defect(reason="llm_no_change", sentence=sentence), note=note)
    defect = parameter_defect(found.text)
    return Reading(source=found.text, defect=defect, note=note, closed=found.closed)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Module:
    """A whole module in a reply.

    Attributes:
        text: Its text.
        closed: Whether it surely ends where it was meant to end.
        prose: What the reply says besides.
    """

    text: str
    closed: bool
    prose: str


def _edited(edits: Edits, parent: str | None) -> str | Defect:
    if parent is None:
        return Defect(
            reason="llm_edit_unexpected",
            sentence="The reply holds SEARCH/REPLACE blocks, expected the whole module in one "
            "fenced block",
        )
    if edits.defect is not None:
        return edits.defect
    changed = apply_edits(parent, edits.edits)
    if isinstance(changed, Defect):
        return changed
    changed = changed if changed.endswith("\n") else f"{changed}\n"
    defect = program_defect(changed)
    if defect is None:
        return changed
    sentence = f"With the blocks applied: {defect.sentence}"
    return Defect(reason=defect.reason, sentence=sentence)


def _module(fences: Fences) -> _Module | Defect:
    """The whole module of a reply, or the most telling reason why there is none."""
    found: list[Block] = []
    broken: list[tuple[Block, Defect]] = []
    for block in fences.blocks[-_MAX_BLOCKS:]:
        whole = _whole(fences, block)
        if isinstance(whole, Block):
            found.append(whole)
        elif block.text:
            broken.append((block, whole))
    if not found:
        bare = _bare(fences)
        return bare if isinstance(bare, _Module) else _telling(broken, bare)
    longest = max(len(block.text) for block in found)
    last = [block for block in found if 2 * len(block.text) >= longest][-1]
    return _Module(text=last.text, closed=last.closed, prose=fences.prose)


def _whole(fences: Fences, block: Block) -> Block | Defect:
    """A block as a module; where it ends inside a text of its own, with a later end."""
    defect = program_defect(block.text)
    if defect is None:
        return block
    if "ModelNew" not in block.text and '"""' not in block.text and "'''" not in block.text:
        return defect
    dedented = textwrap.dedent(block.text)
    if dedented != block.text and program_defect(dedented) is None:
        return Block(text=dedented, first=block.first, last=block.last, closed=block.closed)
    if defect.reason == "llm_syntax_error":
        for longer in fences.longer(block):
            if program_defect(longer.text) is None:
                return longer
    return defect


def _bare(fences: Fences) -> _Module | Defect | None:
    """The module outside the fences, with or without prose before it; None: there is no code.

    It ends at the first fence, or else at the end: then the fences belong to texts inside it.
    """
    defect = None
    for text in dict.fromkeys((fences.before, fences.text)):
        begun = _CODE_START.search(text)
        if begun is None or not _CLASS.search(text):
            continue
        for start in dict.fromkeys((0, begun.start())):
            module = text[start:].strip("\n").rstrip() + "\n"
            wrong = program_defect(module)
            if wrong is None:
                return _Module(text=module, closed=False, prose=text[:start])
        defect = defect or wrong
    return defect


def _telling(broken: Sequence[tuple[Block, Defect]], bare: Defect | None) -> Defect:
    """The defect of the longest block that names `ModelNew`, or else the next best."""
    named = [pair for pair in broken if "ModelNew" in pair[0].text]
    if named:
        return max(named, key=lambda pair: len(pair[0].text))[1]
    if bare is not None:
        return bare
    modules = [pair for pair in broken if pair[1].reason == "llm_no_model_new"]
    if modules:
        return max(modules, key=lambda pair: len(pair[0].text))[1]
    if broken:
        return Defect(reason="llm_no_model_new", sentence=f"No fenced block is a {_EXPECTED}")
    return Defect(reason="llm_no_code", sentence=f"The reply holds no {_EXPECTED}")


def _is_same(source: str, parent: str | None) -> bool:
    """Whether a program is the parent's up to white space at the ends of lines and of the text."""
    if parent is None:
        return False
    ends = [[line.rstrip() for line in text.strip().split("\n")] for text in (source, parent)]
    return ends[0] == ends[1]
