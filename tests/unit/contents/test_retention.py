"""Retention removes what lies before a snapshot, and nothing that an answer needs."""

import copy
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from streaming.broker.redrive_letters import RedriveOptions
from streaming.contents.retention import Periods, periods_of, retain
from streaming.contents.snapshot_writer import SnapshotWriter
from streaming.contents.updater import ContentsUpdater
from streaming.ledger.read.table_files import ActiveFiles
from streaming.ledger.schema.schemas import TABLES
from streaming.ledger.schema.table_setup import load_table
from streaming.ledger.upkeep.compaction import compact, plan, small_files
from streaming.queries.as_of.instant import resolve
from streaming.queries.audit.balance import balance
from streaming.queries.cut import Cut
from streaming.queries.duckdb_tables import BeforeHistoryError, QueryError, Tables
from streaming.queries.job_totals import earliest_event_s, totals_through
from streaming.queries.life.copies import copies_of
from streaming.queries.life.scenario import scenario_of
from streaming.queries.message_history import history_of
from streaming.queries.redrives.outcomes import list_redrives
from streaming.queries.vhosts.clients import list_channels, list_consumers
from tests.builders import START_MS, Broker
from tests.seeds import seeds
from tests.unit.queries.random_play import RandomPlay
from tests.unit.queries.recording import QUERY_ID, Recording
from tests.unit.queries.redrives.letters import Shop
from tests.unit.queries.state import contents_of
from tests.unit.queries.test_as_of import contents_at, no_time, topology_at
from tests.unit.queries.test_known_shards import rebuilt_store

DAY_MS = 86_400_000
START = datetime.fromtimestamp(START_MS / 1000, UTC)


def rows_in(recording, name):
    return int(sum(ActiveFiles(load_table(recording.place / name)).rows))


def messages_of(root, copies):
    tables = Tables(str(root))
    tables.view("messages", columns=["offset"])
    stored = {offset for (offset,) in tables.values('SELECT "offset" FROM messages')}
    return [row["offset"] for row in copies if row["offset"] not in stored]


@pytest.mark.parametrize("seed", seeds(1, 4))
def test_every_answer_after_the_opening_is_the_same(tmp_path, seed):
    play = RandomPlay(seed)
    recording = Recording(tmp_path, play.broker)
    updater, writer = ContentsUpdater(recording.place), SnapshotWriter(recording.place)
    live = []
    for day in range(6):
        play.steps(40)
        recording.commit()
        live.append([contents_of(play.broker), topology_at(tmp_path, None)])
        writer.write()
        updater.update()
        play.time_ms = (day + 1) * DAY_MS
        play.broker.at(play.time_ms)
    now = START + timedelta(days=5, hours=1)
    tables = Tables(str(tmp_path))
    clients = [list_channels(tables), list_consumers(tables)]

    periods = Periods(2 * DAY_MS, DAY_MS, 3 * DAY_MS)
    done = retain(recording.place, periods, now)

    assert {one.table for one in done} == {"events", "dead_letters", "messages"}
    assert all(one.rows > 0 for one in done)
    openings = {one.table: one.batch_id for one in done}
    for batch_id, seen in enumerate(live):
        if batch_id < openings["events"]:
            with pytest.raises(QueryError, match="nothing earlier is known"):
                resolve(Tables(str(tmp_path)), str(batch_id), no_time)
            with pytest.raises(QueryError, match="nothing earlier is known"):
                contents_at(tmp_path, Cut(batch_id))
        else:
            cut = Cut(batch_id)
            assert [contents_at(tmp_path, cut), topology_at(tmp_path, cut)] == seen
    found = balance(Tables(str(tmp_path)), whole=True)
    assert (found.findings, {row.surplus for row in found.queues}) == ([], {0})
    assert balance(Tables(str(tmp_path))).findings == []
    assert messages_of(tmp_path, live[-1][0]) == []
    tables = Tables(str(tmp_path))
    assert [list_channels(tables), list_consumers(tables)] == clients
    updater.rebuild()
    assert contents_at(tmp_path, None) == live[-1][0]
    assert retain(recording.place, periods, now) == []


def compact_all(recording):
    """Compact the small files of every table of the ledger."""
    for name in ("messages", "dead_letters", "events"):
        place, spec = recording.place / name, TABLES[name]
        files = small_files(spec, ActiveFiles(load_table(place)))
        for group in plan(files, 1 << 20, 3):
            assert compact(place, spec, group) is not None


def rebuild(recording, broker):
    """Replace the state of a broker by the one that the tables give, as a lost checkpoint is."""
    broker.store = rebuilt_store(recording, broker)
    broker.shard = broker.reopened()


def test_fifty_instants_stay_exact_across_snapshots_compactions_retention_and_rebuilds(tmp_path):
    """Every second instant is within a batch; rebuilds read whole tables, then trimmed ones."""
    play = RandomPlay(7)
    recording = Recording(tmp_path, play.broker)
    updater, writer = ContentsUpdater(recording.place), SnapshotWriter(recording.place)
    live = []
    trimmed = []

    def look(batch_id, *, is_end):
        broker = play.broker  # its history is long, and no copy needs it
        history = (broker.rows, broker.sentences, broker.outbound)
        seen = copy.deepcopy(broker, {id(one): [] for one in history})
        seen.finish()
        live.append(((batch_id, is_end), play.time_ms, contents_of(seen)))
        play.time_ms += play.chance.randrange(1, 2_000)
        play.broker.at(play.time_ms)

    for number in range(25):
        play.steps(play.chance.randrange(4, 12))
        look(number, is_end=False)
        play.steps(play.chance.randrange(4, 12))
        recording.commit()
        look(number, is_end=True)
        match number:
            case 2 | 8 | 16:
                writer.write()
            case 4 | 20:
                updater.update()
            case 5:  # a file that spans the snapshot of the retention run would stay
                compact_all(recording)
            case 18:
                until = START + timedelta(milliseconds=live[25][1])
                trimmed = retain(recording.place, Periods(events_ms=1_000), until)
            case 12 | 22:
                rebuild(recording, play.broker)
    compact_all(recording)
    [done] = trimmed

    assert len(live) == 50
    refused = 0
    for (batch_id, is_end), time_ms, seen in live:
        is_batch = is_end and batch_id % 2 == 0
        at = str(batch_id) if is_batch else str(START + timedelta(milliseconds=time_ms))
        try:
            cut = resolve(Tables(str(tmp_path)), at, datetime.fromisoformat)
        except QueryError:
            assert (batch_id, is_end) < (done.batch_id, True)
            refused += 1
            continue
        assert contents_at(tmp_path, cut) == seen, (at, batch_id, is_end)
    assert done.batch_id == 8
    assert refused >= done.batch_id


def test_a_quarter_of_a_year_of_messages_takes_the_space_of_the_last_days(tmp_path):
    broker = Broker()
    recording = Recording(tmp_path, broker)
    writer = SnapshotWriter(recording.place)
    broker.queue("work")
    broker.publish("", "work", "stays for ever")
    broker.get("work", "old", 1)
    sizes = []
    periods = Periods(7 * DAY_MS, 7 * DAY_MS, 7 * DAY_MS)
    for week in range(1, 14):
        broker.at(week * 7 * DAY_MS)
        for number in range(5):
            broker.publish("", "work", f"week {week} order {number}")
        broker.get("work", f"g{week}", 5)
        broker.ack(*(f"g{week}/{number}" for number in range(5)))
        recording.commit()
        if week % 4 == 0:
            writer.write()
            retain(recording.place, periods, START + timedelta(weeks=week))
            sizes.append((rows_in(recording, "messages"), rows_in(recording, "events")))

    assert max(messages for messages, _events in sizes[1:]) <= 5 * 8 + 1
    assert max(events for _messages, events in sizes[1:]) <= 8 * (3 * 5 + 5) + 5
    for wanted in ("3", "dlx.publishes/0/0"):
        with pytest.raises(QueryError, match="nothing earlier is known"):
            resolve(Tables(str(tmp_path)), wanted, no_time)
    resolve(Tables(str(tmp_path)), "12", no_time)
    found = balance(Tables(str(tmp_path)), whole=True)
    assert found.findings == []
    [work] = found.queues
    assert (work.published, work.ready + work.unacked, work.endings) == (66, 1, {"acked": 65})


def test_an_instant_within_the_last_removed_batch_is_refused(tmp_path):
    broker = Broker()
    recording = Recording(tmp_path, broker)
    broker.queue("work", message_ttl=5)
    for second in (0, 1):
        broker.at(second * 1_000)
        broker.publish("", "work", "order")
    recording.commit()
    SnapshotWriter(recording.place).write()
    broker.at(2_000)
    recording.commit()
    retain(recording.place, Periods(events_ms=1), START + timedelta(days=9))

    for at_ms, is_known in ((500, False), (1_000, True)):
        wanted = str(START + timedelta(milliseconds=at_ms))
        if is_known:
            cut = resolve(Tables(str(tmp_path)), wanted, datetime.fromisoformat)
            assert len(contents_at(tmp_path, cut)) == 1
            continue
        with pytest.raises(BeforeHistoryError, match="history begins at"):
            resolve(Tables(str(tmp_path)), wanted, datetime.fromisoformat)


def test_nothing_is_removed_before_the_first_snapshot(tmp_path):
    broker = Broker()
    recording = Recording(tmp_path, broker)
    broker.queue("work")
    recording.commit()

    assert retain(recording.place, Periods(1, 1, 1), START + timedelta(days=9)) == []


def test_a_dry_run_changes_nothing(tmp_path):
    broker = Broker()
    recording = Recording(tmp_path, broker)
    broker.queue("work")
    broker.publish("", "nowhere", "lost")
    recording.commit()
    SnapshotWriter(recording.place).write()
    before = rows_in(recording, "messages")

    [done] = retain(recording.place, Periods(messages_ms=1), START + timedelta(days=9), dry=True)

    assert (done.table, done.rows, done.kept) == ("messages", 1, 0)
    assert rows_in(recording, "messages") == before


def test_a_queue_has_a_period_of_its_own(tmp_path):
    broker = Broker()
    recording = Recording(tmp_path, broker)
    for name in ("noise", "audit"):
        broker.queue(name, message_ttl=1, dead_letter_exchange="")
        broker.publish("", name, "order")
    broker.at(10)
    recording.commit()
    SnapshotWriter(recording.place).write()
    broker.at(DAY_MS)
    recording.commit()
    periods = periods_of({"dead_letters": "90d", "dead_letters.noise": "1h"})

    [done] = retain(recording.place, periods, START + timedelta(days=2))

    assert (done.table, done.rows, done.kept) == ("dead_letters", 1, 1)
    tables = Tables(str(tmp_path))
    tables.view("dead_letters")
    assert tables.values("SELECT queue FROM dead_letters") == [("audit",)]


def log_entries(recording, name, version):
    """The files that a version of a table adds and removes: (path, dataChange)."""
    log = Path(recording.root) / name / "_delta_log" / f"{version:020d}.json"
    actions = [json.loads(line) for line in log.read_text().splitlines()]
    return [
        [(one[kind]["path"], one[kind]["dataChange"]) for one in actions if kind in one]
        for kind in ("add", "remove")
    ]


def test_delta_is_told_that_rows_are_gone_and_that_none_is_new(tmp_path):
    broker = Broker()
    recording = Recording(tmp_path, broker)
    broker.queue("work")
    for number in range(9):
        broker.publish("", "work", f"order {number}")
    broker.get("work", "g", 8)
    broker.ack(*(f"g/{number}" for number in range(8)))
    recording.commit()
    SnapshotWriter(recording.place).write()

    [done] = retain(recording.place, Periods(messages_ms=1), START + timedelta(days=9))

    table = load_table(recording.place / "messages")
    assert table.metadata().configuration["delta.appendOnly"] == "false"
    added, removed = log_entries(recording, "messages", table.version())
    assert (done.kept, [change for _path, change in added]) == (1, [False])
    assert [change for _path, change in removed] == [True]
    broker.publish("", "work", "later")
    recording.commit()  # by a handle that has not seen the removal
    assert rows_in(recording, "messages") == 2
    assert balance(Tables(str(tmp_path))).findings == []


@pytest.fixture
def kept_deaths(tmp_path):
    """One message died and was acked, one rests since; bodies and events were removed."""
    broker = Broker()
    recording = Recording(tmp_path, broker)
    broker.queue("dead")
    broker.queue("work", dead_letter_exchange="", dead_letter_routing_key="dead")
    for number in range(2):
        broker.publish("", "work", f"order {number}", message_id=f"order-{number}")
    broker.get("work", "g", 2)
    broker.reject("g/0", "g/1")
    broker.get("dead", "d", 1)
    broker.ack("d/0")
    recording.commit()
    SnapshotWriter(recording.place).write()
    retain(recording.place, Periods(1, 1), START + timedelta(days=9))
    return recording


def test_what_retention_left_of_a_message_is_told_with_when_the_rest_went(kept_deaths):
    tables = Tables(kept_deaths.root)
    acked, resting = (history_of(tables, f"order-{number}") for number in range(2))

    assert (acked.message, acked.forgotten.body) == (None, "removed")
    assert acked.forgotten.body_at == "2020-09-22T12:26:40.000Z"
    assert acked.forgotten.events_at == "2020-09-13T12:26:40.000Z"
    assert [event["kind"] for event in acked.events] == ["died"]
    assert ([death["body"] for death in acked.deaths.values()], acked.now) == (["order 0"], {})
    assert resting.message is not None
    assert [(row["queue"], row["state"]) for row in resting.opening] == [("dead", "ready")]
    assert list(resting.now.values()) == ["ready"]
    assert [(copy.queue, copy.end) for copy in copies_of(resting)] == [
        ("work", "died"),
        ("dead", None),
    ]
    with pytest.raises(QueryError, match=r"tables\.retention removed part of its history"):
        scenario_of(tables, resting)


@pytest.mark.parametrize("seed", seeds(1, 4))
def test_the_counters_of_a_job_keep_what_retention_removed(tmp_path, seed):
    play = RandomPlay(seed)
    recording = Recording(tmp_path, play.broker)
    writer = SnapshotWriter(recording.place)
    for day in range(4):
        play.steps(40)
        recording.commit()
        if day == 1:
            before = totals_through(Tables(str(tmp_path)), QUERY_ID, 3)
            writer.write()
            assert totals_through(Tables(str(tmp_path)), QUERY_ID, 3) == before
        play.time_ms = (day + 1) * DAY_MS
        play.broker.at(play.time_ms)
    before = totals_through(Tables(str(tmp_path)), QUERY_ID, 3)
    writer.write()

    done = retain(recording.place, Periods(1, 1, 1), START + timedelta(days=9))

    assert {one.table for one in done} == {"events", "dead_letters", "messages"}
    assert totals_through(Tables(str(tmp_path)), QUERY_ID, 3) == before


def test_a_message_of_which_nothing_is_left_may_have_been_removed(kept_deaths):
    with pytest.raises(QueryError, match=r"or tables\.retention removed it \(rows up to batch 0"):
        history_of(Tables(kept_deaths.root), "0/0/9")


def test_what_became_of_redriven_letters_stays_known(tmp_path):
    shop = Shop(tmp_path)
    shop.approve(shop.plan())
    given = shop.broker.get("work", "g", 3)
    shop.broker.ack(*(one.ref for one in given[:2]))
    shop.broker.reject(given[2].ref)
    shop.recording.commit()
    SnapshotWriter(shop.recording.place).write()
    [before] = list_redrives(Tables(str(tmp_path)))

    [done] = retain(shop.recording.place, Periods(events_ms=1), START + timedelta(days=9))

    assert done.rows > 0
    assert (before["acked"], before["died"], before["waiting"]) == (2, 1, 1)
    assert list_redrives(Tables(str(tmp_path))) == [before]
    assert shop.plan(gone=True).groups == []  # the one that died again is in its queue
    assert balance(Tables(str(tmp_path)), whole=True).findings == []


def test_letters_in_no_queue_can_be_published_again_after_retention(tmp_path):
    shop = Shop(tmp_path)
    given = shop.broker.get("dead", "d", 2)
    shop.broker.ack(given[0].ref)
    shop.recording.commit()
    before = {one.now_in: one.letters for one in shop.plan(gone=True).groups}
    SnapshotWriter(shop.recording.place).write()
    shop.broker.ack(given[1].ref)
    shop.recording.commit()
    SnapshotWriter(shop.recording.place).write()

    [done] = retain(shop.recording.place, Periods(events_ms=1), START + timedelta(days=9))

    assert (done.rows > 0, before) == (True, {"dead": 1})
    plan = shop.plan(gone=True)
    assert {one.now_in: one.letters for one in plan.groups} == {"dead": 2}
    assert len(shop.plan().sealed.letters) == 2
    assert shop.approve(plan)["moved"] == 2
    shop.recording.commit()
    assert shop.plan(gone=True).groups == []
    assert sorted(shop.broker.drain("work")) == ["m0", "m1"]


def test_discarded_letters_can_be_restored_after_retention(tmp_path):
    shop = Shop(tmp_path)
    discard = RedriveOptions(action="discard")
    shop.approve(shop.plan(options=discard))
    shop.recording.commit()
    SnapshotWriter(shop.recording.place).write()

    [done] = retain(shop.recording.place, Periods(events_ms=1), START + timedelta(days=9))

    assert done.rows > 0
    assert len(shop.plan(options=RedriveOptions(action="restore")).sealed.letters) == 4


def test_the_earliest_instant_that_is_known_is_that_of_the_opening(tmp_path):
    broker = Broker()
    recording = Recording(tmp_path, broker)
    broker.queue("work")
    broker.publish("", "work", "order")
    recording.commit()
    assert earliest_event_s(Tables(str(tmp_path))) == START_MS / 1000
    broker.at(DAY_MS)
    broker.publish("", "work", "order")
    recording.commit()
    SnapshotWriter(recording.place).write()

    retain(recording.place, Periods(events_ms=1), START + timedelta(days=9))

    assert earliest_event_s(Tables(str(tmp_path))) == (START_MS + DAY_MS) / 1000
