"""Parsing of headers and commands, and the causes of malformed ones."""

import pytest

from streaming.broker.commands import Get
from streaming.protocol.record_headers import (
    CommandRecord,
    MalformedRecordError,
    command_record,
    kafka_headers_table,
    publish_headers,
)
from topology.values import Timestamp

NOTHING = (None,) * 8


def headers(**named: bytes) -> list[bytes | None]:
    names = ("op", "vhost", "exchange", "routing_key", "properties", "headers", "flags", "channel")
    return [named.get(name) for name in names]


def test_a_record_without_dlx_headers_goes_to_the_default_exchange_of_the_default_vhost():
    said = publish_headers(NOTHING)

    publication = said.publication
    assert (said.vhost, said.flags, said.channel) == ("/", 0, "pub")
    assert (publication.exchange, publication.routing_key) == ("", "")
    assert (publication.expiration, publication.priority, publication.headers) == (None,) * 3
    assert (said.properties, said.headers) == ({}, None)


def test_every_header_of_a_publish_is_read():
    said = publish_headers(
        headers(
            vhost=b"shop",
            exchange=b"orders",
            routing_key="größe".encode(),
            properties=b'{"priority": 3, "expiration": "500", "message_id": "m"}',
            headers=b'{"t": {"$timestamp": 7}, "b": {"$bytes": "/w=="}, "n": null, "CC": ["k"]}',
            flags=b"mandatory, confirm",
            channel=b"c7",
        )
    )

    publication = said.publication
    assert (said.vhost, said.flags, said.channel) == ("shop", 5, "c7")
    assert (publication.exchange, publication.routing_key) == ("orders", "größe")
    assert (publication.expiration, publication.priority) == ("500", 3)
    assert said.properties == {"priority": 3, "expiration": "500", "message_id": "m"}
    assert publication.headers == {"CC": ["k"]}
    assert said.headers == {"t": Timestamp(7), "b": b"\xff", "n": None, "CC": ["k"]}


@pytest.mark.parametrize(
    ("named", "cause"),
    [
        ({"exchange": b"\xff"}, "not_utf8"),
        ({"exchange": b"x" * 256}, "header_too_long"),
        ({"properties": b"{"}, "bad_json"),
        ({"properties": b"[]"}, "wrong_type"),
        ({"properties": b'{"priority": "3"}'}, "wrong_type"),
        ({"properties": b'{"priority": true}'}, "wrong_type"),
        ({"properties": b'{"priority": 256}'}, "out_of_range"),
        ({"properties": b'{"message_id": 1}'}, "wrong_type"),
        ({"properties": b'{"prioritty": 1}'}, "unknown_property"),
        ({"headers": b"7"}, "wrong_type"),
        ({"headers": b'{"a": {"$bytes": 1}}'}, "wrong_type"),
        ({"headers": b"[" * 2000}, "bad_json"),
        ({"flags": b"mandatroy"}, "unknown_flag"),
    ],
)
def test_an_invalid_header_is_refused_with_its_cause(named, cause):
    with pytest.raises(MalformedRecordError) as caught:
        publish_headers(headers(**named))

    assert caught.value.cause == cause


def test_a_misspelt_property_is_refused_with_a_suggestion():
    with pytest.raises(MalformedRecordError, match="did you mean 'priority'"):
        publish_headers(headers(properties=b'{"prioritty": 1}'))


def test_a_command_is_read_with_its_vhost_and_channel():
    record = command_record(b"get", b"shop", b'{"op":"get","queue":"q","channel":"c"}')

    assert record == CommandRecord("shop", Get(queue="q", channel="c"))
    assert record.channel == "c"


def test_the_op_can_be_in_the_header_only():
    record = command_record(b"get", None, b'{"queue":"q"}')

    assert record == CommandRecord("/", Get(queue="q"))


@pytest.mark.parametrize(
    ("op", "value", "cause"),
    [
        (b"get", None, "null_body"),
        (b"get", b"{", "bad_json"),
        (b"get", b"[]", "wrong_type"),
        (b"ack", b'{"op":"get","queue":"q"}', "op_mismatch"),
        (b"", b'{"op":"publish"}', "unknown_op"),
        (b"", b'{"op":"gett"}', "unknown_op"),
        (b"", b"{}", "bad_command"),
        (b"", b'{"op":"get"}', "bad_command"),
        (b"", b'{"op":"get","queue":1}', "bad_command"),
        (b"", b'{"op":"get","queue":"q","count":-1}', "bad_command"),
        (b"", b'{"op":"ack","refs":"a/0"}', "bad_command"),
        (b"\xff", b'{"op":"get","queue":"q"}', "not_utf8"),
    ],
)
def test_an_invalid_command_is_refused_with_its_cause(op, value, cause):
    with pytest.raises(MalformedRecordError) as caught:
        command_record(op, None, value)

    assert caught.value.cause == cause


def test_a_repeated_foreign_header_has_its_last_value():
    table = kafka_headers_table([("a", b"1"), ("b", b"\xff"), ("a", b"2"), ("c", None)])

    assert table == {"a": "2", "b": b"\xff", "c": None}


@pytest.mark.parametrize("step", [b"1", b"{}", b'{"op":"publish","a":1,"b":2}'])
def test_the_cause_of_a_command_with_many_faults_is_short(step):
    """A column of a file holds at most 2 GiB, so the cause of any record is short."""
    value = b'{"op":"check","steps":[' + b",".join([step] * 100_000) + b"]}"

    with pytest.raises(MalformedRecordError) as caught:
        command_record(b"check", None, value)

    assert caught.value.cause == "bad_command"
    assert caught.value.detail.startswith("steps[0]")
    assert len(caught.value.detail) < 11_000


def test_the_cause_shortens_a_long_word():
    value = b'{"op":"' + b"x" * 1_000_000 + b'"}'

    with pytest.raises(MalformedRecordError) as caught:
        command_record(b"", None, value)

    assert caught.value.cause == "unknown_op"
    assert len(caught.value.detail) < 11_000
