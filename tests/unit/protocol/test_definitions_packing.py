"""Definitions inside an import command: plain, packed, or refused with the reason."""

import base64
import gzip
import json
import zlib

import pytest

from streaming.broker.commands import ImportDefinitions
from streaming.protocol.command_json import parse_command
from streaming.protocol.definitions_packing import (
    MAX_SEPARATORS,
    MAX_UNPACKED_BYTES,
    write_definitions,
)
from streaming.protocol.record_headers import MalformedRecordError, command_record
from topology.errors import InvalidTopologyError

SMALL = {"queues": [{"name": "q\u00fc"}]}
LARGE = {"queues": [{"name": f"queue.{number}"} for number in range(30_000)]}


def packed(data: bytes) -> str:
    return base64.b64encode(data).decode()


def zipped(text: bytes) -> str:
    return packed(gzip.compress(text, mtime=0))


def test_a_small_document_is_sent_unpacked():
    assert write_definitions(SMALL).member == {"definitions": SMALL}


def test_a_large_document_is_packed_and_unpacks_to_the_same():
    written = write_definitions(LARGE)

    command = parse_command({"op": "import_definitions", **written.member})

    assert list(written.member) == ["definitions_gzip"]
    assert len(json.dumps(written.member)) < written.text_bytes / 4
    assert command == ImportDefinitions(definitions=LARGE)


def test_packing_is_deterministic():
    assert write_definitions(LARGE) == write_definitions(json.loads(json.dumps(LARGE)))


@pytest.mark.parametrize("document", [{"a": object()}, {"a": "\ud800"}])
def test_a_document_that_is_no_json_is_not_written(document):
    with pytest.raises((ValueError, TypeError)):
        write_definitions(document)


def test_a_document_too_large_to_unpack_is_not_packed():
    with pytest.raises(ValueError, match=f"more than {MAX_UNPACKED_BYTES}"):
        write_definitions({"filler": "x" * MAX_UNPACKED_BYTES})
    with pytest.raises(ValueError, match=f"more than {MAX_SEPARATORS} commas"):
        write_definitions({"filler": "," * MAX_SEPARATORS})


WHOLE = gzip.compress(b"{}", mtime=0)  # test names are the same in every process


@pytest.mark.parametrize(
    ("value", "what"),
    [
        (7, "expected a string, got a number"),
        ({}, "expected a string, got an object"),
        ("%", "is not base64"),
        ("e30\u00fc", "is not base64"),
        ("", "is not gzip: it is truncated"),
        (packed(b"{}"), "is not gzip: Error -3"),
        (packed(zlib.compress(b"{}")), "is not gzip: Error -3"),
        (packed(WHOLE[:-1]), "is not gzip: it is truncated"),
        (packed(WHOLE[:-8] + b"12345678"), "is not gzip: Error -3"),
        (packed(WHOLE + b"more"), "is not gzip: its end is followed by more data"),
        (zipped(b"{"), "does not hold JSON"),
        (zipped(b"\xff"), "does not hold JSON"),
        (zipped(b'{"a": "\xff"}'), "does not hold JSON"),
        (zipped(b"[" * 100_000), "does not hold JSON"),
        (zipped(b"[]"), "expected an object in it, got an array"),
        (zipped(b" " * (MAX_UNPACKED_BYTES + 1)), f"holds more than {MAX_UNPACKED_BYTES} bytes"),
        (
            zipped(b'{"queues":[' + b"[]," * (MAX_SEPARATORS // 2) + b"1]}"),
            f"holds more than {MAX_SEPARATORS} commas",
        ),
    ],
)
def test_a_document_that_cannot_be_unpacked_is_a_malformed_record(value, what):
    """It is quarantined with a clear cause, without any other effect."""
    document = {"op": "import_definitions", "definitions_gzip": value}

    with pytest.raises(MalformedRecordError) as refused:
        command_record(b"import_definitions", None, json.dumps(document).encode())

    assert refused.value.cause == "bad_command"
    assert refused.value.detail.startswith(f"definitions_gzip: {what}")


def test_a_document_of_the_maximum_size_is_unpacked():
    text = b"{}" + b" " * (MAX_UNPACKED_BYTES - 2)

    command = parse_command({"op": "import_definitions", "definitions_gzip": zipped(text)})

    assert command == ImportDefinitions(definitions={})


@pytest.mark.parametrize(
    ("members", "problem"),
    [
        ({}, "definitions: expected an object, got null"),
        ({"definitions": []}, "definitions: expected an object, got an array"),
        (
            {"definitions": {}, "definitions_gzip": zipped(b"{}")},
            "definitions_gzip: cannot be combined with 'definitions': give only one of them",
        ),
    ],
)
def test_a_document_is_either_packed_or_plain(members, problem):
    with pytest.raises(InvalidTopologyError) as refused:
        parse_command({"op": "import_definitions", **members}, "")

    assert str(refused.value) == problem
