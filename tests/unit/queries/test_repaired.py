"""Since when nothing dies any more, and after what: only if messages were taken since."""

from datetime import UTC, datetime, timedelta

import pytest

from streaming.broker import commands
from streaming.queries.duckdb_tables import Tables
from streaming.queries.life.what_died import what_died
from streaming.queries.vhosts.declared import topology_log
from tests.builders import START_MS, Broker
from tests.unit.queries.recording import Recording

MINUTE_MS = 60_000


def at(minutes):
    return datetime.fromtimestamp(START_MS / 1000, UTC) + timedelta(minutes=minutes)


@pytest.fixture
def broken(tmp_path):
    """In minute 1 a release rejects two orders, and a mail expires without a consumer."""
    broker = Broker()
    recording = Recording(tmp_path, broker)
    letters = {"dead_letter_exchange": "", "dead_letter_routing_key": "parked"}
    broker.queue("parked")
    broker.queue("orders", **letters)
    broker.queue("mail", message_ttl=500, **letters)
    deployed(broker, "2.0")
    broker.at(MINUTE_MS)
    for _ in range(2):
        broker.publish("", "orders", "order")
    broker.reject(*(one.ref for one in broker.get("orders", "bad", 2)))
    broker.publish("", "mail", "slow")
    broker.at(2 * MINUTE_MS)
    return recording


def deployed(broker, version):
    broker.do(commands.Deployed(service="worker", version=version, queues=("orders",)))


def taken(broker, queue, label, count):
    for _ in range(count):
        broker.publish("", queue, "later")
    for one in broker.get(queue, label, count):
        broker.ack(one.ref)


def repairs(recording, end):
    recording.commit()
    with Tables(recording.root) as tables:
        declared = topology_log(tables).replayed()
        found = what_died(tables, declared, end, timedelta(hours=1))
        return {one.queue: one.repair for one in found}


def test_a_release_after_which_messages_are_taken_has_repaired_its_queue(broken):
    [broker] = broken.brokers
    deployed(broker, "1.9")
    broker.at(3 * MINUTE_MS)
    taken(broker, "orders", "good", 3)

    found = repairs(broken, at(5))

    assert found["mail"] is None
    repair = found["orders"]
    assert repair is not None
    assert (repair.change.name, repair.taken) == ("worker 1.9", 3)
    assert datetime.fromisoformat(repair.at) == at(2)


def test_a_release_at_the_instant_of_the_last_death_has_repaired_its_queue(broken):
    """It broke nothing: what died then died before it."""
    [broker] = broken.brokers
    broker.publish("", "orders", "late")
    broker.reject(*(one.ref for one in broker.get("orders", "last", 1)))
    deployed(broker, "1.9")
    broker.at(3 * MINUTE_MS)
    taken(broker, "orders", "good", 3)

    repair = repairs(broken, at(5))["orders"]

    assert repair is not None
    assert (repair.change.name, repair.taken) == ("worker 1.9", 3)


def test_a_release_at_the_instant_of_the_only_deaths_has_repaired_and_not_broken(tmp_path):
    broker = Broker()
    recording = Recording(tmp_path, broker)
    broker.queue("orders")
    broker.publish("", "orders", "order")
    broker.at(MINUTE_MS)
    broker.reject(*(one.ref for one in broker.get("orders", "bad", 1)))
    deployed(broker, "1.9")
    broker.at(2 * MINUTE_MS)
    taken(broker, "orders", "good", 2)
    recording.commit()
    with Tables(recording.root) as tables:
        declared = topology_log(tables).replayed()
        [found] = what_died(tables, declared, at(5), timedelta(hours=1))

    assert found.change is None
    assert found.repair is not None
    assert (found.repair.change.name, found.repair.taken) == ("worker 1.9", 2)


def test_a_consumer_that_came_has_repaired_a_queue_whose_messages_expired(broken):
    [broker] = broken.brokers
    broker.consume("mail", "m", channel="mailer", user="mailer", auto_ack=True)
    broker.at(3 * MINUTE_MS)
    broker.publish("", "mail", "quick")

    repair = repairs(broken, at(5))["mail"]

    assert repair is not None
    assert (repair.change.what, repair.change.user) == ("consumer started", "mailer")
    assert (datetime.fromisoformat(repair.at), repair.taken) == (at(2), 1)


def test_a_release_after_which_nothing_was_taken_has_repaired_nothing_that_is_known(broken):
    [broker] = broken.brokers
    deployed(broker, "1.9")
    broker.at(3 * MINUTE_MS)

    assert repairs(broken, at(5))["orders"] is None


def test_what_still_dies_is_not_repaired(broken):
    [broker] = broken.brokers
    deployed(broker, "1.9")
    broker.at(3 * MINUTE_MS)
    taken(broker, "orders", "good", 3)
    broker.publish("", "orders", "order")
    broker.reject(*(one.ref for one in broker.get("orders", "bad2")))
    broker.at(4 * MINUTE_MS)
    taken(broker, "orders", "good2", 3)

    assert repairs(broken, at(5))["orders"] is None
    assert repairs(broken, at(3.5))["orders"] is None


def test_messages_that_are_taken_without_a_change_repair_nothing(broken):
    """The release that broke it took them, too."""
    [broker] = broken.brokers
    taken(broker, "orders", "good", 3)

    assert repairs(broken, at(5))["orders"] is None
