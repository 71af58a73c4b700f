"""Two brokers that make a play out of a log: one writes down what is asked, one reads the replies.

What a player asks does not depend on the replies. So a scenario is played twice: on a `LogWriter`,
before the pipeline runs, and on a `LogReader`, after it.

    asked:    publish            get                advance        ...
    log:      publish, mark 0    get, mark 1        mark 2
    outbound: confirm, mark 0    delivery, ... answer, mark 1     delivery, mark 2

A mark is a command at the same instant that changes nothing and is answered: what lies between two
answers is what came of one call.
"""

from __future__ import annotations

from streaming.broker.commands import Command, Renew
from streaming.scenario.replies import START_MS, Reply
from streaming.scenario.steps import Publish
from streaming.simulation.wire_records import LogRecord, command_record, publish_record

MARKING_CHANNEL = "dlx-simulate-marks"
"""Renewing the lease of a channel that does not exist changes nothing, and is answered."""


class LogWriter:
    """A `Broker` that says nothing and keeps the records that would make it act.

    Attributes:
        looked_at: the mark after which the player asked what is unacked; -1 if it never did.
    """

    def __init__(self, vhost: str) -> None:
        self.records: list[LogRecord] = []
        self.marks = 0
        self.looked_at = -1
        self._vhost = vhost
        self._now_ms = START_MS

    def advance(self, at_ms: int) -> list[Reply]:
        """See `Broker`."""
        self._now_ms = max(self._now_ms, START_MS + at_ms)
        return self._mark()

    def publish(self, publish: Publish) -> list[Reply]:
        """See `Broker`."""
        self.records.append(publish_record(self._now_ms, publish, self._vhost))
        return self._mark()

    def command(self, command: Command) -> list[Reply]:
        """See `Broker`."""
        self.records.append(command_record(self._now_ms, command, self._vhost))
        return self._mark()

    def unacked(self, delivery_ids: list[str]) -> set[str]:
        """See `Broker`."""
        del delivery_ids
        self.looked_at = self.marks - 1
        return set()

    def _mark(self) -> list[Reply]:
        mark = Renew(channel=MARKING_CHANNEL, reply_id=str(self.marks))
        self.records.append(command_record(self._now_ms, mark, self._vhost))
        self.marks += 1
        return []


class LogReader:
    """A `Broker` that replies what the pipeline replied.

    Args:
        replies: of each call, in order.
        unacked: delivery ids, at the moment that `LogWriter.looked_at` tells.
    """

    def __init__(self, replies: list[list[Reply]], unacked: set[str]) -> None:
        self._replies = iter(replies)
        self._unacked = unacked

    def advance(self, at_ms: int) -> list[Reply]:
        """See `Broker`."""
        del at_ms
        return next(self._replies)

    def publish(self, publish: Publish) -> list[Reply]:
        """See `Broker`."""
        del publish
        return next(self._replies)

    def command(self, command: Command) -> list[Reply]:
        """See `Broker`."""
        del command
        return next(self._replies)

    def unacked(self, delivery_ids: list[str]) -> set[str]:
        """See `Broker`."""
        return self._unacked.intersection(delivery_ids)
