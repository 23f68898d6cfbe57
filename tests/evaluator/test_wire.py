import json
import os
import socket
import struct
import threading
import time
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evaluator.wire import (
    ALIGNMENT_BYTES,
    ITEM_BYTES,
    MAX_FRAME_BYTES,
    Channel,
    ChannelClosed,
    FrameError,
    ValueSpec,
    decode_value,
    encode_value,
    layout,
)
from problems.errors import EvaluatorError, WorkerTimeout

_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda items: st.lists(items, max_size=4) | st.dictionaries(st.text(max_size=4), items),
    max_leaves=10,
)
_PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda items: (
        st.lists(items, max_size=3)
        | st.lists(items, max_size=3).map(tuple)
        | st.dictionaries(st.text(max_size=3), items, max_size=3)
    ),
    max_leaves=8,
)


@pytest.fixture
def ends() -> Iterator[tuple[Channel, socket.socket]]:
    """A channel, and the raw other end of it."""
    left, right = socket.socketpair()
    with Channel(left) as channel, right:
        yield channel, right


def _frame(payload: bytes) -> bytes:
    return struct.pack(">I", len(payload)) + payload


@settings(deadline=None)
@given(st.lists(st.dictionaries(st.text(max_size=5), _JSON, max_size=4), max_size=4))
def test_messages_arrive_as_they_were_sent(messages: list[dict[str, object]]) -> None:
    left, right = Channel.pair()
    with left, right:
        for message in messages:
            left.send(json.loads(json.dumps(message)), timeout_s=5)
        assert [right.receive(timeout_s=5) for _ in messages] == messages


@settings(deadline=None, max_examples=300)
@given(st.binary(max_size=200))
def test_no_bytes_break_the_receiver(data: bytes) -> None:
    left, right = socket.socketpair()
    with Channel(left) as channel:
        with right:
            right.sendall(data)
        for _ in range(60):
            try:
                message = channel.receive(timeout_s=5)
            except (FrameError, ChannelClosed):
                return
            assert isinstance(message, dict)


@settings(deadline=None)
@given(st.binary(max_size=100))
def test_no_payload_breaks_the_receiver(payload: bytes) -> None:
    left, right = socket.socketpair()
    with Channel(left) as channel, right:
        right.sendall(_frame(payload))
        try:
            assert isinstance(channel.receive(timeout_s=5), dict)
        except FrameError:
            return


@pytest.mark.parametrize(
    "payload",
    [
        b"[1]",
        b"{",
        b'{"a": NaN}',
        b'{"a": Infinity}',
        b'{"a": 1e999}',
        b'{"a": "\\ud800"}',
        b'{"a": ' + b"1" * 6000 + b"}",
        b"[" * 200_000,
        b'{"a":' * 100_000,
        b"\xff\xfe",
    ],
    ids=lambda payload: payload[:12].decode("latin-1"),
)
def test_what_is_no_json_object_is_refused(
    ends: tuple[Channel, socket.socket], payload: bytes
) -> None:
    channel, raw = ends
    sender = threading.Thread(target=raw.sendall, args=(_frame(payload),))
    sender.start()
    with pytest.raises(FrameError):
        channel.receive(timeout_s=10)
    sender.join()


def test_a_huge_length_is_refused_before_anything_is_read(
    ends: tuple[Channel, socket.socket],
) -> None:
    channel, raw = ends
    raw.sendall(struct.pack(">I", MAX_FRAME_BYTES + 1))
    with pytest.raises(FrameError, match="1048577"):
        channel.receive(timeout_s=5)


def test_the_deadline_covers_a_frame_that_drips(ends: tuple[Channel, socket.socket]) -> None:
    channel, raw = ends
    stop = threading.Event()

    def drip() -> None:
        for byte in _frame(b'{"a": "slow but steady, and never done in time"}'):
            if stop.wait(0.02):
                return
            raw.send(bytes([byte]))

    sender = threading.Thread(target=drip)
    sender.start()
    start = time.monotonic()
    with pytest.raises(WorkerTimeout):
        channel.receive(timeout_s=0.2)
    assert time.monotonic() - start < 0.5
    stop.set()
    sender.join()


def test_a_reader_that_does_not_read_costs_a_deadline_not_a_hang(
    ends: tuple[Channel, socket.socket],
) -> None:
    channel, _ = ends
    with pytest.raises(WorkerTimeout):
        channel.send({"a": "x" * 1_000_000}, timeout_s=0.1)


def test_a_closed_end_is_told_apart_from_a_broken_frame(
    ends: tuple[Channel, socket.socket],
) -> None:
    channel, raw = ends
    raw.sendall(b"\0\0")
    raw.close()
    with pytest.raises(ChannelClosed):
        channel.receive(timeout_s=5)
    with pytest.raises(ChannelClosed):
        channel.send({"a": 1})


def test_messages_that_cannot_travel_are_refused_at_once() -> None:
    left, right = Channel.pair()
    with left, right:
        for message in ({"a": float("nan")}, {"a": object()}, {"a": "x" * MAX_FRAME_BYTES}):
            with pytest.raises(FrameError):
                left.send(message)
        assert not right.pending()
        left.send({"a": 1})
        assert right.pending()
        assert right.receive() == {"a": 1}
        assert not right.pending()


def test_descriptors_travel_with_their_message() -> None:
    left, right = Channel.pair()
    with left, right:
        files = [os.memfd_create(f"file{number}") for number in range(3)]
        for number, file in enumerate(files):
            os.write(file, b"%d" % number)
        left.send({"first": "message"})
        left.send({"op": "spawn", "pad": "x" * 100_000}, descriptors=files)
        assert right.receive_with_descriptors(timeout_s=5) == ({"first": "message"}, [])
        message, received = right.receive_with_descriptors(timeout_s=5)
        assert message["op"] == "spawn"
        assert [os.pread(file, 9, 0) for file in received] == [b"0", b"1", b"2"]
        assert not any(os.get_inheritable(file) for file in received)
        for file in [*files, *received]:
            os.close(file)


def test_the_errors_are_the_evaluators() -> None:
    assert issubclass(ChannelClosed, EvaluatorError)
    assert issubclass(FrameError, EvaluatorError)
    assert issubclass(WorkerTimeout, EvaluatorError)


_SPECS = st.builds(
    lambda dtype, shape: ValueSpec(
        dtype=dtype,
        shape=tuple(shape),
        stride=(shape[1], 1) if len(shape) == 2 else (1,) * len(shape),
    ),
    st.sampled_from([name for name in ITEM_BYTES if not name.startswith("python:")]),
    st.lists(st.integers(0, 9), max_size=2),
)


@settings(deadline=None)
@given(st.lists(_SPECS, min_size=1, max_size=6))
def test_a_layout_is_aligned_and_without_overlap(specs: list[ValueSpec]) -> None:
    offsets, size = layout(specs)
    ends = [offset + spec.num_bytes for offset, spec in zip(offsets, specs, strict=True)]
    assert all(offset % ALIGNMENT_BYTES == 0 for offset in (*offsets, size))
    assert all(end <= start for end, start in zip(ends, [*offsets[1:], size], strict=True))


def test_the_bytes_of_a_spec_follow_its_strides() -> None:
    assert ValueSpec(dtype="float32", shape=(2, 3), stride=(3, 1)).num_bytes == 24
    assert ValueSpec(dtype="float32", shape=(2, 3), stride=(8, 2)).num_bytes == 52
    assert ValueSpec(dtype="int64", shape=(5,), stride=(0,)).num_bytes == 8
    assert ValueSpec(dtype="int64", shape=(0, 5), stride=(5, 1)).num_bytes == 0
    assert ValueSpec(dtype="bool").num_bytes == 1
    spec = ValueSpec(dtype="float16", shape=(2,), stride=(1,), offset=64, name="weight")
    assert ValueSpec.from_json(json.loads(json.dumps(spec.to_json()))) == spec


@pytest.mark.parametrize(
    "data",
    [
        None,
        {},
        {"dtype": "float31"},
        {"dtype": ["float32"]},
        {"dtype": "float32", "shape": [1], "stride": []},
        {"dtype": "float32", "shape": [-1], "stride": [1]},
        {"dtype": "float32", "shape": [True], "stride": [1]},
        {"dtype": "float32", "shape": [1.5], "stride": [1]},
        {"dtype": "float32", "shape": "12", "stride": [1, 1]},
        {"dtype": "float32", "shape": [1] * 99, "stride": [1] * 99},
        {"dtype": "float32", "shape": [1 << 40, 1 << 40], "stride": [1, 1]},
        {"dtype": "float32", "offset": -64},
        {"dtype": "float32", "name": 7},
    ],
    ids=str,
)
def test_a_forged_spec_is_refused(data: object) -> None:
    with pytest.raises(FrameError):
        ValueSpec.from_json(data)


@settings(deadline=None)
@given(_PLAIN)
def test_constructor_arguments_keep_their_types(value: object) -> None:
    again = decode_value(json.loads(json.dumps(encode_value(value), allow_nan=False)))
    assert again == value
    assert repr(again) == repr(value)


def test_a_tensor_is_no_plain_data() -> None:
    with pytest.raises(TypeError, match="object is not plain data"):
        encode_value([1, (object(),)])


def test_a_channel_closed_on_this_side_is_closed_for_whoever_looks_at_it() -> None:
    left, right = socket.socketpair()
    with right:
        channel = Channel(left)
        channel.close()
        with pytest.raises(ChannelClosed):
            channel.pending()
