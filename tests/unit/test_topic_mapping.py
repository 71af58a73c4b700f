"""Records of mapped topics: what a mapping makes of them, and why it quarantines some."""

import msgspec
import pytest

from streaming.config import (
    JsonValue,
    RecordField,
    RecordHeader,
    RecordKey,
    Template,
    TopicMapping,
)
from streaming.protocol.record_headers import MalformedRecordError
from streaming.topic_mapping import (
    MappedRecord,
    TopicMapper,
    body_document,
)
from topology.values import Timestamp, table_from_json

BODY = b"""{"type": "created", "at": 1763820219, "total": 19.5, "n": 3, "paid": true, "none": null,
  "customer": {"country": "eu", "full name": "Ada", "tags": ["vip", "new"]},
  "x": {"$timestamp": 5}}"""
MINUTE = "2025-11-22T14:03:39"
AT_S = 1_763_820_219


def record(key=b"k1", headers=(("type", b"paid"),), body=BODY, at_ms=AT_S * 1000 + 250):
    return MappedRecord(key, tuple(headers), body_document(body), 2, 42, at_ms)


def mapper(max_header_bytes=16_384, **settings):
    mapping = TopicMapping(**{"exchange": "orders", **settings})
    return TopicMapper("orders", mapping, {"/", "shop"}, max_header_bytes)


def routing_key(selector, **parts):
    return mapper(routing_key=selector).publish(record(**parts)).routing_key


def fault(settings, max_header_bytes=16_384, **parts):
    with pytest.raises(MalformedRecordError) as caught:
        mapper(max_header_bytes, **settings).publish(record(**parts))
    return caught.value.cause, caught.value.detail


@pytest.mark.parametrize(
    ("selector", "value"),
    [
        ("literal", "literal"),
        ("{{x}}", "{x}"),
        ("order.{header.type}", "order.paid"),
        ("{key}/{record.topic}/{record.partition}/{record.offset}", "k1/orders/2/42"),
        ("{record.timestamp}", "1763820219250"),
        ("{json.$.customer.country}.{json.type}", "eu.created"),
        ("{{{json.n}}}", "{3}"),
        (RecordKey(), "k1"),
        (RecordHeader("type"), "paid"),
        (JsonValue("$.type"), "created"),
        (JsonValue("$.customer['full name']"), "Ada"),
        (JsonValue('$["customer"].tags[0]'), "vip"),
        (JsonValue("$.customer.tags[-1]"), "new"),
        (JsonValue("$.total"), "19.5"),
        (JsonValue("$.n"), "3"),
        (JsonValue("$.paid"), "true"),
        (RecordField("offset"), "42"),
        (JsonValue("$.absent", otherwise="none"), "none"),
        (JsonValue("$.none", otherwise="null is missing"), "null is missing"),
        (JsonValue("$.type.deeper", otherwise="none"), "none"),
        (JsonValue("$.customer.tags[2]", otherwise="none"), "none"),
        (RecordHeader("absent", otherwise="none"), "none"),
        (Template("{header.absent}.{key}", otherwise="none"), "none"),
        (Template("{header.type}.{key}", otherwise="none"), "paid.k1"),
    ],
)
def test_a_selector_finds_its_value(selector, value):
    assert routing_key(selector) == value


def test_a_repeated_header_has_its_last_value():
    foreign = (("type", b"old"), ("type", b"new"), ("trace", b"\xff"))

    mapped = mapper(routing_key=RecordHeader("type")).publish(record(headers=foreign))

    assert mapped.routing_key == "new"


@pytest.mark.parametrize("body", [b"<xml/>", b"", None])
def test_a_body_that_is_not_json_counts_as_missing_its_values(body):
    assert routing_key(JsonValue("$.type", otherwise="none"), body=body) == "none"


@pytest.mark.parametrize(
    ("selector", "parts", "cause", "detail"),
    [
        (
            RecordHeader("nosuch"),
            {},
            "unmapped",
            "header 'nosuch', from which inputs.orders.mapping.routing_key is made, is missing",
        ),
        (
            RecordKey(),
            {"key": None},
            "unmapped",
            "the record key, from which inputs.orders.mapping.routing_key is made, is missing",
        ),
        (
            JsonValue("$.nosuch"),
            {},
            "unmapped",
            "$.nosuch of the body, from which inputs.orders.mapping.routing_key is made, is "
            "missing",
        ),
        (
            "{json.$.nosuch}.{key}",
            {},
            "unmapped",
            "$.nosuch of the body, from which inputs.orders.mapping.routing_key is made, is "
            "missing",
        ),
        (
            JsonValue("$.customer"),
            {},
            "wrong_type",
            "$.customer of the body, from which inputs.orders.mapping.routing_key is made, is an "
            "object, not a text",
        ),
        (
            RecordHeader("type"),
            {"headers": (("type", b"x" * 256),)},
            "header_too_long",
            "header 'type', from which inputs.orders.mapping.routing_key is made, has 256 bytes, "
            "more than 255",
        ),
        (
            "{header.type}{header.type}",
            {"headers": (("type", b"x" * 200),)},
            "header_too_long",
            "inputs.orders.mapping.routing_key has 400 bytes, more than 255",
        ),
        (
            RecordField("timestamp"),
            {"at_ms": -1},
            "unmapped",
            "the record's timestamp, from which inputs.orders.mapping.routing_key is made, is "
            "missing",
        ),
    ],
)
def test_a_fault_names_the_part_of_the_record_and_the_users_setting(selector, parts, cause, detail):
    assert fault({"routing_key": selector}, **parts) == (cause, detail)


@pytest.mark.parametrize(
    ("settings", "parts", "cause", "words"),
    [
        ({"routing_key": RecordKey()}, {"key": b"\xff"}, "not_utf8", "the record key"),
        ({"routing_key": "{json.a}"}, {"body": b"{"}, "bad_json", "the body is not JSON"),
        ({"vhost": RecordHeader("type")}, {}, "unlisted_vhost", "'paid', and this job has no such"),
        ({"priority": JsonValue("$.type")}, {}, "wrong_type", "mapping.priority is made"),
        ({"priority": JsonValue("$.at")}, {}, "out_of_range", "from 0 to 255"),
        ({"timestamp": JsonValue("$.type")}, {}, "wrong_type", "mapping.timestamp is made"),
        ({"message_id": RecordHeader("no")}, {}, "unmapped", "mapping.message_id is made"),
        ({"headers": {"a b": RecordHeader("no")}}, {}, "unmapped", 'mapping.headers."a b" is made'),
        (
            {"headers": {"a": JsonValue("$.x")}},
            {"body": b'{"x": {"$bytes": 1}}'},
            "wrong_type",
            "$",
        ),
    ],
)
def test_every_setting_has_its_faults(settings, parts, cause, words):
    found, detail = fault(settings, **parts)

    assert found == cause
    assert words in detail
    assert "dlx-" not in detail


def test_a_topic_whose_name_has_dots_is_quoted():
    mapping = TopicMapping(exchange=RecordKey())

    with pytest.raises(MalformedRecordError) as caught:
        TopicMapper("shop.orders", mapping, {"/"}, 9).publish(record(key=None))

    assert 'inputs."shop.orders".mapping.exchange' in caught.value.detail


def test_properties_and_headers_have_the_types_of_amqp():
    mapped = mapper(
        vhost="shop",
        message_id="{record.topic}/{record.offset}",
        content_type="application/json",
        priority=JsonValue("$.n"),
        delivery_mode=2,
        timestamp=JsonValue("$.at"),
        headers={
            "text": RecordHeader("type"),
            "bytes": RecordHeader("raw"),
            "number": JsonValue("$.n"),
            "list": JsonValue("$.customer.tags"),
            "time": JsonValue("$.x"),
            "flag": True,
            "left out": RecordHeader("no", optional=True),
        },
    ).publish(record(headers=(("type", b"paid"), ("raw", b"\xff"))))

    assert mapped.vhost == "shop"
    assert dict(mapped.properties) == {
        "content_type": "application/json",
        "delivery_mode": 2,
        "priority": 3,
        "message_id": "orders/42",
        "timestamp": AT_S,
    }
    assert table_from_json(msgspec.json.decode(mapped.headers)) == {
        "text": "paid",
        "bytes": b"\xff",
        "number": 3,
        "list": ["vip", "new"],
        "time": Timestamp(5),
        "flag": True,
    }


def test_without_properties_and_headers_there_are_none():
    mapped = mapper().publish(record(headers=()))

    assert (mapped.properties, mapped.headers) == ((), None)


@pytest.mark.parametrize(
    ("value", "unit"),
    [
        (AT_S, "s"),
        (AT_S + 0.75, "s"),
        (str(AT_S), "s"),
        (f"{AT_S}.9", "s"),
        (AT_S * 1000 + 999, "ms"),
        (f"{AT_S}999", "ms"),
        (f"{MINUTE}Z", "s"),
        (f"{MINUTE}.5+00:00", "ms"),
        (MINUTE, "s"),
        ("2025-11-22T15:03:39+01:00", "s"),
    ],
)
def test_a_time_is_a_number_or_iso_8601(value, unit):
    body = msgspec.json.encode({"at": value})
    mapped = mapper(timestamp=JsonValue("$.at", unit=unit)).publish(record(body=body))

    assert mapped.properties == (("timestamp", AT_S),)


def test_the_records_own_timestamp_becomes_seconds():
    mapped = mapper(timestamp=RecordField("timestamp")).publish(record())

    assert mapped.properties == (("timestamp", AT_S),)


def test_what_is_optional_is_left_out():
    mapped = mapper(message_id=RecordHeader("no", optional=True)).publish(record())

    assert mapped.properties == ()


def test_headers_that_the_mapping_makes_count_towards_the_limit():
    body = msgspec.json.encode({"big": "x" * 2000})
    settings = {"headers": {"big": JsonValue("$.big")}}

    cause, detail = fault(settings, max_header_bytes=1024, body=body)

    assert cause == "headers_too_large"
    assert "inputs.orders.mapping.headers" in detail
