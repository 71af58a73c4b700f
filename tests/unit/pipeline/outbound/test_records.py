"""Deliveries and confirms: what their records hold, however they are made."""

import json
from types import SimpleNamespace
from typing import Any, NamedTuple

import pyarrow as pa
import pytest

from streaming.broker.config import ShardConfig
from streaming.broker.events import Actor
from streaming.broker.message import NEVER, NO_COPY, Copy, Death, DeathNote, Envelope, Message
from streaming.broker.outbound import ConfirmOut, DeliveryOut, Outbound
from streaming.pipeline.outbound.records import OutboundRecords
from streaming.pipeline.rows.amqp_columns import headers_json, properties_array, table_bytes
from streaming.protocol.amqp_properties import PROPERTIES
from streaming.protocol.record_headers import delivered_headers
from topology.values import Timestamp

ACTOR = Actor("guest", "c0")
FOREIGN = [("traceparent", b"00-1"), ("dlx-odd", b"mapped"), ("traceparent", b"00-2"), ("n", None)]
DEATH = Death(1, "expired", "work", 1_700_000_000, "orders", ("key",))
NOTE = DeathNote("expired", "work", "orders")


class Stored:
    """The rows of the messages, in the order of their offsets.

    Args:
        foreign: the Kafka headers of each.
        published: properties and headers of each; by default none.
    """

    def __init__(
        self,
        foreign: list[list[tuple[str, bytes | None]] | None],
        published: Any = None,
    ) -> None:
        published = published or [({}, None)] * len(foreign)
        kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
        rows = [
            None if one is None else [{"key": key, "value": value} for key, value in one]
            for one in foreign
        ]
        bodies = [b"body %d" % number for number in range(len(rows))]
        properties = {name: [one.get(name) for one, _headers in published] for name in PROPERTIES}
        headers = [headers_json(one) for _properties, one in published]
        self._table = pa.table(
            {
                "body": pa.array(bodies, pa.binary()),
                "properties": properties_array(properties, len(rows)),
                "headers": pa.array(headers, pa.string()),
                "kafka_headers": pa.array(rows, kind),
            }
        )

    def read(self, places: Any) -> pa.Table:
        return self._table.take(pa.array(places.offsets))


class Record(NamedTuple):
    value: bytes
    headers: list[tuple[str, bytes | None]]
    truncated: Any


def records_of(outs: list[Outbound], stored: Stored, room: int, **config: Any) -> list[Record]:
    settings: Any = SimpleNamespace(outbound=SimpleNamespace(record_bytes=room), max_header_bytes=0)
    batch: Any = SimpleNamespace(
        outbound=outs, events=SimpleNamespace(first_seq=0), first_outbound=7
    )
    bodies: Any = stored
    context: Any = SimpleNamespace(query_id="q")
    records = OutboundRecords(settings, ShardConfig(**config), context)
    return [Record(*record) for _out, record in records.of(batch, bodies)]


def a_delivery(offset: int, envelope: Envelope, **changed: Any) -> DeliveryOut:
    copy = Copy(40 + offset, Message(1, 0, offset, 3, offset, 6), envelope, 0, NEVER, NO_COPY)
    fields = {
        "row": 0,
        "actor": ACTOR,
        "label": "worker",
        "label_number": offset,
        "consumer_id": "1.2",
        "number": offset,
        "queue": "work",
        "copy": copy,
        "requeue_count": 0,
        "failures": 0,
        "quorum": False,
        "consumer_number": 2,
        "tag": 1,
    }
    return DeliveryOut(**{**fields, **changed})


ENVELOPES = [
    Envelope("", ("work",)),
    Envelope("orders", ("key",)),
    Envelope("orders", ("key",), expiration="60"),
    Envelope("dlx", ("k",), deaths=(DEATH,), first_death=NOTE, last_death=NOTE),
]
PLAIN = ({"message_id": "é1", "priority": 3}, {"n": 1, "t": None})
PUBLISHED = [
    ({}, None),
    PLAIN,
    ({"timestamp": 5, "expiration": "060"}, {"when": Timestamp(9), "raw": b"\x00"}),
    *[PLAIN] * 4,
]
DELIVERIES = [
    a_delivery(0, ENVELOPES[0]),
    a_delivery(1, ENVELOPES[1]),
    a_delivery(2, ENVELOPES[2]),
    a_delivery(3, ENVELOPES[3], consumer_id=""),
    a_delivery(4, ENVELOPES[1], requeue_count=2),
    a_delivery(5, ENVELOPES[1], quorum=True, failures=1),
    a_delivery(6, ENVELOPES[1], quorum=True, consumer_number=0, label=""),
]


@pytest.mark.parametrize("compat", ["3.10", "4.0"])
@pytest.mark.parametrize("foreign", [None, FOREIGN])
def test_a_delivery_near_the_limit_has_the_same_record_as_one_far_below(compat, foreign):
    stored = Stored([foreign] * len(DELIVERIES), PUBLISHED)

    near = records_of([*DELIVERIES], stored, 4_000, compat=compat)

    assert near == records_of([*DELIVERIES], stored, 1_000_000, compat=compat)
    assert not any(record.truncated for record in near)


def test_the_headers_of_a_delivery_describe_it():
    stored = Stored([FOREIGN] * len(DELIVERIES), PUBLISHED)

    record = records_of([*DELIVERIES], stored, 1_000_000, lane=3)[4]

    assert record.value == b"body 4"
    assert record.headers[:3] == [FOREIGN[0], FOREIGN[2], FOREIGN[3]]
    named = dict(record.headers[3:])
    assert json.loads(named.pop("dlx-properties") or b"") == {"message_id": "é1", "priority": 3}
    assert json.loads(named.pop("dlx-headers") or b"") == {"n": 1, "t": None}
    assert named == {
        "dlx-kind": b"delivery",
        "dlx-vhost": b"/",
        "dlx-lane": b"3",
        "dlx-seq": b"11",
        "dlx-channel": b"c0",
        "dlx-exchange": b"orders",
        "dlx-routing-key": b"key",
        "dlx-queue": b"work",
        "dlx-ref": b"worker/4@3",
        "dlx-delivery-id": b"1.2.4@3",
        "dlx-redelivered": b"true",
        "dlx-copy-id": b"44",
        "dlx-delivery-count": b"2",
    }


@pytest.mark.parametrize(
    "headers",
    [None, {}, {"n": 1}, {"x-death": "mine", "n": 1}, {"x-delivery-count": 9}, {"BCC": ["a"]}],
)
@pytest.mark.parametrize("changed", [{}, {"requeue_count": 2, "quorum": True}])
@pytest.mark.parametrize(
    "envelope",
    [
        Envelope("dlx", ("k",), dropped=("BCC",)),
        Envelope("dlx", ("k",), deaths=(DEATH,), first_death=NOTE),
        Envelope("dlx", ("k",), deaths=(DEATH,), added={"x-redrive-id": "r", "n": 2}),
    ],
)
def test_headers_that_the_broker_adds_replace_published_ones(headers, changed, envelope):
    delivery = a_delivery(0, envelope, **changed)

    [record] = records_of([delivery], Stored([None], [({}, headers)]), 1_000_000)

    expected = delivered_headers(delivery, headers, "4.0")
    text = dict(record.headers).get("dlx-headers")
    assert text == (None if expected is None else table_bytes(expected))


@pytest.mark.parametrize("ack", [True, False])
def test_a_confirm_names_the_record_of_the_publish(ack):
    out = ConfirmOut(0, ACTOR, Message(1, 2, 3, 0, 0, 0), ack)

    [record] = records_of([out], Stored([]), 1_000_000)

    assert json.loads(record.value) == {"ack": ack, "topic_number": 1, "partition": 2, "offset": 3}
    assert dict(record.headers)["dlx-kind"] == b"confirm"
