"""What died, why in words, compared with before, and after which change."""

from datetime import UTC, datetime, timedelta

import pytest

from streaming.broker import commands
from streaming.queries.duckdb_tables import QueryError, Tables
from streaming.queries.life.what_died import what_died
from streaming.queries.vhosts import changes
from streaming.queries.vhosts.changes import Change
from streaming.queries.vhosts.declared import topology_log
from tests.builders import START_MS, Broker
from tests.unit.queries.recording import Recording

MINUTE_MS = 60_000


def at(minutes):
    return datetime.fromtimestamp(START_MS / 1000, UTC) + timedelta(minutes=minutes)


@pytest.fixture
def shop(tmp_path):
    """An hour with one rejected order, then one with more, and with full and slow queues."""
    broker = Broker()
    recording = Recording(tmp_path, broker)
    broker.queue("parked")
    letters = {"dead_letter_exchange": "", "dead_letter_routing_key": "parked"}
    broker.queue("orders", **letters)
    broker.queue("mail", message_ttl=1_500, **letters)
    broker.queue("box", max_length=1)
    reject(broker, 1)
    recording.commit()
    broker.at(70 * MINUTE_MS)
    broker.policy("hurry", "^late$", {"message-ttl": 10})
    broker.do(commands.Deployed(service="mailer", version="1", queues=("mail",)), user="ci")
    broker.do(commands.Deployed(service="worker", version="2.4.1", reason="faster"), user="ci")
    broker.at(90 * MINUTE_MS)
    reject(broker, 2, user="worker")
    for number in range(3):
        broker.publish("", "box", f"{number}")
    broker.publish("", "mail", "slow")
    broker.at(91 * MINUTE_MS)
    recording.commit()
    return recording


def reject(broker, count, user="guest"):
    for _ in range(count):
        broker.publish("", "orders", "order")
    label = f"g{broker.time_ms}"
    broker.get("orders", label, count, channel=user, user=user)
    refs = tuple(f"{label}/{number}" for number in range(count))
    broker.do(commands.Reject(refs=refs, channel=user), user=user)


def groups(recording, end, vhost=None):
    with Tables(recording.root) as tables:
        declared = topology_log(tables).replayed()
        return what_died(tables, declared, end, timedelta(hours=1), vhost=vhost)


def test_each_group_says_where_why_and_how_many_before(shop):
    found = groups(shop, at(95))

    assert [(one.queue, one.reason, one.deaths, one.before) for one in found] == [
        ("orders", "rejected", 2, 1),
        ("mail", "expired", 1, 0),
        ("box", "maxlen", 2, 0),
    ]
    assert [one.why for one in found[1:]] == [
        "TTL of 1,500 ms, and no consumer took it in time",
        "limit of 1 reached, 3/s in, 0/s out",
    ]
    assert found[0].why.startswith("rejected by ")


def test_the_last_change_that_concerns_the_queue_is_named(shop):
    found = {one.queue: one.change for one in groups(shop, at(95))}

    deployed = Change("2020-09-13T13:36:40.000Z", "deployed", "worker 2.4.1", "ci", "faster")
    assert found == {"orders": deployed, "mail": deployed, "box": deployed}


def dying(root, minutes):
    """`orders` rejects in these minutes; a release in minute 9, and another one in minute 45."""
    broker = Broker()
    recording = Recording(root, broker)
    broker.queue("orders", dead_letter_exchange="", dead_letter_routing_key="parked")
    broker.queue("parked")
    broker.publish("", "orders", "good")
    broker.drain("orders")
    for minute in sorted({9, 45, *minutes}):
        broker.at(minute * MINUTE_MS)
        if minute in {9, 45}:
            broker.do(commands.Deployed(service="worker", version=f"{minute}"))
        else:
            reject(broker, 1)
    recording.commit()
    return recording


def test_deaths_that_began_before_the_span_and_never_paused_have_their_own_beginning(tmp_path):
    recording = dying(tmp_path, range(10, 101, 6))

    [found] = groups(recording, at(105))

    assert datetime.fromisoformat(found.since) == at(10)
    assert not found.is_older
    assert found.deaths == 10, "those of the last hour"
    assert found.change is not None
    assert found.change.name == "worker 9"


def test_deaths_that_are_older_than_what_is_looked_at_say_so(tmp_path):
    recording = dying(tmp_path, range(10, 181, 6))

    [found] = groups(recording, at(180))

    assert found.is_older
    assert datetime.fromisoformat(found.since) == at(64)


def test_deaths_after_a_pause_begin_after_it(tmp_path):
    recording = dying(tmp_path, [*range(10, 41, 6), 70, 76])

    [found] = groups(recording, at(105))

    assert datetime.fromisoformat(found.since) == at(70)
    assert found.before == 6
    assert found.change is not None
    assert found.change.name == "worker 45"


def test_limits_are_those_at_the_death_although_they_changed_since(shop):
    [broker] = shop.brokers
    broker.policy("wide", "^mail$", {"message-ttl": 900})
    broker.policy("wider", "^box$", {"max-length": 1})
    broker.at(92 * MINUTE_MS)
    broker.do(commands.DeleteQueue(queue="box"))
    broker.queue("box", max_length=7)
    shop.commit()

    assert [one.why for one in groups(shop, at(95))[1:]] == [
        "TTL of 1,500 ms, and no consumer took it in time",
        "limit of 1 reached, 3/s in, 0/s out",
    ]


def test_what_was_declared_between_two_changes_is_read_once(shop):
    [broker] = shop.brokers
    broker.at(92 * MINUTE_MS)
    broker.policy("wide", "^mail$", {"message-ttl": 900})
    broker.policy("wider", "^box$", {"max-length": 7})
    shop.commit()
    read = []

    def keep(name, compute):
        read.append(name)
        return compute()

    with Tables(shop.root) as tables:
        declared = topology_log(tables).replayed()
        found = what_died(tables, declared, at(95), timedelta(hours=1), keep=keep)

    assert [one.why for one in found[1:]] == [
        "TTL of 1,500 ms, and no consumer took it in time",
        "limit of 1 reached, 3/s in, 0/s out",
    ]
    assert found[1].last != found[2].last
    assert len(set(read)) == 1


def test_declarations_of_many_other_queues_hide_no_change(shop, monkeypatch):
    [broker] = shop.brokers
    before = [one.change for one in groups(shop, at(95))]
    for number in range(5):
        broker.queue(f"idle-{number}")
    shop.commit()
    monkeypatch.setattr(changes, "MAX_READ", 4)

    assert [one.change for one in groups(shop, at(95))] == before
    assert before[0] is not None


def test_limits_of_a_time_that_the_tables_do_not_know_are_said_to_be_those_of_today(shop):
    [broker] = shop.brokers
    broker.policy("wide", "^mail$", {"message-ttl": 900})
    shop.commit()

    def forgotten(_name, _compute):
        raise QueryError("history begins later")

    with Tables(shop.root) as tables:
        declared = topology_log(tables).replayed()
        found = what_died(tables, declared, at(95), timedelta(hours=1), keep=forgotten)

    assert found[1].why == "TTL of 900 ms (today's limit), and no consumer took it in time"


def test_a_bounded_queue_that_drops_its_head_comes_last_and_is_as_declared(shop):
    assert [(one.queue, one.is_declared, one.lost) for one in groups(shop, at(95))] == [
        ("orders", False, 0),
        ("mail", False, 0),
        ("box", True, 0),
    ]


def test_nothing_died_before_and_in_other_vhosts(shop):
    assert groups(shop, at(-1)) == []
    assert groups(shop, at(95), vhost="other") == []


def test_a_queue_that_is_gone_is_still_explained(shop):
    with Tables(shop.root) as tables:
        found = what_died(tables, {}, at(95), timedelta(hours=1))

    assert [one.why for one in found[1:]] == [
        "the TTL of the message, and no consumer took it in time",
        "the queue's limit was reached, 3/s in, 0/s out",
    ]


def test_the_rates_of_a_full_queue_are_those_while_it_dropped(tmp_path):
    broker = Broker()
    recording = Recording(tmp_path, broker)
    broker.queue("ring", max_length=2)
    for second in range(11):
        broker.at(second * 1_000)
        for number in range(4):
            broker.publish("", "ring", f"{second} {number}")
        broker.get("ring", f"g{second}", 1, auto_ack=True)
    broker.at(3 * MINUTE_MS)
    recording.commit()

    [ring] = groups(recording, at(4))

    assert ring.why == "limit of 2 reached, 4/s in, 1/s out"


def test_what_died_after_a_change_comes_before_what_dies_in_numbers(tmp_path):
    broker = Broker()
    recording = Recording(tmp_path, broker)
    broker.queue("parked")
    for name in ("busy", "changed"):
        broker.queue(name, dead_letter_exchange="", dead_letter_routing_key="parked")
        for number in range(3):
            broker.publish("", name, f"{number}")
    broker.at(MINUTE_MS)
    broker.policy("short", "^changed$", {"max-length": 2})
    broker.reject(*(one.ref for one in broker.get("busy", "b", 3)))
    broker.at(2 * MINUTE_MS)
    recording.commit()

    found = groups(recording, at(3))

    assert [(one.queue, one.deaths) for one in found] == [("changed", 1), ("busy", 3)]
