"""The overview counts queues, channels, consumers and copies."""

from streaming.broker.overview import QueueOverview
from tests.builders import START_MS, Broker

RING = (0.0, True, False, False)
"""What a queue without arguments does at a limit: it would drop its head, and nobody takes it."""


def test_an_overview_says_how_full_a_queue_is_and_what_becomes_of_the_rest():
    broker = Broker()
    broker.queue("short", max_length=4, max_length_bytes=1_000, message_ttl=1_000)
    broker.queue("small", max_length=100, max_length_bytes=10, dead_letter_exchange="")
    broker.queue("none", max_length=0, overflow="reject-publish")
    for _ in range(3):
        broker.publish("", "short", "a")
        broker.publish("", "small", "abc")

    queues = broker.shard.overview().queues

    assert [(one.name, *one[-4:]) for one in queues.values()] == [
        ("none", 0.0, False, False, False),
        ("short", 0.75, True, True, False),
        ("small", 0.9, True, False, True),
    ]


def test_an_overview_counts_consumers_and_copies_by_place():
    broker = Broker(dead_letter_retry_ms=1_000, consumer_timeout_ms=None)
    broker.exchange("x")
    broker.queue("plain")
    broker.quorum(
        "safe",
        dead_letter_exchange="nowhere",
        dead_letter_strategy="at-least-once",
        overflow="reject-publish",
    )
    for body in ("a", "bb", "ccc"):
        broker.publish("", "plain", body)
    broker.consume("plain", "c", prefetch=2)
    broker.publish("", "safe", "dddd")
    broker.get("safe", "g")
    broker.reject("g/0")
    broker.queue("idle")
    broker.consume("idle", "d", channel="c1")
    broker.at(250)

    overview = broker.shard.overview()

    assert overview.queues == {
        "idle": QueueOverview("idle", "classic", 0, 0, 0, 0, 0, 0, 1, 1, False, *RING),
        "plain": QueueOverview("plain", "classic", 1, 3, 2, 3, 0, 0, 1, 0, False, *RING),
        "safe": QueueOverview("safe", "quorum", 0, 0, 0, 0, 1, 4, 0, 0, paused=False),
    }
    assert (overview.resident_messages, overview.resident_bytes) == (4, 10)
    assert overview.channels == 2
    assert overview.now_ms == START_MS + 250
    assert overview.next_deadline_ms == START_MS + 1_000
    assert overview.next_seq == broker.everything()[-1].seq + 1

    batch = broker.finish()

    assert (batch.resident_messages, batch.resident_bytes) == (4, 10)
    assert batch.next_deadline_ms == overview.next_deadline_ms


def test_every_change_of_the_vhost_is_a_new_version():
    broker = Broker()
    versions = [broker.shard.vhost.version]
    exchanges = broker.shard.overview().exchanges

    broker.exchange("x")
    versions.append(broker.shard.vhost.version)
    broker.exchange("x")
    unchanged = broker.shard.vhost.version
    broker.policy("p", "", {"max-length": 1})
    versions.append(broker.shard.vhost.version)

    assert versions == sorted(set(versions))
    assert unchanged == versions[1]
    assert broker.shard.overview().exchanges == exchanges + 1


def test_a_batch_tells_its_clients_and_whether_they_changed():
    broker = Broker()
    broker.queue("q")
    broker.consume("q", "a", channel="c1", user="bob")
    broker.consume("q", "b", channel="c2", user="ann")

    first = broker.finish().overview
    assert first.channels.has_changed
    assert first.clients() == (2, ["bob", "ann"])
    assert not broker.finish().overview.channels.has_changed
