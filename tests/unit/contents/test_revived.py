"""A redrive and a removal from `messages` exclude each other, whichever commits first."""

from datetime import timedelta

import pytest

from streaming.broker.commands import Redrive
from streaming.broker.events import Kind
from streaming.broker.message import NO_FILE, Message, PublishedHeaders
from streaming.broker.redrive_letters import Edit, Letter, RedriveOptions, Target
from streaming.broker.redrives.version_keys import VERSION_KEY
from streaming.contents import erasure, retention, revived
from streaming.contents.erasure import erase
from streaming.contents.retention import Periods, retain
from streaming.contents.snapshot_writer import SnapshotWriter
from streaming.ledger.errors import CommitError
from streaming.ledger.read.table_files import ActiveFiles
from streaming.ledger.schema.schemas import TABLES
from streaming.ledger.schema.table_setup import load_table
from streaming.ledger.upkeep.compaction import compact, small_files
from streaming.pipeline.rows.messages import body_places
from streaming.pipeline.rows.stored import published_rows, stored_rows
from streaming.queries.audit.balance import balance
from streaming.queries.duckdb_tables import Tables
from tests.builders import Broker
from tests.unit.contents.test_retention import START
from tests.unit.queries.recording import QUERY_ID, Recording
from tests.unit.queries.redrives.letters import Shop
from tests.unit.queries.test_known_shards import rebuilt_store

LATER = START + timedelta(days=9)


def remove(recording):
    """What retention removes of `messages`."""
    return [one.rows for one in retain(recording.place, Periods(messages_ms=1), LATER)]


def forget(recording):
    return erase(recording.place, "true", "request 4711", LATER)


REMOVALS = {retention: remove, erasure: forget}


@pytest.fixture
def shop(tmp_path):
    """Four letters that were discarded, and a snapshot since."""
    shop = Shop(tmp_path)
    shop.approve(shop.plan(options=RedriveOptions(action="discard")))
    shop.recording.commit()
    SnapshotWriter(shop.recording.place).write()
    return shop


def check_whole(shop, bodies):
    """Consumers get the bodies, a lost checkpoint can be rebuilt, and the books balance."""
    recording, broker = shop.recording, shop.broker
    rebuilt_store(recording, broker)
    messages = [one.copy.message for one in broker.get("dead", "g", 9)]
    with stored_rows(recording.place) as stored:
        found = stored.read(body_places(messages, QUERY_ID))["body"].to_pylist()
    assert found == bodies
    tables = Tables(recording.root)
    assert balance(tables).findings == []
    tables.view("messages")
    assert tables.values('SELECT count(*), count(DISTINCT "offset") FROM messages') == [(4, 4)]


@pytest.mark.parametrize("module", REMOVALS, ids=lambda module: module.__name__)
def test_letters_that_were_restored_before_the_removal_commits_stay(shop, monkeypatch, module):
    plan = shop.plan(options=RedriveOptions(action="restore"))
    replace = module.replace_rows

    def late(place, spec, *args, **more):
        if spec.name == "messages" and shop.recording.batch_id < 3:
            shop.approve(plan)
            shop.recording.commit()
        replace(place, spec, *args, **more)

    monkeypatch.setattr(module, "replace_rows", late)

    done = REMOVALS[module](shop.recording)

    assert done == [] or (done.messages, done.in_queues) == (0, 4)
    check_whole(shop, [b"m0", b"m1", b"m2", b"m3"])


@pytest.mark.parametrize("is_compacted", [False, True])
@pytest.mark.parametrize("module", REMOVALS, ids=lambda module: module.__name__)
def test_letters_that_left_the_table_while_a_batch_restored_them_are_put_back(
    shop, caplog, module, is_compacted
):
    shop.approve(shop.plan(options=RedriveOptions(action="restore")))  # the batch has not ended

    assert REMOVALS[module](shop.recording)
    if is_compacted:
        place, spec = shop.recording.place / "messages", TABLES["messages"]
        files = small_files(spec, ActiveFiles(load_table(place)))
        if files:
            compact(place, spec, files)
    shop.recording.commit()

    assert "their rows are in the table" in caplog.text.lower()
    check_whole(shop, [b"m0", b"m1", b"m2", b"m3"])
    assert revived.put_back(shop.recording.place, [(0, 0, 0)], None) == 0


def test_letters_that_were_removed_before_the_batch_are_skipped(shop):
    plan = shop.plan(options=RedriveOptions(action="restore"))
    assert remove(shop.recording) == [4]

    with published_rows(shop.recording.place, QUERY_ID, 2, "s1") as shop.broker.published:
        shop.broker.shard = shop.broker.reopened()
        assert shop.approve(plan)["skipped"] == 4
        shop.recording.commit()

    reasons = [row.detail["reason"] for row in shop.broker.rows if row.kind is Kind.SKIPPED]
    assert reasons == ["not_stored"] * 4
    assert balance(Tables(shop.recording.root)).findings == []
    rebuilt_store(shop.recording, shop.broker)


@pytest.mark.parametrize("module", REMOVALS, ids=lambda module: module.__name__)
def test_a_batch_that_runs_again_finds_the_letters_that_left_the_table_meanwhile(shop, module):
    """Its first attempt wrote its files, and a crash came before the commit."""
    recording, broker = shop.recording, shop.broker
    plan = shop.plan(options=RedriveOptions(action="restore"))
    before = dict(broker.store.values)
    moved = []
    for attempt in (1, 2):
        broker.store.values = dict(before)
        with published_rows(recording.place, QUERY_ID, 3, "s1") as broker.published:
            broker.shard = broker.reopened()
            moved.append(shop.approve(plan)["moved"])
        if attempt == 1:
            broker.shard.finish()
            assert REMOVALS[module](recording)

    recording.commit()

    assert moved == [4, 4]
    assert broker.published.found_in.version < load_table(recording.place / "messages").version()
    broker.published = lambda _message: PublishedHeaders(None)
    check_whole(shop, [b"m0", b"m1", b"m2", b"m3"])


def test_letters_are_looked_up_in_one_version_even_after_one_that_is_missing(shop):
    """A second look would find what left the table, or came back, since the first."""
    letter = Message(0, 0, 0, NO_FILE, 0, 0)
    for _attempt in range(2):
        with published_rows(shop.recording.place, QUERY_ID, 3, "s1") as published:
            with pytest.raises(LookupError):
                published(Message(0, 0, 99, NO_FILE, 0, 0))
            forget(shop.recording)
            assert published(letter).headers == {"tenant": "t0"}


def test_the_version_of_an_edited_letter_is_put_back(tmp_path):
    broker = Broker()
    recording = Recording(tmp_path, broker)
    broker.queue("dead")
    broker.queue("work")
    broker.publish("", "dead", "old")
    broker.publish("", f"{VERSION_KEY}{'b' * 64}", "new")
    recording.commit()
    [copy_id] = [row.seq for row in broker.rows if row.kind is Kind.ENQUEUED]
    edit = Edit("a" * 64, "b" * 64)
    letter = Letter(0, copy_id, "dead", Target("work", "", ("work",)), edit=edit)
    broker.do(Redrive(id="r", reason="x", seal="s", total=1, letters=(letter,)))

    assert (forget(recording).messages, forget(recording).in_queues) == (1, 1)
    recording.commit()

    [given] = broker.get("work", "g")
    with stored_rows(recording.place) as stored:
        found = stored.read(body_places([given.copy.message], QUERY_ID))["body"].to_pylist()
    assert (found, forget(recording).in_queues) == ([b"new"], 1)


def test_nothing_is_removed_while_a_batch_is_half_committed(shop, monkeypatch):
    monkeypatch.setattr(revived, "_WAIT_S", 0)
    shop.approve(shop.plan(options=RedriveOptions(action="restore")))
    events = shop.recording._ledger.writers["events"]  # noqa: SLF001 - a crash before its commit
    commit, events.commit_batch = events.commit_batch, lambda *_, **__: "skipped"
    shop.recording.commit()
    events.commit_batch = commit

    for removal in REMOVALS.values():
        with pytest.raises(CommitError, match="start the job"):
            removal(shop.recording)
