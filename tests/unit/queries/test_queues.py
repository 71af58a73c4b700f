"""The contents of queues at the last batch."""

import pytest

from streaming.broker import commands
from streaming.contents.updater import ContentsUpdater
from streaming.queries.duckdb_tables import QueryError, Tables
from streaming.queries.queues import QueueBytes, QueueDepth, largest_queues, list_queues, peek
from tests.builders import Broker
from tests.unit.queries.recording import Recording

AT_0, AT_1, AT_2 = (f"2020-09-13T12:26:4{second}Z" for second in ("0.000", "0.500", "1.000"))


def test_every_queue_is_listed_with_its_contents(shop):
    assert list_queues(shop) == [
        QueueDepth("/", "billing", "classic", 1, 1, 14, AT_2, 7),
        QueueDepth("/", "box", "classic", 1, 0, 7, AT_2, 7),
        QueueDepth("/", "dead", "classic", 1, 0, 16, AT_1, 16),
        QueueDepth("/", "mail", "classic", 0, 0, 0, None),
    ]
    assert list_queues(shop, "other") == []


def test_queues_are_current_even_if_the_contents_are_outdated(tmp_path):
    broker = Broker()
    recording = Recording(tmp_path, broker)
    broker.queue("work")
    broker.queue("gone")
    broker.publish("", "work", "order 0")
    broker.publish("", "work", "order 1")
    recording.commit()
    ContentsUpdater(recording.place).update()
    broker.get("work", "g", 1, channel="clerk")
    broker.publish("", "work", "order 2")
    broker.do(commands.DeleteQueue(queue="gone"))
    recording.commit()
    tables = Tables(str(tmp_path))

    assert list_queues(tables) == [QueueDepth("/", "work", "classic", 2, 1, 21, AT_0, 14)]
    assert [row["body"] for row in peek(tables, "work")] == ["order 1", "order 2"]
    assert [row["body"] for row in peek(tables, "work", unacked=True)] == ["order 0"]


def test_the_largest_queues_come_first(shop):
    assert largest_queues(shop, 2) == [
        QueueBytes("/", "dead", 1, 16),
        QueueBytes("/", "billing", 2, 14),
    ]


def test_peek_shows_the_head_with_bodies(shop):
    rows = peek(shop, "dead")

    assert [
        {name: row[name] for name in ("message_id", "copy_id", "enqueued_at", "body", "properties")}
        for row in rows
    ] == [
        {
            "message_id": "0/0/2",
            "copy_id": 19,
            "enqueued_at": AT_1,
            "body": "order 2 \x07é\nline",
            "properties": {"message_id": "same"},
        }
    ]


def test_peek_obeys_its_limit_and_the_queues_order(tmp_path):
    """A requeued message keeps its position."""
    broker = Broker()
    recording = Recording(tmp_path, broker)
    broker.queue("work")
    for number in range(6):
        broker.publish("", "work", f"order {number}")
    broker.get("work", "g", 3)
    broker.reject("g/1", requeue=True)
    recording.commit()
    for up_to_date in (False, True):
        if up_to_date:
            ContentsUpdater(recording.place).update()
        tables = Tables(str(tmp_path))

        assert [row["body"] for row in peek(tables, "work", limit=2)] == ["order 1", "order 3"]
        assert [row["returns"] for row in peek(tables, "work", limit=2)] == [1, 0]


def test_peek_shows_the_order_of_a_queue_with_priorities(tmp_path):
    broker = Broker()
    recording = Recording(tmp_path, broker)
    broker.queue("work", max_priority=3)
    for number, priority in enumerate((None, 9, 1, 3, 0)):
        broker.publish("", "work", f"order {number}", priority=priority)
    recording.commit()
    tables = Tables(str(tmp_path))

    shown = [row["body"] for row in peek(tables, "work")]

    assert shown == [f"order {number}" for number in (1, 3, 2, 0, 4)]
    assert [row["body"] for row in peek(tables, "work", limit=2)] == shown[:2]
    assert broker.drain("work") == shown


def test_an_unknown_queue_is_refused_with_a_suggestion(shop):
    with pytest.raises(QueryError, match=r"no queue 'biling' \(did you mean 'billing'\?\)"):
        peek(shop, "biling")
    with pytest.raises(QueryError, match="no queue 'billing' in vhost 'other'"):
        peek(shop, "billing", vhost="other")


def test_a_queue_name_in_several_vhosts_needs_the_vhost(tmp_path):
    brokers = [Broker(vhost="a"), Broker(vhost="b")]
    recording = Recording(tmp_path, *brokers)
    for broker in brokers:
        broker.queue("work")
    recording.commit()
    tables = Tables(str(tmp_path))

    with pytest.raises(QueryError, match="several vhosts have a queue 'work': 'a', 'b'"):
        peek(tables, "work")
    assert peek(tables, "work", vhost="b") == []
