"""The texts are those that RabbitMQ 4.0.5 answered."""

import pytest

from streaming.amqp.frame_errors import invalid_frame_end, unexpected_frame

ALL = "UNEXPECTED_FRAME - type 3, all octets = "
FIRST = "UNEXPECTED_FRAME - type 3, first 16 octets = "
UNREADABLE = bytes(range(129, 145))


@pytest.mark.parametrize(
    ("payload", "text"),
    [
        (b"", f"{ALL}<<>>"),
        (b"hello" * 20, f'{FIRST}<<"hellohellohelloh">>'),
        (b'\x1b\b\v\f\r\n\t"\\', f'{ALL}<<"\\e\\b\\v\\f\\r\\n\\t\\"\\\\">>'),
        (b"ab\x7f", f"{ALL}<<97,98,127>>"),
        (b"h\xe9\xe9", f'{ALL}<<"h\u00e9\u00e9">>'),
        ("h\u00e9\u20ac".encode(), f'{ALL}<<"h\u00e9\u20ac"/utf8>>'),
        (
            UNREADABLE,
            f"{ALL}<<129,130,131,132,133,134,135,136,137,138,139,140,141,142,\n{' ' * 23}143,144>>",
        ),
    ],
)
def test_a_frame_is_shown_as_erlang_prints_it(payload, text):
    assert unexpected_frame(3, payload).text == text


@pytest.mark.parametrize(
    ("payload", "marker", "text"),
    [
        (b"\0\x0a\0\x32", 0, "all octets = <<0,10,0,50>>: {invalid_frame_end_marker,0}"),
        (
            bytes(20),
            1,
            "first 16 octets = <<0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0>>: {invalid_frame_end_marker,\n"
            f"{' ' * 64}1}}",
        ),
        (
            UNREADABLE * 2,
            133,
            "first 16 octets = <<129,130,131,132,133,134,135,136,137,138,139,140,\n"
            f"{' ' * 28}141,142,143,144>>: {{invalid_frame_end_marker,133}}",
        ),
    ],
)
def test_a_frame_that_does_not_end_is_shown_with_its_end(payload, marker, text):
    assert invalid_frame_end(1, payload, marker).text == f"FRAME_ERROR - type 1, {text}"
