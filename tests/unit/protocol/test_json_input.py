"""The allowed depth of foreign JSON does not depend on its reader."""

import pytest

from streaming.protocol.json_input import MAX_DEPTH, read_json
from streaming.protocol.record_headers import MalformedRecordError, command_record

TOO_DEEP = "it is nested more than 200 levels deep"


def nested(levels: int, opening: bytes = b"[", closing: bytes = b"]") -> bytes:
    return opening * levels + b"0" + closing * levels


@pytest.mark.parametrize(("opening", "closing"), [(b"[", b"]"), (b'{"a":', b"}")])
def test_a_document_with_the_maximum_depth_is_read(opening, closing):
    document = read_json(nested(MAX_DEPTH, opening, closing))

    levels = 0
    while document != 0:
        document = document[0] if isinstance(document, list) else document["a"]
        levels += 1
    assert levels == MAX_DEPTH


@pytest.mark.parametrize("levels", [MAX_DEPTH + 1, 500, 900, 1_000, 100_000])
@pytest.mark.parametrize(("opening", "closing"), [(b"[", b"]"), (b'{"a":', b"}")])
def test_a_deeper_document_is_refused(levels, opening, closing):
    with pytest.raises(ValueError, match=TOO_DEEP):
        read_json(nested(levels, opening, closing))


def test_a_wide_document_is_not_deep():
    document = read_json(b"[" + b"[{}]," * 1_000 + b'"[[["]')

    assert len(document) == 1_001


@pytest.mark.parametrize("text", [b"", b"{", b"\xff", b'"\xff"', b"[1}"])
def test_text_that_is_no_json_is_refused(text):
    with pytest.raises(ValueError, match=r"truncated|malformed|invalid|can't decode"):
        read_json(text)


@pytest.mark.parametrize("levels", [MAX_DEPTH, 500, 900])
def test_reading_a_command_twice_gives_the_same(levels):
    """In deeply nested calls, Python cannot read documents that it can read elsewhere."""
    value = b'{"op":"import_definitions","definitions":{"x":' + nested(levels) + b"}}"

    def read(calls: int) -> str:
        if calls:
            return read(calls - 1)
        try:
            return command_record(b"", None, value).vhost
        except MalformedRecordError as error:
            return f"{error.cause}: {error.detail}"

    assert read(300) == read(0)
    assert read(0) == f"bad_json: value is not JSON: {TOO_DEEP}"
