"""What was sent to a language model and what came back, packed into one small value.

A header of one line gives the role and the length of each text; the texts follow, the reply last.
All of it is compressed together: a reply repeats much of its prompt. Texts come back exactly as
they were, lone surrogates included, which no JSON or UTF-8 text of a database could hold.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence

from archives.llm_call import Message
from problems.errors import StoreError

__all__ = ["pack_texts", "unpack_texts"]

_LEVEL = 1
"""Two thirds of the time of zlib's default, a seventh more bytes on prompts that hold kernels."""

_ERRORS = "surrogatepass"


def pack_texts(messages: Sequence[Message], reply: str) -> bytes:
    """Return messages and reply as compressed bytes."""
    texts = [message.text.encode("utf-8", _ERRORS) for message in messages]
    texts.append(reply.encode("utf-8", _ERRORS))
    roles = [message.role for message in messages]
    header = json.dumps({"roles": roles, "lengths": [len(text) for text in texts]})
    return zlib.compress(b"".join([header.encode(), b"\n", *texts]), _LEVEL)


def unpack_texts(packed: bytes) -> tuple[tuple[Message, ...], str]:
    """Return the messages and the reply that `pack_texts` packed.

    Raises:
        StoreError: The bytes are damaged.
    """
    try:
        header, _, rest = zlib.decompress(packed).partition(b"\n")
        shape = json.loads(header)
        texts, start = [], 0
        for length in shape["lengths"]:
            texts.append(rest[start : start + length].decode("utf-8", _ERRORS))
            start += length
        pairs = zip(shape["roles"], texts[:-1], strict=True)
        return tuple(Message(role=role, text=text) for role, text in pairs), texts[-1]
    except (zlib.error, ValueError, KeyError, IndexError, TypeError) as error:
        raise StoreError(
            f"the texts of a call to a language model cannot be read ({error}): the store is "
            "damaged, restore it from a copy"
        ) from error
