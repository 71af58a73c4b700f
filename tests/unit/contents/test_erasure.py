"""A subject's data can be erased; what happened to it stays known."""

from datetime import UTC, datetime

import pytest

from streaming.broker.message import Message
from streaming.broker.redrives.letters import NO_FILE
from streaming.contents import erasure, retention
from streaming.contents.closer import Closer
from streaming.contents.erasure import Erased, erase
from streaming.contents.retention import Periods, retain
from streaming.pipeline.rows.stored import published_rows
from streaming.queries.audit.balance import balance
from streaming.queries.dead_letters.filters import DeadLetterFilter
from streaming.queries.duckdb_tables import QueryError, Tables
from streaming.queries.redrives.plan import RedriveWish, plan_redrive
from tests.builders import Broker
from tests.unit.queries.recording import QUERY_ID, Recording

NOW = datetime(2026, 11, 22, tzinfo=UTC)
OF_ANNA = "headers ->> 'customer' = 'anna'"


@pytest.fixture
def recording(tmp_path):
    """Of two customers: an acked, a dead and a ready message each."""
    broker = Broker()
    recording = Recording(tmp_path, broker)
    broker.queue("work")
    broker.queue("brief", message_ttl=1)
    for customer in ("anna", "ben"):
        for queue in ("brief", "work", "work"):
            headers = {"customer": customer}
            broker.publish("", queue, f"of {customer} for {queue}", headers=headers)
    broker.at(10)
    broker.get("work", "g", 3)
    broker.ack("g/0", "g/2")
    recording.commit()
    return recording


def stored(recording, name):
    tables = Tables(recording.root)
    tables.view(name)
    return tables.rows(
        f"SELECT decode(body) AS body, headers, properties, body_bytes FROM {name} ORDER BY ALL"
    )


def test_bodies_headers_and_properties_go_and_the_events_stay(recording):
    done = erase(recording.place, OF_ANNA, "request 4711", NOW, user="clerk")

    assert done == Erased(2, 1, 1)
    gone = [row for row in stored(recording, "messages") if row["body"] is None]
    assert [(row["headers"], row["properties"]) for row in gone] == [(None, None)] * 2
    assert all(row["body_bytes"] for row in gone)
    kept = [row["body"] for row in stored(recording, "messages") if row["body"] is not None]
    assert sorted(kept) == ["of anna for work", *["of ben for brief"], *["of ben for work"] * 2]
    assert [row["body"] for row in stored(recording, "dead_letters")] == ["of ben for brief", None]
    tables = Tables(recording.root)
    tables.view("events")
    [event] = tables.rows("SELECT reason, number, \"user\" FROM events WHERE kind = 'erased'")
    assert event == {"reason": "request 4711", "number": 2, "user": "clerk"}
    assert balance(Tables(recording.root), whole=True).findings == []


def test_a_second_run_finds_nothing_to_erase(recording):
    erase(recording.place, OF_ANNA, "request 4711", NOW)

    assert erase(recording.place, "true", "all", NOW, dry=True).dead_letters == 1
    assert erase(recording.place, OF_ANNA, "again", NOW) == Erased(0, 0, 1)


def test_the_balance_closes_from_a_closing_after_an_erasure(recording):
    Closer(recording.place).close()
    erase(recording.place, OF_ANNA, "request 4711", NOW)

    assert balance(Tables(recording.root)).findings == []


def test_a_run_that_was_interrupted_is_finished_by_the_next(recording, monkeypatch):
    with monkeypatch.context() as patched:
        replace = retention.replace_rows
        calls: list[str] = []

        def once(place, spec, paths, rows, **options):
            if calls:
                raise KeyboardInterrupt
            calls.append(spec.name)
            replace(place, spec, paths, rows, **options)

        patched.setattr(erasure, "replace_rows", once)
        with pytest.raises(KeyboardInterrupt):
            erase(recording.place, OF_ANNA, "request 4711", NOW)

    erase(recording.place, OF_ANNA, "request 4711", NOW)

    assert [row["body"] for row in stored(recording, "dead_letters")] == ["of ben for brief", None]
    assert [row["body"] for row in stored(recording, "messages")].count(None) == 2


def test_a_dead_letter_whose_message_retention_removed_is_erased(recording):
    Closer(recording.place).close()
    retain(recording.place, Periods(messages_ms=1), NOW)

    assert erase(recording.place, OF_ANNA, "request 4711", NOW).dead_letters == 1
    assert [row["body"] for row in stored(recording, "dead_letters")] == ["of ben for brief", None]


def test_an_erased_letter_cannot_be_published_again(recording):
    wish = RedriveWish(wanted=DeadLetterFilter(), gone=True)
    assert sum(one.letters for one in plan_redrive(Tables(recording.root), wish).groups) == 2

    erase(recording.place, OF_ANNA, "request 4711", NOW)

    assert sum(one.letters for one in plan_redrive(Tables(recording.root), wish).groups) == 1


def test_a_dry_run_counts(recording):
    before = stored(recording, "messages")

    assert erase(recording.place, OF_ANNA, "why", NOW, dry=True) == Erased(2, 1, 1)
    assert stored(recording, "messages") == before


@pytest.mark.parametrize("where", ["", "nothing = 1", "true) OR (false", "true; SELECT 1"])
def test_a_condition_that_is_none_is_refused(recording, where):
    with pytest.raises(QueryError, match="--where"):
        erase(recording.place, where, "why", NOW)


def test_a_letter_that_was_erased_after_its_plan_is_not_published_again(recording):
    letter = Message(0, 0, 0, NO_FILE, 0, 0)
    with published_rows(recording.place, QUERY_ID) as published:
        assert published(letter).headers == {"customer": "anna"}

    erase(recording.place, OF_ANNA, "request 4711", NOW)

    with published_rows(recording.place, QUERY_ID) as published:
        with pytest.raises(LookupError, match="erased"):
            published(letter)
        assert published(Message(0, 0, 3, NO_FILE, 0, 0)).headers == {"customer": "ben"}
