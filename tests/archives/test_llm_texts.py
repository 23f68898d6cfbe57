import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archives.llm_call import Message
from archives.llm_texts import pack_texts, unpack_texts
from problems.errors import StoreError

# Surrogates and line ends of every kind among them.
TEXTS = st.text(st.characters(codec=None))
MESSAGES = st.lists(
    st.builds(Message, role=st.sampled_from(["system", "user", "assistant"]), text=TEXTS)
)


@given(messages=MESSAGES, reply=TEXTS)
def test_any_texts_come_back_as_they_were(messages: list[Message], reply: str) -> None:
    assert unpack_texts(pack_texts(messages, reply)) == (tuple(messages), reply)


def test_a_prompt_with_a_kernel_takes_a_fraction_of_its_size() -> None:
    kernel = "".join(f"    x{i} = a[{i}] * b[{i}] + c[{i}]\n" for i in range(500))
    message = Message(role="user", text=kernel)
    assert len(pack_texts([message], kernel)) < len(kernel) / 2


@pytest.mark.parametrize(
    "damaged",
    [
        b"",
        b"no archive",
        pack_texts([Message(role="user", text="x")], "y")[:-3],
        zlib.compress(b"no header"),
        zlib.compress(b'{"roles": ["user"], "lengths": []}\n'),
        zlib.compress(b'{"roles": ["user"], "lengths": [1, 1, 1]}\nabc'),
        zlib.compress(b"[]\n"),
    ],
)
def test_damage_is_one_sentence(damaged: bytes) -> None:
    with pytest.raises(StoreError, match="is damaged, restore it from a copy"):
        unpack_texts(damaged)
