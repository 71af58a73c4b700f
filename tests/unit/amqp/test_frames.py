import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streaming.amqp import methods as m
from streaming.amqp.frames import (
    BODY,
    HEADER,
    HEARTBEAT,
    METHOD,
    Acks,
    Frame,
    FrameReader,
    Published,
    apart,
    frame,
    is_known,
)
from streaming.amqp.method_codec import write_method

FRAMES = st.lists(
    st.tuples(st.sampled_from([1, 2, 3, 8]), st.integers(0, 65535), st.binary(max_size=50)),
    max_size=6,
)


@given(FRAMES, st.lists(st.integers(1, 40)))
def test_bytes_may_be_cut_anywhere(frames, cuts):
    data = b"".join(frame(*each) for each in frames)
    reader, found = FrameReader(0), []
    for size in cuts:
        found += reader.feed(data[:size])
        data = data[size:]

    found += reader.feed(data)

    assert found == frames
    assert reader.broken is None


def test_frames_before_a_damaged_one_are_read():
    reader = FrameReader(0)

    found = reader.feed(frame(BODY, 1, b"ok") + frame(BODY, 1, b"bad")[:-1] + b"\0")

    assert found == [(BODY, 1, b"ok")]
    assert reader.broken is not None
    assert reader.broken.code == 501


def test_a_payload_may_be_as_large_as_a_frame():
    payload = bytes(4096)

    reader = FrameReader(4096)

    assert reader.feed(frame(BODY, 1, payload)) == [(BODY, 1, payload)]
    reader.feed(frame(BODY, 1, payload + b"1"))
    assert reader.broken is not None


def test_a_frame_that_is_too_large_is_refused_before_it_arrives():
    reader = FrameReader(4096)

    reader.feed(b"\3\0\1\0\0\x20\0")

    assert reader.broken is not None
    assert reader.broken.text.endswith("{frame_too_large,8192,4088}")


@pytest.mark.parametrize(
    ("kind", "payload", "known"),
    [
        (METHOD, b"\0\x0a\0\x0a", True),
        (METHOD, b"\0\x0a\0", False),
        (HEADER, bytes(12), True),
        (HEADER, bytes(11), False),
        (BODY, b"", True),
        (HEARTBEAT, b"", True),
        (HEARTBEAT, b"x", False),
        (71, b"", False),
    ],
)
def test_a_payload_must_be_possible_for_its_type(kind, payload, known):
    reader = FrameReader(0)

    (found,) = reader.feed(frame(kind, 1, payload))

    assert found == (kind, 1, payload)
    assert is_known(kind, payload) is known


CHANNELS = st.integers(0, 2)
TAGS = st.integers(0, 3) | st.sampled_from([2**63 - 1, 2**63, 2**64 - 1])


@st.composite
def client_frames(draw: st.DrawFn) -> list[Frame]:
    """Publishes and acks as clients send them, and much that looks like them."""
    found: list[Frame] = []
    for _ in range(draw(st.integers(0, 8))):
        channel = draw(CHANNELS)
        if draw(st.booleans()):
            tag, count = draw(TAGS), draw(st.integers(1, 3))
            acks = [
                m.BasicAck((tag + index) % 2**64, multiple=draw(st.integers(0, 9)) == 0)
                for index in range(count)
            ]
            found += [(METHOD, channel, write_method(each)) for each in acks]
            continue
        size = draw(st.integers(0, 20))
        declared = size + draw(st.sampled_from([0, 0, 0, 0, 1]))
        class_id = draw(st.sampled_from([60, 60, 60, 50]))
        header = struct.pack(">HHQ", class_id, 0, declared) + draw(st.binary(max_size=4))
        content = [
            (METHOD, channel, write_method(m.BasicPublish(0, "", draw(st.sampled_from("qqp"))))),
            (HEADER, draw(st.just(channel) | CHANNELS), header),
            (BODY, draw(st.just(channel) | CHANNELS), bytes(size)),
        ]
        found += content[: draw(st.integers(1, 3) | st.just(3))]
    return found


@given(client_frames(), st.lists(st.integers(1, 200)))
def test_joined_frames_say_the_same_wherever_the_bytes_are_cut(frames, cuts):
    data = b"".join(frame(*each) for each in frames)
    reader, found = FrameReader(0), []
    for size in cuts:
        found += reader.feed_joined(data[:size])
        data = data[size:]

    found += reader.feed_joined(data)

    assert [each for unit in found for each in apart(unit)] == frames


def test_publishes_and_acks_that_arrive_together_are_joined():
    publish = write_method(m.BasicPublish(0, "", "q"))
    header = struct.pack(">HHQ", 60, 0, 2) + b"\0\0"
    data = frame(METHOD, 1, publish) + frame(HEADER, 1, header) + frame(BODY, 1, b"hi")
    data += b"".join(frame(METHOD, 1, write_method(m.BasicAck(tag))) for tag in (4, 5, 6))

    assert FrameReader(0).feed_joined(data) == [
        Published(1, publish, b"\0\0", b"hi"),
        Acks(1, 4, 6),
    ]


def test_a_joined_frame_may_not_be_larger_than_what_was_negotiated():
    reader = FrameReader(30)
    header = struct.pack(">HHQ", 60, 0, 31) + b"\0\0"
    data = frame(METHOD, 1, write_method(m.BasicPublish(0, "", "q"))) + frame(HEADER, 1, header)

    units = reader.feed_joined(data + frame(BODY, 1, bytes(31)))

    assert [type(unit) for unit in units] == [tuple, tuple]
    assert reader.broken is not None
