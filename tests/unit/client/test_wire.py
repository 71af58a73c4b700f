"""Records to and from Kafka, as docs/wire-format.md describes them."""

from datetime import UTC, datetime
from typing import Any

import pytest

from streaming.client import ClientError, Death
from streaming.client._wire import (
    Repeats,
    arguments_document,
    check_size,
    command_record,
    delivery_of,
    inbound,
    publish_record,
)


def a_record(**options):
    arguments = {
        "body": b"b",
        "vhost": "/",
        "channel": "p",
        "exchange": "e",
        "routing_key": "k",
        "properties": None,
        "headers": None,
        "flags": "confirm",
        "kafka_headers": (),
        "record_key": None,
        **options,
    }
    return publish_record(**arguments)


def test_a_publish_has_the_headers_of_the_wire_page():
    record = a_record(
        properties={"priority": 1}, headers={"h": b"x"}, kafka_headers=[("t", b"1"), ("t", b"2")]
    )

    assert record.headers == [
        ("dlx-vhost", b"/"),
        ("dlx-exchange", b"e"),
        ("dlx-routing-key", b"k"),
        ("dlx-properties", b'{"priority":1}'),
        ("dlx-headers", b'{"h":{"$bytes":"eA=="}}'),
        ("dlx-flags", b"confirm"),
        ("dlx-channel", b"p"),
        ("t", b"1"),
        ("t", b"2"),
    ]


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"exchange": "x" * 256}, "dlx-exchange has 256 bytes"),
        ({"properties": {"priority": "1"}}, "dlx-properties.priority: expected a whole number"),
        ({"headers": {"when": datetime(2026, 1, 1, tzinfo=UTC)}}, "not JSON serializable"),
        ({"headers": {"i": 2**63}}, "is a number beyond 64 bits"),
        ({"body": None}, "the body must be bytes or text, not NoneType"),
        ({"body": 7}, "the body must be bytes or text, not int"),
        ({"body": "\ud800"}, "cannot be encoded as UTF-8"),
        ({"exchange": None}, "the exchange must be text, not NoneType"),
        ({"routing_key": 7}, "the routing key must be text, not int"),
        ({"routing_key": "\ud800"}, "surrogates not allowed"),
    ],
)
def test_a_publish_that_the_job_could_not_read_is_refused(options, what):
    with pytest.raises(ClientError, match=what):
        a_record(**options)


@pytest.mark.parametrize(
    ("members", "what"), [({"queue": "\ud800"}, "surrogates not"), ({"refs": {1}}, "not JSON")]
)
def test_a_command_that_cannot_be_encoded_is_refused(members, what):
    with pytest.raises(ClientError, match=f"the command get cannot be sent: .*{what}"):
        command_record({"op": "get", **members}, "/", "c")


def test_arguments_that_are_not_a_table_are_refused():
    pairs: Any = [("x-max-length", 1)]
    with pytest.raises(ClientError, match="not a valid AMQP table"):
        arguments_document(pairs)


def test_a_table_may_hold_tuples_for_arrays():
    assert arguments_document({"CC": ("a", "b"), "n": 1 - 2**63}) == {
        "CC": ("a", "b"),
        "n": 1 - 2**63,
    }


@pytest.mark.parametrize("body", ["é", bytearray("é", "utf-8"), memoryview("é".encode())])
def test_a_body_may_be_any_bytes_or_text(body):
    assert a_record(body=body).value == b"\xc3\xa9"


def test_a_publish_larger_than_the_job_accepts_is_refused():
    check_size(a_record(body=b"abc"), 3, 70)

    with pytest.raises(ClientError, match=r"its body has 4 bytes, .* flow\.max_body_bytes is 3"):
        check_size(a_record(body=b"abcd"), 3, 70)
    with pytest.raises(ClientError, match=r"its headers have 1\d\d bytes, .*max_header_bytes is"):
        check_size(a_record(kafka_headers=[("é" * 30, None)]), 3, 70)


def test_a_delivery_is_read_with_its_deaths():
    death = (
        '{"count":2,"reason":"expired","queue":"q","time":{"$timestamp":1700000000},'
        '"exchange":"e","routing-keys":["k","cc"],"original-expiration":"5"}'
    )
    record = inbound(
        b"body",
        [
            ("dlx-kind", b"delivery"),
            ("dlx-channel", b"c"),
            ("dlx-queue", b"work"),
            ("dlx-delivery-id", b"1.0.3"),
            ("dlx-redelivered", b"true"),
            ("dlx-delivery-count", b"4"),
            ("dlx-headers", f'{{"x-death":[{death}]}}'.encode()),
            ("traceparent", b"00"),
            ("nothing", None),
        ],
    )

    delivery = delivery_of(record, "tag")

    assert (delivery.queue, delivery.delivery_id, delivery.consumer_tag) == ("work", "1.0.3", "tag")
    assert (delivery.redelivered, delivery.delivery_count) == (True, 4)
    assert delivery.kafka_headers == (("traceparent", b"00"), ("nothing", None))
    assert delivery.x_death == [
        Death("q", "expired", 2, "e", ("k", "cc"), datetime.fromtimestamp(1_700_000_000, UTC), "5")
    ]


def test_repeats_are_dropped_by_partition_vhost_and_lane():
    repeats = Repeats()
    headers = {"dlx-vhost": b"/", "dlx-lane": b"0"}

    seen = [
        repeats.is_new(partition, {**headers, **more, "dlx-seq": seq})
        for partition, more, seq in (
            (0, {}, b"4"),
            (0, {}, b"5"),
            (0, {}, b"4"),
            (0, {"dlx-lane": b"1"}, b"4"),
            (1, {}, b"4"),
        )
    ]

    assert seen == [True, True, False, True, True]
    assert repeats.is_new(0, headers)
