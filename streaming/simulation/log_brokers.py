"""Two brokers that play a scenario through a log: one writes the commands, one reads the replies.

The commands of a scenario do not depend on the replies. So a scenario is played twice: on a
`LogWriter` before the pipeline runs, and on a `LogReader` after it.

    called:   publish            get                advance        ...
    log:      publish, mark 0    get, mark 1        mark 2
    outbound: confirm, mark 0    delivery, ... answer, mark 1     delivery, mark 2

A mark is a command at the same instant that changes nothing and gets an answer: everything between
two answers is the result of one call.
"""

import json
from collections.abc import Mapping
from typing import NamedTuple

from streaming.broker.commands import Command, Renew
from streaming.protocol.record_headers import CHANNEL, COPY_ID, KIND, SEQ
from streaming.scenario.replies import START_MS, Delivered, Reply
from streaming.scenario.steps import Publish
from streaming.simulation.step_records import LogRecord, command_record, publish_record, reply_of

MARKING_CHANNEL = "dlx-simulate-marks"
"""Renewing the lease of a channel that does not exist changes nothing, and gets an answer."""


class LogWriter:
    """A `Broker` that never replies and keeps the records of all calls."""

    def __init__(self, vhost: str) -> None:
        self.records: list[LogRecord] = []
        self.marks = 0
        self.looked_at = -1  # the mark after which the player asked for unacked deliveries
        self._vhost = vhost
        self._now_ms = START_MS

    def advance(self, at_ms: int) -> list[Reply]:
        """Advance the clock to `at_ms` of the scenario."""
        self._now_ms = max(self._now_ms, START_MS + at_ms)
        return self._mark()

    def publish(self, publish: Publish) -> list[Reply]:
        """Publish with confirm."""
        self.records.append(publish_record(self._now_ms, publish, self._vhost))
        return self._mark()

    def command(self, command: Command) -> list[Reply]:
        """Run a command."""
        self.records.append(command_record(self._now_ms, command, self._vhost))
        return self._mark()

    def unacked(self, delivery_ids: list[str]) -> set[str]:
        """The deliveries of these that are not settled now."""
        del delivery_ids
        self.looked_at = self.marks - 1
        return set()

    def _mark(self) -> list[Reply]:
        mark = Renew(channel=MARKING_CHANNEL, reply_id=str(self.marks))
        self.records.append(command_record(self._now_ms, mark, self._vhost))
        self.marks += 1
        return []


class LogReader:
    """A `Broker` that gives the pipeline's replies to each call, in order.

    It takes the ids of the deliveries that were unacked at the mark `LogWriter.looked_at`.
    """

    def __init__(self, replies: list[list[Reply]], unacked: set[str]) -> None:
        self._replies = iter(replies)
        self._unacked = unacked

    def _next(self, _request: object) -> list[Reply]:
        return next(self._replies)

    advance = publish = command = _next

    def unacked(self, delivery_ids: list[str]) -> set[str]:
        """The deliveries of these that are not settled now."""
        return self._unacked.intersection(delivery_ids)


class _Record(NamedTuple):
    value: bytes
    headers: Mapping[str, bytes]


class Outbox:
    """The outbound records of one vhost, without those that a replayed batch sent again."""

    def __init__(self, vhost: str) -> None:
        self._vhost = vhost
        self._records: dict[int, _Record] = {}

    def take(self, value: bytes, headers: Mapping[str, bytes]) -> None:
        """Keep a record, unless it is a notice of flow control or of a cancelled consumer."""
        if headers[KIND] in {b"flow", b"cancel"}:
            return
        self._records.setdefault(int(headers[SEQ]), _Record(value, headers))

    def replies(self) -> list[list[Reply]]:
        """The replies to each call, in order."""
        calls: list[list[Reply]] = []
        replies: list[Reply] = []
        for _seq, record in sorted(self._records.items()):
            if _is_mark(record):
                calls.append(replies)
                replies = []
            else:
                replies.append(reply_of(record.value, record.headers, self._vhost))
        return calls

    def event_seq_of(self, mark: int) -> int:
        """The sequence number of the shard's next event at a mark."""
        for record in self._records.values():
            if _is_mark(record):
                answer = json.loads(record.value)
                if answer["reply_id"] == str(mark):
                    return int(answer["seq"])
        raise LookupError(mark)

    def last_deliveries(self) -> dict[int, str]:
        """Copy -> id of its last delivery that needs a settlement."""
        last: dict[int, str] = {}
        for _seq, record in sorted(self._records.items()):
            if record.headers[KIND] != b"delivery":
                continue
            reply = reply_of(record.value, record.headers, self._vhost)
            if isinstance(reply, Delivered) and reply.delivery_id:
                last[int(record.headers[COPY_ID])] = reply.delivery_id
        return last


def _is_mark(record: _Record) -> bool:
    headers = record.headers
    return (headers[KIND], headers[CHANNEL]) == (b"answer", MARKING_CHANNEL.encode())
