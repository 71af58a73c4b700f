"""The demo's summary of the balance, on tables of a broker in memory."""

import pytest

from streaming.demo.order_process import PAYMENTS, QUOTES_TTL_MS, order
from streaming.demo.report import balance_summary
from streaming.queries.audit.balance import Balance, QueueBalance, VhostBalance, balance
from streaming.queries.duckdb_tables import Tables
from tests.unit.demo.staging import send, staged
from tests.unit.queries.recording import Recording


@pytest.fixture
def tables(tmp_path):
    """Tables with an acked, a rejected and an unacked order, and an expired quote."""
    broker = staged(clock="event")
    recording = Recording(tmp_path, broker)
    recording.commit()
    for number in (0, 2, 3, 1, 19):
        send(broker, order(number))
    recording.commit()
    broker.get(PAYMENTS, "g", count=3)
    broker.ack("g/0")
    broker.reject("g/1")
    broker.at(QUOTES_TTL_MS)
    recording.commit()
    recording.close()
    opened = Tables(str(tmp_path))
    yield opened
    opened.close()


def words(drawn):
    """The lines as (label, number)."""
    lines = list(balance_summary(drawn))
    assert len({len(line) for line in lines}) == 1, "the numbers stand below each other"
    return [tuple(line.rsplit(maxsplit=1)) for line in lines]


def test_the_summary_accounts_for_every_message_and_copy(tables):
    assert words(balance(tables)) == [
        ("messages published", "5"),
        ("copies that entered queues, by a publish", "11"),
        ("copies that entered queues, by a death", "2"),
        ("  acknowledged by a consumer", "1"),
        ("  dead: rejected", "1"),
        ("  dead: expired", "1"),
        ("  still in a queue, ready", "9"),
        ("  still in a queue, unacked", "1"),
        ("resident by the broker's own count", "10"),
        ("records in quarantine", "0"),
        ("unexplained", "0"),
    ]


def test_the_summary_adds_all_vhosts_and_omits_zeros():
    one = QueueBalance("/", "a", published=1000, endings={"maxlen": 900, "purged": 1}, held=2)
    other = QueueBalance("v", "b", refused=3, dead_lettered=4, ready=1, endings={"maxlen": 2})
    vhosts = [VhostBalance("/", 1200, unroutable=5, returned=6, publish_errors=7)]

    assert words(Balance(3, vhosts, [one, other], 8, None, [])) == [
        ("messages published", "1,200"),
        ("  reached no queue, dropped", "5"),
        ("  reached no queue, returned to the publisher", "6"),
        ("  refused by a full queue", "3"),
        ("  refused with a channel error", "7"),
        ("copies that entered queues, by a publish", "1,000"),
        ("copies that entered queues, by a death", "4"),
        ("  dead: maxlen", "902"),
        ("  purged", "1"),
        ("  held by at-least-once dead-lettering", "2"),
        ("  still in a queue, ready", "1"),
        ("  still in a queue, unacked", "0"),
        ("records in quarantine", "8"),
        ("unexplained", "0"),
    ]
