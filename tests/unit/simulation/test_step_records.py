"""Scenarios' steps as Kafka records, and replies read from them."""

import json

import pytest

from streaming.broker.message import CONFIRM, IMMEDIATE, MANDATORY, Publication
from streaming.protocol.command_json import parse_command
from streaming.protocol.record_headers import INBOUND, publish_headers
from streaming.protocol.record_headers import command_record as read_command_record
from streaming.scenario.replies import Answered, Confirmed, Delivered, Refused, Returned
from streaming.scenario.steps import Publish
from streaming.simulation.step_records import (
    by_name,
    command_document,
    command_record,
    publish_record,
    reply_of,
)
from tests.every_command import COMMANDS
from topology.values import Timestamp


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.__struct_config__.tag)
def test_a_command_is_read_as_it_was_written(command):
    record = command_record(5, command, "v")
    headers = by_name(record.headers)

    read = read_command_record(headers["dlx-op"], headers["dlx-vhost"], record.value)

    assert parse_command(command_document(command)) == command
    assert (record.at_ms, read.vhost, read.command) == (5, "v", command)


@pytest.mark.parametrize(
    ("publish", "flags"),
    [
        (Publish(Publication("e", "k", priority=0), {"priority": 0}, None, "body"), CONFIRM),
        (
            Publish(
                Publication("", "", "5"),
                {"expiration": "5"},
                {"t": Timestamp(1), "f": 1.0, "n": None},
                "é",
                mandatory=True,
                immediate=True,
                channel="c",
            ),
            CONFIRM | MANDATORY | IMMEDIATE,
        ),
        (Publish(Publication("e", "k"), {}, {}, ""), CONFIRM),
    ],
    ids=["without headers", "with everything", "with an empty table"],
)
def test_a_publish_is_read_as_it_was_written(publish, flags):
    record = publish_record(5, publish, "v")
    headers = by_name(record.headers)

    read = publish_headers([headers.get(name) for name in INBOUND])

    assert record.value == publish.body.encode()
    assert (read.vhost, read.flags, read.channel) == ("v", flags, publish.channel)
    assert repr(read.publication) == repr(publish.publication)  # 1.0 is not 1 there


ATTRIBUTES = {
    "dlx-channel": b"c",
    "dlx-exchange": b"e",
    "dlx-routing-key": b"k",
    "dlx-properties": b'{"priority":1}',
    "dlx-headers": b'{"x-death":[{"time":{"$timestamp":1}}]}',
}
MESSAGE = {
    "body": "é",
    "exchange": "e",
    "routing_key": "k",
    "properties": {"priority": 1},
    "headers": {"x-death": [{"time": "<timestamp>"}]},
}


def test_a_delivery_has_the_form_of_recordings():
    headers = {
        **ATTRIBUTES,
        "dlx-kind": b"delivery",
        "dlx-ref": b"g/0",
        "dlx-delivery-id": b"1.2.3",
        "dlx-queue": b"q",
        "dlx-redelivered": b"true",
    }

    reply = reply_of("é".encode(), headers, "v-1.")

    assert reply == Delivered("c", "g/0", "1.2.3", "q", {**MESSAGE, "redelivered": True})


def test_missing_headers_differ_from_an_empty_table():
    returned = {
        "dlx-kind": b"return",
        "dlx-exchange": b"",
        "dlx-routing-key": b"",
        "dlx-reply-code": b"312",
        "dlx-reply-text": b"NO_ROUTE",
    }
    replies = [reply_of(b"", returned | more, "v") for more in ({}, {"dlx-headers": b"{}"})]

    assert [reply.message["headers"] for reply in replies if isinstance(reply, Returned)] == [
        None,
        {},
    ]


@pytest.mark.parametrize(
    ("kind", "document", "reply"),
    [
        ("confirm", {"ack": False, "offset": 1}, Confirmed(ack=False)),
        (
            "publish_error",
            {"error": {"code": 404, "text": "no exchange 'e' in vhost 'v-1.'"}},
            Refused({"code": 404, "text": "no exchange 'e' in vhost '<vhost>'"}),
        ),
        ("answer", {"op": "depth", "result": {"ready": 1}}, Answered({"ready": 1}, None)),
        (
            "answer",
            {"op": "get", "error": {"code": 404, "text": "no queue 'v-10' in vhost 'v-1.'"}},
            Answered({}, {"code": 404, "text": "no queue 'v-10' in vhost '<vhost>'"}),
        ),
    ],
)
def test_other_replies_have_the_vhost_name_of_recordings(kind, document, reply):
    headers = {"dlx-kind": kind.encode()}

    assert reply_of(json.dumps(document).encode(), headers, "v-1.") == reply
