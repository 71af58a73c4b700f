"""Valid and invalid lifecycles of copies, as sums of events."""

import duckdb
import pytest

from streaming.queries.audit.copy_lifecycle import LIFECYCLES, State, event_value_sql
from streaming.queries.message_attributes import MessageId

BORN = ("enqueued", None, True)
LENT = ("delivered", None, False)
BACK = ("requeued", None, False)


def life(*events):
    """The sum of events: kind, reason, and whether the copy starts with it."""
    connection = duckdb.connect()
    connection.execute("CREATE TABLE event (kind VARCHAR, reason VARCHAR, seq INT, copy_id INT)")
    for seq, (kind, reason, birth) in enumerate(events):
        copy_id = seq if birth else -1
        connection.execute("INSERT INTO event VALUES (?, ?, ?, ?)", [kind, reason, seq, copy_id])
    [(total,)] = connection.execute(f"SELECT sum({event_value_sql()}) FROM event").fetchall()
    return int(total)


@pytest.mark.parametrize(
    ("events", "state"),
    [
        ([BORN], State.READY),
        ([BORN, LENT], State.UNACKED),
        ([BORN, LENT, BACK], State.READY),
        ([BORN, *[LENT, BACK] * 300, LENT], State.UNACKED),
        ([BORN, ("held", "expired", False)], State.HELD),
        ([BORN, LENT, ("held", "rejected", False)], State.HELD),
        ([BORN, ("consumed", None, False)], State.GONE),
        ([BORN, ("purged", None, False)], State.GONE),
        ([BORN, ("deleted", None, False)], State.GONE),
        ([BORN, LENT, ("deleted", None, False)], State.GONE),
        ([BORN, LENT, ("acked", None, False)], State.GONE),
        ([BORN, ("died", "expired", False)], State.GONE),
        ([BORN, ("died", "maxlen", False)], State.GONE),
        ([BORN, LENT, ("died", "rejected", False)], State.GONE),
        ([BORN, LENT, ("died", "delivery_limit", False)], State.GONE),
        ([BORN, LENT, ("rerouted", "rejected", False)], State.GONE),
        ([BORN, ("rerouted", "orphaned", False)], State.GONE),
        ([BORN, ("held", "expired", False), ("died", "expired", False)], State.GONE),
        ([BORN, LENT, ("held", "rejected", False), ("died", "rejected", False)], State.GONE),
        ([("died", "maxlen", True)], State.GONE),
    ],
    ids=str,
)
def test_valid_lifecycles_are_accepted(events, state):
    assert LIFECYCLES[life(*events)] is state


@pytest.mark.parametrize(
    "events",
    [
        [],
        [LENT],
        [("acked", None, False)],
        [BORN, BORN],
        [BORN, BACK],
        [BORN, LENT, LENT],
        [BORN, ("acked", None, False)],
        [BORN, LENT, ("consumed", None, False)],
        [BORN, LENT, ("died", "expired", False)],
        [BORN, ("died", "rejected", False)],
        [BORN, ("consumed", None, False), ("consumed", None, False)],
        [BORN, LENT, ("acked", None, False), ("died", "expired", False)],
    ],
    ids=str,
)
def test_invalid_lifecycles_are_found(events):
    assert (life(*events) if events else 0) not in LIFECYCLES


def test_a_message_id_has_three_numbers():
    assert str(MessageId(1, 0, 42)) == "1/0/42"
    assert MessageId.parse("1/0/42") == MessageId(1, 0, 42)
    assert MessageId.of({"topic_number": 1, "partition": 0, "offset": 42}) == MessageId(1, 0, 42)
    assert MessageId.of(None) is None
    for other in ("", "1/0", "1/0/42/7", "a/0/42", "-1/0/42", "1/0/42 "):
        assert MessageId.parse(other) is None
