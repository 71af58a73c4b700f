from hypothesis import given
from hypothesis import strategies as st

from streaming.amqp.frames import BODY, FrameReader, frame

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


def test_a_frame_that_is_too_large_is_refused_before_it_arrives():
    reader = FrameReader(4096)

    reader.feed(b"\3\0\1\0\0\x20\0")

    assert reader.broken is not None
    assert "larger than the negotiated maximum of 4096" in reader.broken.text


def test_an_unknown_type_is_refused():
    reader = FrameReader(0)

    reader.feed(b"GET / HTTP/1.1\r\n")

    assert reader.broken is not None
    assert "unknown frame type 71" in reader.broken.text
