"""A message in sentences, whatever happened to it."""

import pytest

from streaming.broker import commands
from streaming.contents.updater import ContentsUpdater
from streaming.queries.duckdb_tables import Tables
from streaming.queries.life.copies import copies_of
from streaming.queries.life.summary import summary_of
from streaming.queries.message_history import history_of
from tests.builders import Broker
from tests.unit.queries.recording import Recording
from tests.unit.queries.redrives.letters import Shop


@pytest.fixture
def recording(tmp_path):
    """Tables of an empty broker."""
    found = Recording(tmp_path, Broker())
    yield found
    found.close()


@pytest.fixture
def broker(recording):
    """A queue `work` whose dead letters wait in `parked`."""
    [found] = recording.brokers
    found.queue("work", dead_letter_exchange="", dead_letter_routing_key="parked")
    found.queue("parked")
    return found


def summed_up(recording):
    recording.commit()
    ContentsUpdater(recording.place).update()
    return of_first(recording.root)


def of_first(root):
    with Tables(root) as tables:
        history = history_of(tables, "0/0/0")
        return summary_of(copies_of(history), history.now)


def said(found):
    return " ".join([*found.happened, found.now])


def test_a_message_that_waits_or_is_held_by_a_consumer(broker, recording):
    broker.publish("", "work", "a")
    waits = summed_up(recording)
    broker.get("work", "a")
    held = summed_up(recording)

    assert (said(waits), waits.todo) == ("It waits in work.", "")
    assert (said(held), held.todo) == ("A consumer of work has it.", "")


def test_a_message_that_was_acked_needs_nothing(broker, recording):
    broker.publish("", "work", "a")
    broker.ack(*(one.ref for one in broker.get("work", "a")))

    found = summed_up(recording)

    at = "2020-09-13 12:26:40"
    assert (said(found), found.todo) == (
        f"It never died: it was acked in work ({at}). It is in no queue now.",
        "",
    )


def test_a_letter_that_waits_can_be_sent_back(broker, recording):
    broker.publish("", "work", "a")
    broker.reject(*(one.ref for one in broker.get("work", "a", channel="anna")))

    found = summed_up(recording)

    assert said(found) == (
        "It died in work: the operator rejected it on channel anna. It waits in parked."
    )
    assert found.todo == "redrive"


def test_deaths_of_the_same_cause_are_one_line(recording):
    [broker] = recording.brokers
    broker.queue("work", dead_letter_exchange="", dead_letter_routing_key="later")
    broker.queue("later", message_ttl=100, dead_letter_exchange="", dead_letter_routing_key="work")
    broker.publish("", "work", "a")
    for number in range(3):
        broker.reject(*(one.ref for one in broker.get("work", f"g{number}")))
        broker.at(1_000 * (number + 1))

    found = summed_up(recording)

    assert [(one.queue, one.reason, one.count) for one in found.causes] == [
        ("work", "rejected", 3),
        ("later", "expired", 3),
    ]
    assert said(found) == (
        "It died 6 times: first in work (the operator rejected it on channel c0), and then in "
        "later (TTL 100 ms, no consumer took it). It waits in work."
    )


def test_a_letter_that_nothing_took_can_be_published_again(recording):
    [broker] = recording.brokers
    broker.queue("box", max_length=1)
    broker.publish("", "box", "a")
    broker.publish("", "box", "b")

    found = summed_up(recording)

    assert said(found) == (
        "It died in box: its queue was full. It was dropped when it died in box: no "
        "queue was to take it."
    )
    assert found.todo == "publish"


def published_to(recording, *queues):
    """A broker with one message, of which each queue has a copy."""
    [broker] = recording.brokers
    broker.exchange("all", "fanout")
    for name in queues:
        broker.queue(name)
        broker.bind("all", name)
    broker.publish("all", "", "a")
    return broker


def test_each_queue_that_acked_it_is_named(recording):
    broker = published_to(recording, "mail", "work")
    for name in ("mail", "work"):
        broker.ack(*(one.ref for one in broker.get(name, name)))

    found = summed_up(recording)

    at = "2020-09-13 12:26:40"
    queues = f"mail ({at}), work ({at})"
    assert said(found) == f"It never died: it was acked in {queues}. It is in no queue now."


def test_a_lost_copy_is_said_although_another_was_acked(recording):
    broker = published_to(recording, "lost", "taken")
    broker.reject(*(one.ref for one in broker.get("lost", "l")))
    broker.ack(*(one.ref for one in broker.get("taken", "t")))

    found = summed_up(recording)

    assert said(found) == (
        "It died in lost: the operator rejected it on channel c0. It was acked in taken. "
        "Another copy of it was lost when it died in lost."
    )
    assert found.todo == "publish"


def test_a_copy_that_waits_does_not_hide_that_another_was_acked(recording):
    broker = published_to(recording, "waits", "taken")
    broker.ack(*(one.ref for one in broker.get("taken", "t")))

    assert said(summed_up(recording)) == "It was acked in taken. It waits in waits."


@pytest.mark.parametrize(
    ("command", "now"),
    [
        (commands.Purge(queue="work"), "It was purged from work."),
        (commands.DeleteQueue(queue="parked"), "It was deleted with its queue parked."),
    ],
)
def test_a_message_that_somebody_removed(broker, recording, command, now):
    broker.publish("", command.queue, "a")
    broker.do(command)

    found = summed_up(recording)

    assert (said(found), found.todo) == (now, "")


def test_a_message_that_reached_no_queue(broker, recording):
    broker.publish("", "nowhere", "a")

    assert said(summed_up(recording)) == "It is in no queue."


def test_copies_in_several_queues_are_counted(recording):
    [broker] = recording.brokers
    broker.exchange("all", "fanout")
    for name in ("a", "b"):
        broker.queue(name)
        broker.bind("all", name)
    broker.publish("all", "", "m")

    assert said(summed_up(recording)) == "2 copies of it are in a, b."


def test_a_letter_that_was_sent_back_says_so(tmp_path):
    shop = Shop(tmp_path)
    shop.approve(shop.plan())
    shop.recording.commit()
    ContentsUpdater(shop.recording.place).update()

    assert "It was redriven." in said(of_first(str(tmp_path)))
