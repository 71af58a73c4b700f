"""The balance sheet, on tables that a broker in memory left."""

import pytest

from streaming.demo.sheet import Sheet, balance_sheet
from streaming.demo.story import PAYMENTS, QUOTES_TTL_MS, order
from streaming.tables.snapshot import Tables
from tests.unit.demo.staging import send, staged
from tests.unit.tables.recording import Recording

CLOSED = Sheet(
    published=3,
    fates={"reached a queue": 3},
    copies=5,
    ends={"dead: expired": 1},
    ready=3,
    unacked=1,
    resident=4,
    quarantined=0,
    odd_copies=0,
)


@pytest.fixture
def tables(tmp_path):
    """Tables of a little story: an order acked, one rejected, one unacked; a quote expired."""
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


def test_every_message_and_every_copy_has_its_place(tables):
    sheet = balance_sheet(tables)

    assert sheet == Sheet(
        published=5,
        fates={"reached a queue": 5},
        copies=10,
        ends={
            "acknowledged by a consumer": 1,
            "dead: expired": 1,
            "dead: rejected": 1,
        },
        ready=6,
        unacked=1,
        resident=7,
        quarantined=0,
        odd_copies=0,
    )
    assert sheet.unexplained == 0


def test_a_closed_balance_has_nothing_unexplained():
    assert CLOSED.unexplained == 0


@pytest.mark.parametrize(
    ("wrong", "unexplained"),
    [
        ({"published": 4}, 1),
        ({"copies": 7}, 2),
        ({"ends": {}}, 1),
        ({"resident": 3}, 1),
        ({"odd_copies": 2}, 2),
    ],
)
def test_whatever_does_not_add_up_is_unexplained(wrong, unexplained):
    assert CLOSED._replace(**wrong).unexplained == unexplained


def test_the_sheet_in_words_ends_with_what_is_unexplained():
    lines = CLOSED.lines()

    assert lines[0].split() == ["messages", "published", "3"]
    assert lines[-1].split() == ["unexplained", "0"]
    assert len({len(line) for line in lines}) == 1


def test_a_lost_ledger_row_shows(tables):
    tables.view("events")
    tables.connection.execute("CREATE TEMP TABLE cut AS SELECT * FROM events WHERE kind <> 'acked'")
    view, tables.view = tables.view, lambda name, **_: "kept"
    for name in ("messages", "quarantine"):
        view(name)
    tables.drop("events")
    tables.connection.execute("ALTER TABLE cut RENAME TO events")

    sheet = balance_sheet(tables)

    assert (sheet.ready + sheet.unacked, sheet.resident, sheet.unexplained) == (8, 7, 1)
