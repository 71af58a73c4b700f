"""The complete history of a message."""

import pytest

from streaming.queries.duckdb_tables import QueryError
from streaming.queries.message_history import history_of


def steps_of(life):
    return [
        (event["seq"], event["kind"], event["copy_id"], event["queue"]) for event in life.events
    ]


def test_the_history_of_a_rejected_message_has_every_step(shop):
    life = history_of(shop, "0/0/0")

    assert steps_of(life) == [
        (10, "enqueued", 10, "billing"),
        (13, "delivered", 10, "billing"),
        (15, "died", 10, "billing"),
        (16, "enqueued", 16, "dead"),
        (20, "consumed", 16, "dead"),
    ]
    assert (life.message_id, life.now, list(life.deaths)) == ("0/0/0", {}, [15])
    assert life.deaths[15]["targets"] == ["dead"]
    assert life.message is not None
    assert {
        name: life.message[name] for name in ("exchange", "routing_key", "body", "headers")
    } == {
        "exchange": "orders",
        "routing_key": "bill.eu",
        "body": "order 0",
        "headers": {"tenant": "acme", "n": 1},
    }


@pytest.mark.parametrize(
    ("name", "now"),
    [
        ("0/0/2", {19: "ready"}),
        ("0/0/5", {23: "unacked"}),
        ("0/0/6", {25: "ready"}),
        ("0/0/8", {}),
    ],
)
def test_a_history_ends_with_the_messages_current_place(shop, name, now):
    assert history_of(shop, name).now == now


def test_an_unroutable_message_has_a_history(shop):
    assert steps_of(history_of(shop, "0/0/3")) == [(21, "unroutable", None, None)]
    assert steps_of(history_of(shop, "0/0/4")) == [(22, "publish_error", None, None)]


def test_a_message_can_be_found_by_its_message_id_property(shop):
    assert history_of(shop, "first").message_id == "0/0/0"


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("same", "several messages have message_id 'same': 0/0/2, 0/0/5"),
        ("nobody", "no message 'nobody'"),
        ("0/0/99", "partition 0 of topic number 0 has none at offset 99"),
        ("9/0/0", "partition 0 of topic number 9 has none at offset 0"),
    ],
)
def test_an_unknown_message_id_is_refused(shop, name, reason):
    with pytest.raises(QueryError, match=reason):
        history_of(shop, name)
