"""What a model says it did, as one line for people."""

from __future__ import annotations

import re

from operators.llm.sections import inline

__all__ = ["first_remark"]

MAX_CHARACTERS = 120

_INTERJECTION = re.compile(
    r"^(?:sure|certainly|of course|okay|ok|great|absolutely|yes)[,.!:]\s*", re.IGNORECASE
)
_OPENER = re.compile(
    r"(?:here(?:'s| is| are)|below (?:is|are)|the following)\b[^.!:]*[:.!](?=\s|$)\s*",
    re.IGNORECASE,
)
_SENTENCE_END = re.compile(r"[.!?](?=\s|$)")
_MARKUP = re.compile(r"^(?:#{1,6}\s+|[-*+>]\s+|\d+[.)]\s+)+|\*\*|`")
_LABEL = re.compile(r"^(?:changes?|summary|explanation|answer|approach|plan)\s*:\s*", re.IGNORECASE)
_READ_LINES = 40


def first_remark(prose: str) -> str:
    """Return the first sentence that says something, at most 120 characters; "" without one.

    Markup, headings and openers such as "Here is the program:" are passed over, the latter unless
    nothing else is said; whatever is not printable becomes a space.

    Args:
        prose: A reply without its code, with unified line ends.
    """
    opener = ""
    for paragraph in _paragraphs(prose):
        text = inline(_MARKUP.sub("", paragraph).replace("\u2019", "'"), 4 * MAX_CHARACTERS)
        text = _LABEL.sub("", _INTERJECTION.sub("", text, count=1), count=1)
        opened = _OPENER.match(text)
        if opened:
            opener = opener or _sentence(opened[0])
            text = text[opened.end() :]
        if sentence := _sentence(text):
            return sentence
    return opener


def _sentence(text: str) -> str:
    """The first sentence of a text without its end mark; "" where it is a single word."""
    end = _SENTENCE_END.search(text)
    sentence = (text[: end.start()] if end else text).strip().rstrip(":")
    return inline(sentence, MAX_CHARACTERS) if len(sentence.split()) > 1 else ""


def _paragraphs(prose: str) -> list[str]:
    """The first paragraphs, each joined to one line; headings and list items stand alone."""
    joined: list[str] = []
    begins = True
    for line in prose.split("\n")[:_READ_LINES]:
        line = line[: 8 * MAX_CHARACTERS].strip()
        alone = bool(_MARKUP.match(line)) and not line.startswith(("`", "**"))
        if line and (begins or alone):
            if not line.startswith("#"):
                joined.append(line)
        elif line:
            joined[-1] += f" {line}"
        begins = not line or line.startswith("#")
    return joined
