"""Deliveries of messages that were too large for their topic."""

from streaming.client._wire import delivery_of, inbound

HEADERS = [
    ("dlx-kind", b"delivery"),
    ("dlx-channel", b"c"),
    ("dlx-exchange", b""),
    ("dlx-routing-key", b"work"),
    ("dlx-delivery-id", b"1.7"),
]
CUT = [
    ("dlx-left-out", b'{"body": 5000000, "x-death": 3}'),
    ("dlx-topic-number", b"1"),
    ("dlx-partition", b"0"),
    ("dlx-offset", b"42"),
]


def test_a_truncated_delivery_names_the_missing_parts_and_its_origin():
    delivery = delivery_of(inbound(b"", HEADERS + CUT), "tag")

    assert delivery.truncated == {"body": 5_000_000, "x-death": 3}
    assert delivery.origin == (1, 0, 42)


def test_a_complete_delivery_is_not_truncated():
    delivery = delivery_of(inbound(b"body", HEADERS), "tag")

    assert (delivery.truncated, delivery.origin) == ({}, None)
