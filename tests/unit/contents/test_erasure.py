"""A subject's data can be erased; what happened to it stays known."""

from datetime import UTC, datetime

import pytest

from streaming.broker import commands
from streaming.broker.commands import Redrive
from streaming.broker.events import Kind
from streaming.broker.message import NO_FILE, Message
from streaming.broker.redrive_letters import Edit, Letter, Target
from streaming.broker.redrives.version_keys import VERSION_KEY
from streaming.contents import erasure, replacement
from streaming.contents.erasure import erase
from streaming.contents.retention import Periods, retain
from streaming.contents.snapshot_writer import SnapshotWriter
from streaming.pipeline.rows.stored import published_rows
from streaming.queries.audit.balance import balance
from streaming.queries.dead_letters.filters import DeadLetterFilter
from streaming.queries.duckdb_tables import QueryError, Tables
from streaming.queries.redrives.plan import RedriveWish, plan_redrive
from tests.builders import Broker
from tests.unit.queries.recording import QUERY_ID, TOPIC, Recording

NOW = datetime(2026, 11, 22, tzinfo=UTC)
OF_ANNA = "headers ->> 'customer' = 'anna'"


def counts(done):
    return done.messages, done.dead_letters, done.in_queues


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

    assert counts(done) == (2, 1, 1)
    assert done.keys == {(0, 0, 0), (0, 0, 1)}
    assert done.records == ((TOPIC, 0, 0, 1, 2),)
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
    assert counts(erase(recording.place, OF_ANNA, "again", NOW)) == (0, 0, 1)


def test_the_balance_closes_from_a_snapshot_after_an_erasure(recording):
    SnapshotWriter(recording.place).write()
    erase(recording.place, OF_ANNA, "request 4711", NOW)

    assert balance(Tables(recording.root)).findings == []


def test_a_run_that_was_interrupted_is_finished_by_the_next(recording, monkeypatch):
    with monkeypatch.context() as patched:
        replace = replacement.replace_rows
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
    SnapshotWriter(recording.place).write()
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

    assert counts(erase(recording.place, OF_ANNA, "why", NOW, dry=True)) == (2, 1, 1)
    assert stored(recording, "messages") == before


@pytest.mark.parametrize("where", ["", "nothing = 1", "true) OR (false", "true; SELECT 1"])
def test_a_condition_that_is_none_is_refused(recording, where):
    with pytest.raises(QueryError, match="--where"):
        erase(recording.place, where, "why", NOW)


def test_a_letter_that_was_erased_after_its_plan_is_not_published_again(recording):
    letter = Message(0, 0, 0, NO_FILE, 0, 0)
    with published_rows(recording.place, QUERY_ID, 1, "s1") as published:
        assert published(letter).headers == {"customer": "anna"}

    erase(recording.place, OF_ANNA, "request 4711", NOW)

    with published_rows(recording.place, QUERY_ID, 2, "s1") as published:
        with pytest.raises(LookupError, match="erased"):
            published(letter)
        assert published(Message(0, 0, 3, NO_FILE, 0, 0)).headers == {"customer": "ben"}


def test_an_edited_letter_whose_version_was_erased_is_skipped(tmp_path):
    """Also if its new body is empty, so that only its headers had the data."""
    broker = Broker()
    recording = Recording(tmp_path, broker)
    broker.queue("work")
    broker.queue("dead")
    for number, customer in enumerate(("anna", "anna", "ben")):
        broker.publish("", "dead", f"m{number}")
        body, headers = ("" if number else "EUR 12"), {"customer": customer}
        broker.publish("", f"{VERSION_KEY}{str(number) * 64}", body, headers=headers)
    recording.commit()
    copies = [row.seq for row in broker.rows if row.kind is Kind.ENQUEUED]
    work = Target("work", "", ("work",))
    letters = tuple(
        Letter(0, copy, "dead", work, edit=Edit("a" * 64, str(number) * 64))
        for number, copy in enumerate(copies)
    )

    assert erase(recording.place, OF_ANNA, "request 4711", NOW).messages == 2

    with published_rows(recording.place, QUERY_ID, 3, "s1") as published:
        broker.published = published  # type: ignore[method-assign]
        broker.shard = broker.reopened()
        broker.do(Redrive(id="r", reason="x", seal="s", total=3, letters=letters))
        broker.finish()
    skipped = [(row.detail or {})["reason"] for row in broker.rows if row.kind is Kind.SKIPPED]
    assert (skipped, broker.depth("work"), broker.depth("dead")) == (["not_stored"] * 2, 1, 2)


def test_what_consumers_said_goes_too(tmp_path):
    """R-SET-9: in the dead letter, in its event, in the envelopes of its copies, in a snapshot."""
    broker = Broker()
    recording = Recording(tmp_path, broker)
    broker.queue("work", dead_letter_exchange="", dead_letter_routing_key="dead")
    broker.queue("dead")
    for customer in ("anna", "ben"):
        broker.publish("", "work", "order", headers={"customer": customer})
        broker.get("work", customer)
        broker.do(commands.Reject(refs=(f"{customer}/0",), reason=f"{customer} is unknown"))
    recording.commit()
    SnapshotWriter(recording.place).write()
    broker.get("dead", "g", 2)
    broker.ack("g/0", "g/1")
    recording.commit()

    erase(recording.place, OF_ANNA, "request 4711", NOW)

    tables = Tables(recording.root)
    for name in ("events", "dead_letters", "snapshot_contents"):
        tables.view(name)
        text = str(tables.values(f"FROM {name}"))
        assert ("anna" in text, "ben" in text) == (False, True), name
