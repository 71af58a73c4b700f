"""Does a front fold all of a log that somebody else is still writing?"""

import asyncio
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import msgspec
import pytest

from streaming.amqp.entries import Ask, Publish, Then
from streaming.amqp.errors import AmqpError
from streaming.amqp.login import Client, Users
from streaming.amqp.outgoing import Confirms
from streaming.amqp.server import Server
from streaming.amqp.stored import Stored
from streaming.broker import commands
from streaming.broker.events import Actor
from streaming.broker.message import Publication
from streaming.broker.sequence.log_fold import Terms
from streaming.protocol.log_records import LogKind, read_header
from streaming.sequencer import front, front_log, job_lag, terms_of_job, waiting
from streaming.sequencer.bodies import MessageGoneError
from streaming.sequencer.front import Front
from streaming.sequencer.job_lag import LagMarks
from streaming.sequencer.leader_heartbeats import BEAT_S, Beat, HeardLeaders
from streaming.sequencer.log_reader import LogUnreadableError, RawRecord
from streaming.sequencer.log_vhost import LogVhost
from streaming.sequencer.log_writer import Acknowledged
from streaming.sequencer.settings import FrontSettings
from streaming.sequencer.snapshots import LogIdentity, Snapshot, Snapshots
from streaming.storage.port import StoreError
from tests.log_port import CONFIG, TERMS, LogPort
from topology.declarations import Queue

CLIENT = Actor("guest", "c1")
OUT_OF_RANGE = LogUnreadableError("the log log cannot be read: offset out of range")
LOG = "log"


class BusyLog:
    """A log whose end moves on while a front reads: a read returns more than `ends` promised.

    Real Kafka does the same, but not on demand.
    """

    def __init__(self, records: list[RawRecord], end: int) -> None:
        self.records = records
        self.end = end
        self.topic_id = "first"
        self.refused: set[int] = set()  # numbers of appends that the producer does not take
        self.leaders = LeadersInMemory()
        self.takes_beats = True
        self.said: list[Beat] = []
        self.committed: int | None = None
        self.job_terms: Terms | None = None
        self.held: list[Callable[[], None]] = []
        self.held_until = 0  # so many records are acknowledged together
        self.resting: set[BusyReader] = set()
        self.faults: list[Exception] = []  # of the next reads: what they look for was trimmed
        self.away = 0  # so many of the next questions for the ends have no answer
        self.answered_s: list[float] = []  # when the others had one

    def of(self, _vhost):
        """How far the job is."""
        return self.committed

    def terms_of(self, _vhost):
        """How the job folds the log."""
        return self.job_terms

    def close(self):
        """End listening to the job."""

    def reader(self, _properties, _topic):
        """A reader of it."""
        return BusyReader(self)

    def writer(self, _properties, acknowledged, _failed):
        """A writer of it."""
        return BusyWriter(self, acknowledged)


class BusyReader:
    def __init__(self, log: BusyLog) -> None:
        self._log = log
        self._position: int | None = 0

    def identity(self, vhost):
        return LogIdentity(vhost, LOG, "cluster", self._log.topic_id)

    def ends(self):
        if self._log.away:
            self._log.away -= 1
            raise LogUnreadableError("the log log cannot be read: Local: Timed out")
        self._log.answered_s.append(time.monotonic())
        return 0, self._log.end

    def seek(self, offset):
        self._position = offset
        self._log.resting.discard(self)

    def read(self, _timeout_s):
        assert self._position is not None, "it rests"
        if self._log.faults:
            raise self._log.faults.pop()
        found = self._log.records[self._position :]
        self._position = len(self._log.records)
        return found

    def close(self):
        self._position = None
        self._log.resting.add(self)


class BusyWriter:
    def __init__(self, log, acknowledged):
        self._log = log
        self.acknowledged = acknowledged
        self.count = self.tries = 0
        self.said_s: float | None = None

    def __len__(self):
        return 0

    def say(self, _topic, key, value, _at_ms):
        beat = msgspec.msgpack.decode(value, type=Beat)
        self._log.said.append(beat)
        if self._log.takes_beats:
            self.said_s = time.monotonic()
            self._log.leaders.note(key, beat, self.said_s)

    def append(self, _topic, records):
        taken = 0
        for record in records:
            self.tries += 1
            if self.tries in self._log.refused:
                return taken
            taken += 1
            self.count += 1
            named = dict(record.headers)
            value, content = record.value or b"", named.get("dlx-content")
            offset = len(self._log.records)
            raw = RawRecord(offset, record.at_ms, named["dlx-log"], content, value)
            self._log.records.append(raw)
            self._log.end = len(self._log.records)
        news = {LOG: Acknowledged(self.count, len(self._log.records) - 1)}
        self._log.held.append(partial(self.acknowledged, news))
        if len(self._log.held) >= self._log.held_until:
            self._log.held_until = 0
            for told in self._log.held:
                asyncio.get_running_loop().call_soon(told)
            self._log.held.clear()
        return taken

    def appended(self, _topic):
        return self.count

    def close(self, _timeout_s):
        return True


class LeadersInMemory(HeardLeaders):
    """Heartbeats that do not go through Kafka."""

    is_current = True

    def close(self):
        """End listening to them."""


def a_log_of(messages: int) -> list[RawRecord]:
    """What a leader wrote that published some messages."""
    port = LogPort()
    vhost = port.open()
    vhost.acknowledged(port.write())
    vhost.submit(Ask(CLIENT, commands.OpenChannel(channel="c1", connection="n1")))
    vhost.submit(Ask(CLIENT, commands.DeclareQueue(queue=Queue("q"), channel="c1")))
    for _ in range(messages):
        stored = Stored(b"\0\0", b"body")
        vhost.submit(Publish(CLIENT, Publication("", "q"), stored, 0, 0, Confirms()))
    port.run()
    vhost.acknowledged(port.write())
    return port.records


@pytest.fixture
def log(monkeypatch):
    """A log of ten messages that has grown by four since a front asked for its end."""
    records = a_log_of(10)
    log = BusyLog(records, len(records) - 4)
    monkeypatch.setattr(front_log, "LogReader", log.reader)
    monkeypatch.setattr(front, "LogWriter", log.writer)
    monkeypatch.setattr(front, "Leaders", lambda _properties, _topic: log.leaders)
    monkeypatch.setattr(front, "JobProgress", lambda _properties, _topics: log)
    return log


def a_front(
    folder: Path,
    name: str = "new",
    *,
    standby: bool = False,
    snapshot_records: int = 200_000,
    takeover_ms: int = 3_000,
    vhosts: tuple[str, ...] = ("/",),
) -> Front:
    """A front that has not begun."""
    settings = FrontSettings(
        properties={},
        logs=dict.fromkeys(vhosts, LOG),
        shards=dict.fromkeys(vhosts, CONFIG),
        leaders_topic="leaders",
        name=name,
        checkpoint=folder,
        standby=standby,
        takeover_ms=takeover_ms,
        lag_marks=LagMarks(bytes=1_000),
        snapshot_records=snapshot_records,
        snapshot_ms=100,
    )
    return Front(settings, Server({}, Users.default(), lambda _user, _vhost: True), {})


async def has_led(new: Front) -> LogVhost:
    """Wait until a front leads; its vhost."""
    new.start()
    ends = [asyncio.ensure_future(each.wait()) for each in (new.leads, new.ended)]
    await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED, timeout=30)
    for each in ends:
        each.cancel()
    assert new.reason is None
    vhost = new.server.vhosts["/"]
    assert isinstance(vhost, LogVhost)
    return vhost


def test_what_is_written_while_a_front_starts_is_folded(log, tmp_path):
    async def start() -> tuple[int, int]:
        new = a_front(tmp_path)
        vhost = await has_led(new)
        found = vhost.ready_in("q"), vhost.position
        await until(lambda: len(log.resting) == 1)  # a leader does not read what it writes
        await new.stop()
        return found

    assert asyncio.run(start()) == (10, len(log.records))


def test_of_hundreds_of_logs_a_few_are_opened_at_once(log, tmp_path, monkeypatch):
    opening: list[int] = []
    opened: list[int] = []

    def identity(_reader: BusyReader, vhost: str) -> LogIdentity:
        opening.append(len(opening) + 1 - len(opened))
        time.sleep(0.02)
        opened.append(1)
        return LogIdentity(vhost, LOG, "cluster", log.topic_id)

    monkeypatch.setattr(BusyReader, "identity", identity)

    async def start() -> None:
        new = a_front(tmp_path, vhosts=tuple(f"v{number}" for number in range(50)))
        new.start()
        await until(lambda: len(opened) == 50)
        await new.stop()

    asyncio.run(start())

    assert max(opening) <= front.OPENED_AT_ONCE


def test_what_a_full_producer_did_not_take_is_appended_soon(log, tmp_path):
    log.refused = {4}  # the second publish of a turn

    async def publish() -> int:
        new = a_front(tmp_path)
        vhost = await has_led(new)
        opening = commands.OpenChannel(channel="c1", connection="n1")
        vhost.submit(Ask(CLIENT, opening))
        done = asyncio.Event()
        vhost.submit(Then(done.set))
        await done.wait()
        done.clear()
        for _ in range(2):
            entry = Publish(CLIENT, Publication("", "q"), Stored(b"\0\0", b"x"), 0, 0, Confirms())
            vhost.submit(entry)
        vhost.submit(Then(done.set))
        await asyncio.wait_for(done.wait(), 30)
        await new.stop()
        return vhost.ready_in("q")

    assert asyncio.run(publish()) == 12


def test_a_record_from_before_is_not_taken_for_an_epoch_record_that_waits(log, tmp_path):
    log.refused = {1}  # the epoch record, once

    async def lead() -> int:
        new = a_front(tmp_path)
        writer = new.writer
        assert isinstance(writer, BusyWriter)
        writer.count = 3  # an earlier vhost on this log, which was dropped and added again
        new.start()
        await until(lambda: writer.tries == 1)
        writer.acknowledged({LOG: Acknowledged(3, len(log.records) - 1)})
        await asyncio.wait_for(new.leads.wait(), 30)
        vhost = new.server.vhosts["/"]
        assert isinstance(vhost, LogVhost)
        await new.stop()
        return vhost.epoch

    epoch = asyncio.run(lead())

    assert kind_of(log.records[epoch]) == LogKind.EPOCH


def test_publishers_wait_while_the_job_is_behind_and_settlements_pass(log, tmp_path, monkeypatch):
    monkeypatch.setattr(job_lag, "RESTART_S", 1.0)
    log.committed = 0

    async def run() -> tuple[list[str | None], list[int]]:
        new = a_front(tmp_path)
        vhost = await has_led(new)
        await applied(vhost, Ask(CLIENT, commands.OpenChannel(channel="c1", connection="n1")))
        await until(lambda: new.server.pressure() is None)
        for _ in range(30):
            await applied(vhost, a_publish(b"x" * 100))
        heard = []
        await until(lambda: new.server.is_blocked)
        heard.append(new.server.pressure())
        left = [vhost.ready_in("q")]
        await applied(vhost, Ask(CLIENT, commands.Purge(queue="q", channel="c1")))
        left.append(vhost.ready_in("q"))
        log.committed = len(log.records)
        await until(lambda: not new.server.is_blocked)
        await applied(vhost, *[a_publish(b"x" * 100) for _ in range(20)])
        await until(lambda: new.server.is_blocked)
        log.committed = None  # the job has ended
        await until(lambda: not new.server.is_blocked)
        await new.stop()
        return heard, left

    assert asyncio.run(run()) == (["the job is behind"], [40, 0])


@pytest.mark.parametrize(
    ("job", "said"),
    [
        (TERMS, "broker core {0.core_version}, and this front {1.core_version}"),
        (TERMS._replace(core_version=1 + TERMS.core_version, rules="x"), "(hash x, and {1.rules}"),
        (TERMS._replace(core_version=1 + TERMS.core_version), None),
        (None, None),
    ],
    ids=["of another core", "of other settings", "like the front", "none"],
)
def test_a_front_of_other_terms_does_not_begin_beside_a_job_of_the_old(
    log, tmp_path, monkeypatch, job, said
):
    monkeypatch.setattr(terms_of_job, "LISTEN_S", 0.2)

    async def life() -> str | None:
        old = a_front(tmp_path)
        await has_led(old)
        await old.stop()  # it leaves a snapshot at the end of its log
        monkeypatch.setattr("streaming.config.shards.CORE_VERSION", 1 + TERMS.core_version)
        log.job_terms = job
        before = len(log.records)
        new = a_front(tmp_path)
        new.start()
        ends = [asyncio.ensure_future(each.wait()) for each in (new.leads, new.ended)]
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED, timeout=30)
        reason, written = new.reason, len(log.records) - before
        assert new.leads.is_set() == (written > 0) == (reason is None)
        await new.stop()
        return reason

    reason = asyncio.run(life())

    if said is None:
        assert reason is None
    else:
        here = TERMS._replace(core_version=1 + TERMS.core_version)
        assert said.format(TERMS, here) in str(reason)


def a_publish(body: bytes) -> Publish:
    return Publish(CLIENT, Publication("", "q"), Stored(b"\0\0", body), 0, 0, Confirms())


async def applied(vhost: LogVhost, *entries: Ask | Publish) -> None:
    done = asyncio.Event()
    for entry in entries:
        vhost.submit(entry)
    vhost.submit(Then(done.set))
    await asyncio.wait_for(done.wait(), 30)


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not holds():  # noqa: ASYNC110 - a front looks at it a few times a second
            await asyncio.sleep(0.05)


@pytest.mark.usefixtures("log")
def test_a_client_may_try_another_front_when_this_one_leads_no_more(tmp_path):
    async def refusals() -> list[str]:
        new = a_front(tmp_path)
        vhost = await has_led(new)
        vhost.fail("another front leads it")
        found = [refusal(new.server, name) for name in ("/", "none")]
        await new.stop()
        return found

    assert asyncio.run(refusals()) == [
        "320 CONNECTION_FORCED - vhost '/' is served by another front now",
        "530 NOT_ALLOWED - vhost none not found",
    ]


def test_a_front_does_not_go_on_with_the_state_of_a_topic_that_was_made_again(log, tmp_path):
    async def a_life() -> str | None:
        new = a_front(tmp_path)
        new.start()
        ends = [asyncio.ensure_future(each.wait()) for each in (new.leads, new.ended)]
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED, timeout=30)
        await new.stop()
        return new.reason

    assert asyncio.run(a_life()) is None
    log.topic_id = "second"
    written = len(log.records)

    reason = asyncio.run(a_life())

    assert reason is not None
    assert "with the id first of the Kafka cluster" in reason
    assert "deleted" in reason
    assert len(log.records) == written, "it wrote nothing"


def test_of_two_standbys_that_take_over_at_once_one_leads_and_the_other_stands_by(log, tmp_path):
    log.held_until = 2  # both have appended their epoch records when the first hears of its own

    async def race() -> tuple[int, list[str | None], list[int]]:
        fronts = [a_front(tmp_path, name, standby=True) for name in ("a", "b")]
        for each in fronts:
            each.start()
        for each in fronts:
            await asyncio.wait_for(each.leads.wait(), 30)
        begin_s = time.monotonic()
        while sum("/" in each.server.vhosts for each in fronts) != 1:
            assert time.monotonic() < begin_s + 30
            await asyncio.sleep(0.05)
        reasons = [each.reason for each in fronts]
        [leader] = [each for each in fronts if "/" in each.server.vhosts]
        [other] = [each for each in fronts if each is not leader]
        leading = leader.server.vhosts["/"]
        assert isinstance(leading, LogVhost)
        epochs = [raw.offset for raw in log.records if kind_of(raw) == LogKind.EPOCH]
        other.leads.clear()
        await leader.stop()
        await asyncio.wait_for(other.leads.wait(), 30)  # it has stood by
        heir = other.server.vhosts["/"]
        assert heir.ready_in("q") == 10
        await other.stop()
        return leading.epoch, reasons, epochs

    epoch, reasons, epochs = asyncio.run(race())

    assert epoch == epochs[-1], "the later epoch record counts"
    assert reasons == [None, None]
    assert len(epochs) == 3, "that of the log's first writer, and one of each"


def test_of_two_standbys_that_begin_a_new_log_at_once_only_one_ever_takes_clients(log, tmp_path):
    log.records.clear()
    log.end = 0
    log.held_until = 2  # both have appended their epoch records when the first hears of its own

    async def race() -> tuple[int, list[str | None], list[bool]]:
        fronts = [a_front(tmp_path, name, standby=True) for name in ("a", "b")]
        for each in fronts:
            each.start()
        led = [asyncio.ensure_future(each.leads.wait()) for each in fronts]
        await asyncio.wait(led, return_when=asyncio.FIRST_COMPLETED, timeout=30)
        await asyncio.sleep(2 * BEAT_S)  # so the other had the time, too
        leads = [each.leads.is_set() for each in fronts]
        [vhost] = [each.server.vhosts["/"] for each in fronts if "/" in each.server.vhosts]
        assert isinstance(vhost, LogVhost)
        reasons = [each.reason for each in fronts]
        for each in reversed(fronts):
            await each.stop()
        for waits in led:
            waits.cancel()
        return vhost.epoch, reasons, leads

    epoch, reasons, leads = asyncio.run(race())

    assert epoch == 1, "the later epoch record counts"
    assert reasons == [None, None]
    assert sum(leads) == 1


@pytest.mark.parametrize("ends", [False, True])
def test_heartbeats_of_another_log_do_not_decide_who_leads_this_one(log, tmp_path, ends):
    others = [("log", "before"), ("another", "first")]  # made again since, or of another job
    for topic, topic_id in others:
        log.leaders.note("/", Beat("old", 50_000, ends, topic, topic_id), time.monotonic())

    async def life() -> tuple[str | None, bool]:
        new = a_front(tmp_path)
        await has_led(new)
        first = log.leaders.of("/", LOG, "first")
        assert first is not None, "who looks for it hears it, whatever the others say"
        assert (first.beat.name, first.beat.ends) == ("new", False)
        for topic, topic_id in others:
            log.leaders.note("/", Beat("old", 50_000, ends, topic, topic_id), time.monotonic())
        await until(lambda: log.leaders.of("/", LOG, "first") not in (None, first))
        found = new.reason, "/" in new.server.vhosts
        await new.stop()
        return found

    assert asyncio.run(life()) == (None, True)


def test_a_standby_that_hears_no_heartbeats_waits_while_the_leader_writes(log, tmp_path):
    log.takes_beats = False

    async def lives() -> tuple[int, int]:
        leader = a_front(tmp_path)
        vhost = await has_led(leader)
        log.end = len(log.records)
        standby = a_front(tmp_path, "standby", standby=True)
        standby.start()
        await applied(vhost, Ask(CLIENT, commands.OpenChannel(channel="c1", connection="n1")))
        for _ in range(40):  # for longer than a takeover takes
            await applied(vhost, a_publish(b"x"))
            await asyncio.sleep(0.1)
        written = len(log.records)
        await asyncio.wait_for(standby.leads.wait(), 30)
        heir = standby.server.vhosts["/"]
        assert isinstance(heir, LogVhost)
        await standby.stop()
        await leader.stop()
        return written, heir.epoch

    written, epoch = asyncio.run(lives())

    assert epoch >= written


def test_a_leader_has_its_time_to_come_back_to_a_kafka_that_was_away(log, tmp_path):
    async def takes_over() -> float:
        standby = a_front(tmp_path, standby=True, takeover_ms=1_000)
        standby.start()
        await until(lambda: bool(log.answered_s))  # it has opened its log
        log.answered_s.clear()
        log.away = 2
        await asyncio.wait_for(standby.leads.wait(), 30)
        await standby.stop()
        back_s, asked_again_s, *_ = map(float, log.answered_s)
        return asked_again_s - back_s

    assert asyncio.run(takes_over()) >= 1.0, "it hears nobody for that long while Kafka answers"


@pytest.mark.parametrize("fault", [OUT_OF_RANGE, MessageGoneError("a fold needs it")])
def test_a_standby_that_slept_while_its_log_was_trimmed_opens_it_again(
    log, tmp_path, caplog, fault
):
    async def lives() -> tuple[str | None, int]:
        leader = a_front(tmp_path)
        await has_led(leader)
        log.end = len(log.records)
        standby = a_front(tmp_path, "standby", standby=True)
        standby.start()
        await until(lambda: standby.states()["/"].next_offset == log.end)
        log.faults = [fault]
        await until(lambda: "The standby opens it again" in caplog.text)
        await leader.stop()
        log.end = len(log.records)
        await asyncio.wait_for(standby.leads.wait(), 30)
        heir = standby.server.vhosts["/"]
        found = standby.reason, heir.ready_in("q")
        await standby.stop()
        return found

    assert asyncio.run(lives()) == (None, 10)


def test_a_leader_that_slept_while_its_log_was_trimmed_follows_it_again(log, tmp_path):
    async def life() -> tuple[str | None, int, int]:
        front_ = a_front(tmp_path, standby=True)
        vhost = await has_led(front_)
        log.faults = [OUT_OF_RANGE]
        log.records.append(log.records[-1]._replace(offset=len(log.records), header=b"foreign"))
        vhost.submit(a_publish(b"x"))
        await until(lambda: front_.states()["/"].losses == 1)
        log.end = len(log.records)
        await until(lambda: front_.server.vhosts.get("/") not in (None, vhost))
        heir = front_.server.vhosts["/"]
        found = front_.reason, heir.ready_in("q"), front_.states()["/"].takeovers
        await front_.stop()
        return found

    assert asyncio.run(life()) == (None, 10, 2)


def test_a_start_while_kafka_answers_late_waits_and_names_no_other_front(
    log, tmp_path, monkeypatch, caplog
):
    log.end = len(log.records)
    waits = "it waits for Kafka, which does not say at once who leads"

    async def life() -> str | None:
        new = a_front(tmp_path, takeover_ms=200)
        with monkeypatch.context() as patch:
            patch.setattr(waiting, "_PROMPT_S", -1.0)  # no answer is fast enough
            new.start()
            await until(lambda: waits in caplog.text)
        await asyncio.wait_for(new.leads.wait(), 30)
        await new.stop()
        return new.reason

    assert asyncio.run(life()) is None
    assert caplog.text.count(waits) == 1


def test_a_start_beside_a_front_that_leads_ends_and_names_it(log, tmp_path):
    async def lives() -> str | None:
        first, second = a_front(tmp_path, "first"), a_front(tmp_path, "second", takeover_ms=1_000)
        await has_led(first)
        log.end = len(log.records)
        second.start()
        await asyncio.wait_for(second.ended.wait(), 30)
        await second.stop()
        await first.stop()
        return second.reason

    reason = asyncio.run(lives())

    assert reason is not None
    assert reason.startswith("vhost /: first leads it. Stop that first")


def test_a_start_that_cannot_read_its_log_ends(log, tmp_path):
    log.faults = [OUT_OF_RANGE]

    async def life() -> str | None:
        new = a_front(tmp_path, standby=True)
        new.start()
        await asyncio.wait_for(new.ended.wait(), 30)
        await new.stop()
        return new.reason

    assert asyncio.run(life()) == "the log log cannot be read: offset out of range"


def test_a_snapshot_that_was_not_written_is_written_soon(log, tmp_path, monkeypatch):
    monkeypatch.setattr(front_log, "SNAPSHOT_AGAIN_S", 0.1)
    broken = [True]
    tries = breaking(monkeypatch, broken)

    async def life() -> tuple[int | None, str | None]:
        new = a_front(tmp_path, snapshot_records=1)
        vhost = await has_led(new)
        await applied(vhost, Ask(CLIENT, commands.OpenChannel(channel="c1", connection="n1")))
        await until(lambda: len(tries) >= 2)
        assert new.states()["/"].snapshot_s is None
        broken[0] = False
        await until(lambda: new.states()["/"].snapshot_s is not None)
        await new.stop()
        return new.states()["/"].snapshot_at, new.reason

    at, reason = asyncio.run(life())

    assert reason is None
    assert at == len(log.records)


@pytest.mark.usefixtures("log")
def test_a_stop_that_leaves_no_snapshot_says_so(tmp_path, monkeypatch):
    breaking(monkeypatch, [True])

    async def life() -> str | None:
        new = a_front(tmp_path)
        await has_led(new)
        await new.stop()
        return new.reason

    assert asyncio.run(life()) == (
        "vhost /: no snapshot was written: the store is full. The next start folds the log from "
        "the one before"
    )


def test_the_snapshot_of_a_stop_is_the_end_of_the_log(log, tmp_path, monkeypatch):
    write = Snapshots.write

    def write_slowly(self: Snapshots, taken: Snapshot, job_at: int | None = None) -> None:
        time.sleep(1)
        write(self, taken, job_at)

    monkeypatch.setattr(Snapshots, "write", write_slowly)

    async def life() -> int:
        new = a_front(tmp_path)
        vhost = await has_led(new)
        brief = Queue("brief", arguments={"x-message-ttl": 300})
        vhost.submit(Ask(CLIENT, commands.OpenChannel(channel="c1", connection="n1")))
        vhost.submit(Ask(CLIENT, commands.DeclareQueue(queue=brief, channel="c1")))
        vhost.submit(Ask(CLIENT, commands.Consume(queue="brief", label="tag", channel="c1")))
        stored = Stored(b"\0\0", b"body")
        await applied(vhost, Publish(CLIENT, Publication("", "brief"), stored, 0, 0, Confirms()))

        async def end_connections(_reason: str) -> None:
            """Let the message return to its queue, in which it expires soon."""
            vhost.submit(Ask(CLIENT, commands.CloseConnection(connection="n1")))

        monkeypatch.setattr(new.server, "close_connections", end_connections)
        await new.stop()
        vhost.submit(Ask(CLIENT, commands.OpenChannel(channel="c2", connection="n2")))
        await asyncio.sleep(0.01)
        return new.states()["/"].snapshot_at

    assert asyncio.run(life()) == len(log.records)


def test_a_vhost_that_begins_to_lead_while_a_stop_waits_leaves_a_snapshot_too(
    log, tmp_path, monkeypatch
):
    async def life() -> int:
        new = a_front(tmp_path)

        async def close(_reason: str) -> None:
            await has_led(new)

        monkeypatch.setattr(new.server, "close", close)
        await new.stop()
        return new.states()["/"].snapshot_at

    assert asyncio.run(life()) == len(log.records)


def test_a_standby_that_is_replaced_while_it_ends_does_not_begin_again(log, tmp_path, monkeypatch):
    begun, goes_on = threading.Event(), threading.Event()

    def write_slowly(_self: Snapshots, _taken: Snapshot, _job_at: int | None = None) -> None:
        begun.set()
        goes_on.wait(30)

    monkeypatch.setattr(Snapshots, "write", write_slowly)

    async def life() -> str | None:
        new = a_front(tmp_path, standby=True)
        vhost = await has_led(new)
        stopped = asyncio.ensure_future(new.stop())
        await asyncio.to_thread(begun.wait, 30)
        vhost.fail("another front leads it")
        goes_on.set()
        await stopped
        await asyncio.sleep(0)
        return new.reason

    assert asyncio.run(life()) is None
    assert not any(beat.ends for beat in log.said), "the other one does not end"


def breaking(monkeypatch: pytest.MonkeyPatch, broken: list[bool]) -> list[int]:
    """Let snapshots fail while `broken` says so; the offsets of those that were to be written."""
    write, tries = Snapshots.write, []

    def fail_or_write(self: Snapshots, taken: Snapshot, job_at: int | None = None) -> None:
        tries.append(taken.next_offset)
        if broken[0]:
            raise StoreError("the store is full")
        write(self, taken, job_at)

    monkeypatch.setattr(Snapshots, "write", fail_or_write)
    return tries


def test_heartbeats_go_on_while_a_turn_of_the_front_is_long(log, tmp_path):
    async def life() -> None:
        new = a_front(tmp_path)
        await has_led(new)
        before = len(log.said)
        deadline_s = time.monotonic() + 30
        while len(log.said) < before + 2:  # nothing else runs in the event loop
            assert time.monotonic() < deadline_s
            time.sleep(0.01)  # noqa: ASYNC251 - the long turn
        await new.stop()

    asyncio.run(life())

    assert [beat.ends for beat in log.said[-2:]] == [False, True], "and end with the front"


def kind_of(raw: RawRecord) -> int:
    return read_header(raw.header).kind


def refusal(server: Server, vhost_name: str) -> str:
    user = server.login("PLAIN", b"\0guest\0guest", Client(is_loopback=True))
    with pytest.raises(AmqpError) as refused:
        server.open_vhost(vhost_name, user)
    return str(refused.value)
