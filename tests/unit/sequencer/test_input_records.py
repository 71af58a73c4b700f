"""What becomes of a record of an input in the log of a vhost: an entry, or nothing."""

import json

import pytest

from streaming.amqp.entries import Ask, Publish
from streaming.amqp.properties import read_properties
from streaming.broker import commands
from streaming.broker.events import Actor
from streaming.config.inputs import InputSettings, TopicMapping
from streaming.config.selectors import JsonValue, RecordHeader
from streaming.protocol.copied_records import Source
from streaming.sequencer.input_records import InputRecord, InputRecords

COMMANDS = InputSettings(topic="commands", source="commands", user="ann")
MAPPED = InputSettings(
    topic="mapped",
    user="bob",
    mapping=TopicMapping(
        exchange="orders",
        routing_key=JsonValue(name="$.key"),
        vhost=RecordHeader(name="vhost", otherwise="shop"),
        message_id="{record.topic}/{record.offset}",
        expiration=RecordHeader(name="ttl", optional=True),
        user_id=RecordHeader(name="user", optional=True),
        headers={"tenant": JsonValue(name="$.tenant", optional=True)},
    ),
)
COMMAND = Source("commands", 1, 7)
PLACE = Source("mapped", 0, 9)


def entry_of(source, value, *headers, vhost="shop"):
    records = InputRecords(vhost, (COMMANDS, MAPPED), ("shop", "/"), 100, 60, 1_000)
    return records.entry(InputRecord(source, 1_000, None, value, headers))


def a_command(value, *headers):
    return entry_of(COMMAND, value, ("dlx-vhost", b"shop"), *headers)


def test_a_command_becomes_one_of_the_user_of_the_input_on_a_channel_of_its_own():
    entry = a_command(b'{"queue": "q", "channel": "c", "reply_id": "7"}', ("dlx-op", b"purge"))

    purge = commands.Purge(queue="q", channel="kafka:c", reply_id="7")
    assert entry == Ask(Actor("ann", "kafka:c"), purge, COMMAND)


def test_a_record_that_front_and_job_read_differently_is_left_out():
    odd = ("x\ufffd", b"1")

    assert a_command(b'{"queue": "q"}', ("dlx-op", b"purge")) is not None
    assert a_command(b'{"queue": "q"}', ("dlx-op", b"purge"), odd) is None
    assert entry_of(PLACE, b'{"key": "k"}') is not None
    assert entry_of(PLACE, b'{"key": "k"}', odd) is None
    records = InputRecords("shop", (MAPPED,), ("shop",), 100, 60, 1_000)
    found = [
        records.entry(InputRecord(PLACE, at_ms, None, b'{"key": "k"}', ()))
        for at_ms in (253_370_764_800_000, 253_370_764_800_001)
    ]
    assert [one is None for one in found] == [False, True]


def test_a_command_that_no_record_has_room_for_is_left_out_with_a_word(caplog):
    def declaring(*numbers):
        value = {"op": "declare_queue", "queue": {"name": "q", "arguments": {"x": numbers}}}
        return a_command(json.dumps(value).encode(), ("dlx-op", b"declare_queue"))

    assert declaring(0.1) is not None
    assert declaring(*[0.1] * 200) is None

    [said] = caplog.messages
    assert "the command at offset 7 of commands, partition 1, is left out" in said
    assert "has room for 1000" in said


def test_a_record_whose_headers_outgrow_a_record_of_the_log_is_left_out_with_a_word(caplog):
    def mapped(count):
        value = json.dumps({"key": "k", "tenant": [1] * count}, separators=(",", ":")).encode()
        records = InputRecords("shop", (MAPPED,), ("shop",), 1_000, 1_000, 1_500)
        return records.entry(InputRecord(PLACE, 1_000, None, value, ()))

    assert mapped(100) is not None
    assert mapped(200) is None

    [said] = caplog.messages
    assert "the record at offset 9 of mapped, partition 0, is left out" in said
    assert "has room for 1500" in said


@pytest.mark.parametrize(
    ("value", "headers"),
    [
        (b"a body", [("dlx-vhost", b"shop"), ("dlx-routing-key", b"q")]),
        (b'{"op": "purge", "queue": "q"}', [("dlx-op", b"")]),
        (b'{"op": "purge", "queue": "q"}', [("dlx-op", b""), ("dlx-vhost", None)]),
        (b'{"op": "purge"}', [("dlx-vhost", b"shop"), ("dlx-op", b"")]),
        (b'{"op": "get", "queue": "q"}', [("dlx-vhost", b"shop"), ("dlx-op", None)]),
        (b'{"op": "tick"}', [("dlx-vhost", b"shop"), ("dlx-op", b"tick")]),
        (None, [("dlx-vhost", b"shop"), ("dlx-op", b"purge")]),
    ],
)
def test_what_is_for_others_or_not_copied_becomes_nothing(value, headers):
    assert entry_of(COMMAND, value, *headers) is None


def test_a_command_without_a_vhost_is_for_the_first_one():
    entry = entry_of(COMMAND, b'{"op": "purge", "queue": "q"}', ("dlx-op", b""), vhost="/")

    assert isinstance(entry, Ask)


@pytest.mark.parametrize(
    ("tenant", "kept"),
    [
        (b'{"$timestamp": -1}', "-1"),
        (b'{"$decimal": "1E-300"}', "1E-300"),
        (b'{"$decimal": "-1.5"}', "-1.5"),
    ],
)
def test_a_header_that_amqp_has_no_room_for_is_kept_as_text(tenant, kept):
    value = b'{"key": "k", "tenant": %s}' % tenant

    entry = entry_of(PLACE, value)

    assert isinstance(entry, Publish)
    assert read_properties(entry.stored.properties)["headers"]["tenant"] == kept


def test_a_mapped_record_becomes_a_message_with_its_headers():
    value = b'{"key": "k", "tenant": "a"}'
    headers = [("source", b"erp"), ("raw", b"\xff"), ("CC", b"x"), ("dlx-x", b"y"), ("ttl", b"50")]

    entry = entry_of(PLACE, value, *headers)

    assert isinstance(entry, Publish)
    assert (entry.actor, entry.source) == (Actor("bob", "kafka:pub"), PLACE)
    publication = entry.publication
    assert (publication.exchange, publication.routing_key, publication.expiration) == (
        *("orders", "k"),
        "50",
    )
    assert (entry.flags, entry.number, entry.stored.body) == (0, 0, value)
    assert read_properties(entry.stored.properties) == {
        "message_id": "mapped/9",
        "expiration": "50",
        "headers": {"source": "erp", "raw": b"\xff", "ttl": "50", "tenant": "a"},
    }
    assert entry.stored.headers == read_properties(entry.stored.properties)["headers"]


@pytest.mark.parametrize(("user", "seen"), [(b"bob", None), (b"eve", "eve")])
def test_the_broker_checks_the_user_of_a_message_who_is_not_that_of_the_input(user, seen):
    entry = entry_of(PLACE, b'{"key": "k"}', ("user", user))

    assert isinstance(entry, Publish)
    assert entry.publication.user_id == seen


@pytest.mark.parametrize(
    ("value", "headers"),
    [
        (b'{"key": "k"}', [("vhost", b"/")]),
        (b'{"key": "k"}', [("vhost", b"none")]),
        (b"{}", []),
        (None, []),
        (b'{"key": "k", "more": "%s"}' % (b"x" * 100), []),
        (b'{"key": "k"}', [("h", b"x" * 60)]),
    ],
)
def test_a_mapped_record_that_is_for_others_or_unfit_becomes_nothing(value, headers):
    assert entry_of(PLACE, value, *headers) is None


def test_messages_that_the_broker_sees_alike_share_their_publication():
    records = InputRecords("shop", (MAPPED,), ("shop",), 100, 60, 1_000)
    first, second, other = (
        records.entry(InputRecord(PLACE, 1, None, b'{"key": "%s"}' % key, ()))
        for key in (b"k", b"k", b"l")
    )

    assert isinstance(first, Publish)
    assert isinstance(second, Publish)
    assert isinstance(other, Publish)
    assert first.publication is second.publication
    assert first.publication is not other.publication


def a_version(key, *headers, body=b"new"):
    records = InputRecords("shop", (COMMANDS,), ("shop",), 100, 1_000, 1_000)
    given = (("dlx-vhost", b"shop"), ("dlx-routing-key", key), *headers)
    return records.entry(InputRecord(COMMAND, 1_000, None, body, given))


def test_a_version_of_a_letter_becomes_a_message():
    key = b"amq.dlx.version." + b"a" * 64
    entry = a_version(key, ("dlx-headers", b'{"n": 1}'), ("dlx-properties", b'{"user_id": "eve"}'))

    assert isinstance(entry, Publish)
    assert (entry.actor, entry.source) == (Actor("ann", "kafka:pub"), COMMAND)
    assert (entry.publication.exchange, entry.publication.routing_key.encode()) == ("", key)
    assert (entry.publication.user_id, entry.stored.body) == ("eve", b"new")
    assert read_properties(entry.stored.properties) == {"user_id": "eve", "headers": {"n": 1}}


@pytest.mark.parametrize(
    ("key", "headers", "body"),
    [
        (b"work", [], b"new"),
        (b"amq.dlx.version." + b"0" * 64, [], b"new"),
        (b"amq.dlx.version." + b"a" * 64, [], None),
        (b"amq.dlx.version." + b"a" * 64, [], b"x" * 101),
        (b"amq.dlx.version." + b"a" * 64, [("dlx-headers", b"1")], b"new"),
    ],
)
def test_other_publishes_of_kafka_clients_become_nothing(key, headers, body):
    assert a_version(key, *headers, body=body) is None
