"""Fronts replace each other at any moment: does one log decide everything?

    front --append--> on its way --> the log --> acknowledged, later --> applied, clients are told

Any front may be slow, or dead, or replaced, between any two of these steps; what a dead one had on
its way may come into the log long afterwards.
"""

from collections import Counter, deque
from collections.abc import Callable, Collection
from concurrent.futures import Future
from typing import Final

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from streaming.amqp.clocks import START_MS
from streaming.amqp.entries import Ask, Publish, Settle
from streaming.amqp.outgoing import Confirms
from streaming.amqp.stored import Stored
from streaming.broker import commands
from streaming.broker.commands import SettleOutcome
from streaming.broker.events import ENDINGS, Actor, Kind
from streaming.broker.message import CONFIRM, Publication
from streaming.broker.outbound import AnswerOut, ConfirmOut, DeliveryOut, Outbound
from streaming.broker.sequence import digest
from streaming.protocol.log_records import CONTENT, LOG, read_header
from streaming.sequencer.bodies import Bodies, Fetched, stored_from
from streaming.sequencer.log_reader import RawRecord
from streaming.sequencer.log_vhost import LogVhost, Role
from streaming.sequencer.log_writer import Acknowledged
from streaming.sequencer.records import Record
from streaming.sequencer.verify import RangeFold
from tests.log_port import CONFIG, TERMS
from topology.declarations import Queue

FRONTS: Final = 2
BODY_BYTES: Final = 2_000
"""A few messages stay in memory, and others are read from the log."""

QUEUES: Final = (
    Queue(
        "work",
        arguments={
            "x-queue-type": "quorum",
            "x-dead-letter-exchange": "",
            "x-dead-letter-routing-key": "dead",
            "x-dead-letter-strategy": "at-least-once",
            "x-overflow": "reject-publish",
            "x-message-ttl": 2_000,
        },
    ),
    Queue("dead", arguments={"x-max-length": 2, "x-overflow": "reject-publish"}),
    Queue("mine", durable=False, exclusive=True),
)


@pytest.fixture(autouse=True, scope="module")
def short_segments():
    """Let digests be written and compared."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(digest, "SEGMENT", 8)
        yield


class Log:
    """The one log, the checkpoint beside it, and what somebody finds in it who only reads.

    Attributes:
        shorts: by offset, what had come of the records before it.
        kinds: by offset of a message, what happened to it.
        ended: by copy, how often it ended.
        strays: what dead processes had on their way.
    """

    def __init__(self) -> None:
        self.records: list[RawRecord] = []
        self.now_ms = START_MS
        self.snapshots: dict[int, dict[str, bytes]] = {0: {}}
        self.strays: deque[Record] = deque()
        self.kinds: dict[int, set[Kind]] = {}
        self.ended: Counter[int] = Counter()
        self._reader = RangeFold(CONFIG, _no_fetch, terms=TERMS)
        self.shorts = [self._reader.fold.in_short()]

    def add(self, record: Record) -> int:
        """Take a record of anybody; return its offset."""
        headers = dict(record.headers)
        offset = len(self.records)
        body = record.value or b""
        raw = RawRecord(offset, record.at_ms, headers[LOG], headers.get(CONTENT), body)
        self.records.append(raw)
        fold = self._reader.fold
        self._reader.take(raw)
        self.shorts.append(fold.in_short())
        fold.take_outbound()
        events = fold.take_events()
        for row, (kind, copy) in enumerate(zip(events.kinds, events.copies, strict=True)):
            if copy is not None:
                self.kinds.setdefault(copy.message.offset, set()).add(Kind(kind))
                self.ended[copy.copy_id] += kind in ENDINGS
            elif row in events.messages:
                message, _envelope = events.messages[row]
                self.kinds.setdefault(message.offset, set()).add(Kind(kind))
        return offset


def _no_fetch(offset: int) -> "Future[Fetched]":
    raise AssertionError(f"nobody needs the message at {offset}")


class Client:
    """A client of one leader: it publishes with confirms, and consumes."""

    def __init__(self, log: Log, vhost: LogVhost, name: str) -> None:
        self._log = log
        self._vhost = vhost
        self._actor = Actor("guest", name)
        self._confirms = Confirms()
        self._unsettled: deque[int] = deque()
        vhost.listen(name, self)
        self._ask(commands.OpenChannel(channel=name, connection=f"n{name}"))
        for queue in QUEUES:
            self._ask(commands.DeclareQueue(queue=queue, channel=name))
        self._ask(commands.Consume(queue="work", label="tag", prefetch=3, channel=name))

    def _ask(self, command: commands.Command) -> None:
        self._vhost.submit(Ask(self._actor, command))

    def publish(self, key: str) -> None:
        body = f"{self._actor.channel} to {key}".encode()
        publication, stored = Publication("", key), Stored(b"\0\0", body)
        self._vhost.submit(Publish(self._actor, publication, stored, CONFIRM, 1, self._confirms))

    def settle(self, outcome: SettleOutcome) -> None:
        if self._unsettled:
            tag = self._unsettled.popleft()
            entry = Settle(self._actor, tag, 0, False, outcome, (60, 80), self._refused)
            self._vhost.submit(entry)

    def _refused(self, refusal: object, _method: object) -> None:
        raise AssertionError(f"it settled what it had: {refusal}")

    # -- what it is told

    def delivered(self, out: DeliveryOut, stored: Stored) -> None:
        assert stored.body == self._log.records[out.copy.message.offset].value
        self._unsettled.append(out.tag)

    def confirmed(self, out: ConfirmOut) -> None:
        offset = out.message.offset
        record = self._log.records[offset]
        assert read_header(record.header).channel == self._actor.channel
        kinds = self._log.kinds[offset]
        event("confirmed")
        assert Kind.VOID not in kinds, "it is in the ledger"
        assert (Kind.ENQUEUED in kinds) == out.ack

    def hear(self, out: Outbound, _stored: Stored | None) -> None:
        if isinstance(out, AnswerOut):
            assert out.refusal is None, "nothing of the leader before is left"


class Front:
    """A process with a vhost; see `Host`."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self.client: Client | None = None
        self.way: deque[tuple[Record, int | None]] = deque()
        self.reads: deque[tuple[LogVhost, int, int]] = deque()
        self.fetches: deque[tuple[int, Future[Fetched]]] = deque()
        self.steps: deque[Callable[[], None]] = deque()
        self.news: Acknowledged | None = None
        self._appended = 0
        self.vhost = self.open()

    def open(self) -> LogVhost:
        """Begin with the newest snapshot."""
        log = self._log
        vhost: LogVhost
        bodies = Bodies(BODY_BYTES, self._fetch, lambda: self.steps.append(vhost.fetched))
        entries = log.snapshots[max(log.snapshots)] if log.records else {}
        vhost = LogVhost(CONFIG, bodies, self, lambda: log.now_ms, entries, lambda: 0.0)
        self.vhost = vhost
        self.client = None
        return vhost

    def _fetch(self, offset: int) -> "Future[Fetched]":
        fetch: Future[Fetched] = Future()
        self.fetches.append((offset, fetch))
        return fetch

    # -- what the world does

    def follow(self, most: int) -> None:
        """Read some of the log."""
        if self.vhost.role is Role.FOLLOWING:
            at = self.vhost.position
            self.vhost.follow(self._log.records[at : at + most])

    def take_over(self) -> None:
        """Append an epoch record, or follow again if it was replaced."""
        if self.vhost.role is Role.OVER:
            self.open()
        elif self.vhost.role is Role.FOLLOWING:
            self.vhost.take_over("front")

    def arrive(self, most: int) -> None:
        """Let the log take some of what is on its way."""
        for _ in range(min(most, len(self.way))):
            record, number = self.way.popleft()
            offset = self._log.add(record)
            if number is not None:
                self.news = Acknowledged(number, offset)

    def tell(self) -> None:
        """Say what Kafka has."""
        news, self.news = self.news, None
        if news is not None:
            self.vhost.acknowledged(news)

    def turn(self) -> None:
        """Do what was put off."""
        for _ in range(len(self.steps)):
            self.steps.popleft()()

    def read_found(self) -> None:
        """Answer a question for what is in the log where something unexpected is."""
        if self.reads:
            vhost, first, last = self.reads.popleft()
            if vhost.leads:
                vhost.found(self._log.records[first : last + 1])

    def answer_fetch(self) -> None:
        """Answer a question for messages."""
        if self.fetches:
            first, fetch = self.fetches.popleft()
            records = [raw for raw in self._log.records[first:] if raw.content is not None]
            found = [
                (raw.offset, stored_from(raw.content or b"", raw.value or b"")) for raw in records
            ]
            fetch.set_result(found[:2])

    def snapshot(self) -> None:
        """Write a snapshot."""
        taken = self.vhost.snapshot() if self.vhost.leads else None
        if taken is not None:
            self._log.snapshots[taken.next_offset] = taken.entries

    def check(self) -> None:
        """Compare what it has folded with what the log says."""
        vhost = self.vhost
        if vhost.role is not Role.OVER:
            assert vhost.fold.in_short() == self._log.shorts[vhost.position]

    # -- Host

    def append(self, _vhost: LogVhost, records: Collection[Record]) -> int:
        self._appended += len(records)
        *others, last = records
        self.way += [(record, None) for record in others]
        self.way.append((last, self._appended))
        return len(records)

    def soon(self, step: Callable[[], None]) -> None:
        self.steps.append(step)

    def told(self) -> None: ...

    def read(self, vhost: LogVhost, first: int, last: int) -> None:
        self.reads.append((vhost, first, last))

    def taken(self, vhost: LogVhost, epoch: Acknowledged) -> None:
        if epoch.number == self._appended:
            assert epoch.offset >= vhost.position
            vhost.follow(self._log.records[vhost.position : epoch.offset + 1])
            vhost.lead(epoch)
            self.client = Client(self._log, vhost, f"c{epoch.offset}")

    def over(self, _vhost: LogVhost, _reason: str) -> None:
        event("replaced")
        self.client = None


STEPS: Final = (
    *("publish", "publish", "mine", "ack", "reject", "requeue", "pass", "pass", "pass", "win"),
    *("turn", "turn", "arrive", "arrive", "tell", "tell", "read", "read", "fetch"),
    *("follow", "lead", "snapshot", "time", "kill", "stray"),
)
"""`pass`: what a front does reaches the log, and it hears of it. `win`: it takes over."""


@given(
    st.lists(
        st.tuples(st.integers(0, FRONTS - 1), st.sampled_from(STEPS), st.integers(1, 20)),
        min_size=150,
        max_size=250,
    )
)
def test_whoever_leads_when_a_confirm_is_in_the_log_and_all_folds_are_equal(script):
    log = Log()
    fronts = [Front(log) for _ in range(FRONTS)]
    lead(fronts[0])
    for number, step, count in script:
        front = fronts[number]
        client = front.client
        match step:
            case "publish" | "mine" if client is not None:
                client.publish("mine" if step == "mine" else "work")
            case "ack" | "reject" | "requeue" if client is not None:
                client.settle(step)
            case "pass":
                front.turn()
                front.arrive(count)
                front.tell()
            case "win":
                front.take_over()
                front.follow(len(log.records))
                front.take_over()
                front.arrive(count)
                front.tell()
            case "turn":
                front.turn()
            case "arrive":
                front.arrive(count)
            case "tell":
                front.tell()
            case "read":
                front.read_found()
            case "fetch":
                front.answer_fetch()
            case "follow":
                front.follow(count)
            case "lead":
                front.take_over()
            case "snapshot":
                front.snapshot()
            case "time":
                log.now_ms += 50 * count
                front.vhost.advance()
            case "kill":
                log.strays.extend(record for record, _number in front.way)
                fronts[number] = Front(log)
            case "stray" if log.strays:
                log.add(log.strays.popleft())
        fronts[number].check()

    last = Front(log)
    last.follow(len(log.records))
    lead(last)
    last.check()
    assert last.client is not None
    last.client.publish("work")
    settle_down(last)
    assert last.vhost.leads
    last.check()
    assert last.vhost.position == len(log.records)
    assert max(log.ended.values(), default=0) <= 1, "nothing is settled twice"
    event(f"void: {any(Kind.VOID in kinds for kinds in log.kinds.values())}")


def lead(front: Front) -> None:
    """Let a front lead."""
    front.take_over()
    settle_down(front)


def settle_down(front: Front) -> None:
    """Let everything of a front arrive and be told."""
    while front.way or front.news or front.steps or front.reads or front.fetches:
        front.arrive(100)
        front.tell()
        front.read_found()
        front.answer_fetch()
        front.turn()
