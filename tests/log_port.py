"""A log without Kafka, and a vhost on it: tests decide when something is acknowledged, and where.

Real Kafka, which other tests use, does not write for somebody else between two records on demand.
"""

from collections import Counter, deque
from collections.abc import Callable, Collection
from concurrent.futures import Future
from itertools import islice

from streaming.amqp.clocks import START_MS
from streaming.amqp.stored import Stored
from streaming.broker.config import ShardConfig
from streaming.config.shards import terms_of
from streaming.protocol.copied_records import COPIED
from streaming.protocol.log_records import CONTENT, LOG
from streaming.sequencer.bodies import Bodies, Fetched, stored_from
from streaming.sequencer.log_reader import RawRecord
from streaming.sequencer.log_vhost import LogVhost
from streaming.sequencer.log_writer import Acknowledged
from streaming.sequencer.records import Record

CONFIG = ShardConfig(enforce_permissions=True, administrators=("guest",), sequenced=True)
TERMS = terms_of(CONFIG)


class LogPort:
    """A log, and the process of a vhost; see `Host`.

    Attributes:
        records: what the log has.
        sent: what was appended and is not in the log yet.
        is_full: whether nothing more is taken.
        most: how many records are taken until they are in the log.
        reasons: why the vhost was over.
        now_ms, elapsed_s: of the wall clock, and of one that never goes back.
    """

    def __init__(self, body_bytes: int = 1 << 20, config: ShardConfig = CONFIG) -> None:
        self._config = config
        self.records: list[RawRecord] = []
        self.sent: deque[tuple[LogVhost, Record]] = deque()
        self.is_full = False
        self.most = 1 << 30
        self.reasons: list[str] = []
        self.now_ms = START_MS
        self.elapsed_s = 0.0
        self.is_reported = False
        self.numbers: Counter[LogVhost] = Counter()
        self.fetches: deque[tuple[int, Future[Fetched]]] = deque()
        self._steps: deque[Callable[[], None]] = deque()
        self._body_bytes = body_bytes

    def open(self, entries: dict[str, bytes] | None = None, *, leads: bool = True) -> LogVhost:
        """Open a vhost on the log; it leads unless told not to."""
        vhost: LogVhost
        bodies = Bodies(self._body_bytes, self._fetch, lambda: self.soon(vhost.fetched))
        vhost = LogVhost(
            self._config, bodies, self, lambda: self.now_ms, entries, lambda: self.elapsed_s
        )
        vhost.follow(self.records[vhost.position :])
        if leads:
            vhost.take_over("test")
        return vhost

    def acknowledge(self, vhost: LogVhost) -> None:
        """Let the log take all, and the vhost apply it, until nothing more is appended."""
        self.run()
        while self.sent:
            vhost.acknowledged(self.write())
            self.run()

    def write(self) -> Acknowledged:
        """Let the log take what was appended; return what is to be acknowledged.

        The newest record must have been the last of its turn: Kafka's answer to others is not told.
        """
        assert self.is_reported, "nothing is acknowledged"
        return self.take()

    def take(self) -> Acknowledged:
        """Let the log take what was appended; return what is not told yet."""
        last = self.sent[-1][0]
        for vhost, record in self.sent:
            self.numbers[vhost] += 1
            self.add(record)
        self.sent.clear()
        return Acknowledged(self.numbers[last], len(self.records) - 1)

    def add(self, record: Record) -> None:
        """Let the log take a record of anybody."""
        headers = dict(record.headers)
        raw = RawRecord(
            len(self.records),
            record.at_ms,
            headers[LOG],
            headers.get(CONTENT),
            record.value or b"",
            headers.get(COPIED),
        )
        self.records.append(raw)

    def _fetch(self, offset: int) -> "Future[Fetched]":
        fetch: Future[Fetched] = Future()
        self.fetches.append((offset, fetch))
        return fetch

    def answer_fetch(self, most: int = 10) -> None:
        """Answer the oldest fetch."""
        first, fetch = self.fetches.popleft()
        found: list[tuple[int, Stored]] = []
        for raw in self.records[first:]:
            if raw.content is not None and len(found) < most:
                found.append((raw.offset, stored_from(raw.content, raw.value or b"")))
        fetch.set_result(found)

    def run(self) -> None:
        """Do what was put off to the end of the turn."""
        while self._steps:
            self._steps.popleft()()

    # -- Host

    def append(self, vhost: LogVhost, records: Collection[Record]) -> int:
        """See `Host`."""
        room = 0 if self.is_full else max(self.most - len(self.sent), 0)
        taken = list(islice(records, room))
        self.sent += [(vhost, record) for record in taken]
        if taken:
            self.is_reported = len(taken) == len(records)
        return len(taken)

    def soon(self, step: Callable[[], None]) -> None:
        """See `Host`."""
        self._steps.append(step)

    def told(self) -> None:
        """See `Host`."""

    def read(self, vhost: LogVhost, first: int, last: int) -> None:
        """See `Host`."""
        vhost.found(self.records[first : last + 1])

    def taken(self, vhost: LogVhost, epoch: Acknowledged) -> None:
        """See `Host`."""
        vhost.follow(self.records[vhost.position : epoch.offset + 1])
        vhost.lead(epoch)

    def over(self, _vhost: LogVhost, reason: str) -> None:
        """See `Host`."""
        self.reasons.append(reason)
