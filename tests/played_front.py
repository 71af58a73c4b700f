"""A front for tests: it writes the log of a sequenced vhost, and folds what it writes at once.

    front = PlayedFront()
    front.begin("one")
    front.open("c1")
    front.ask("c1", commands.DeclareQueue(queue=a_queue("work")))
    front.publish("c1", "", "work", b"body")
    front.records  # what it has written; the events and the outbound so far are in `rows`, `told`

`stale` writes records of an epoch that has ended, which `begin` replaced.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from streaming.amqp.properties import read_properties, see, write_properties
from streaming.amqp.publications import publication_seen
from streaming.broker.commands import Command, Consume, OpenChannel, SettleOutcome
from streaming.broker.config import ShardConfig
from streaming.broker.events import Actor, Event
from streaming.broker.message import Message, PublishedHeaders, Routed
from streaming.broker.outbound import DeliveryOut, Outbound
from streaming.broker.sequence.log_fold import NO_EPOCH, LogFold, Terms
from streaming.broker.shard import Shard
from streaming.broker.state.store import MemoryStore
from streaming.config.shards import terms_of
from streaming.protocol.command_codec import encode_command
from streaming.protocol.log_records import (
    CONTENT,
    LOG,
    LOG_VERSION,
    Digest,
    Epoch,
    LogHeader,
    LogKind,
    Settlement,
    encode,
)

START_MS = 1_600_000_000_000
USER = "ann"


class LogRecord(NamedTuple):
    """A record as Kafka has it."""

    offset: int
    at_ms: int
    headers: list[tuple[str, bytes]]
    value: bytes | None


class PlayedFront:
    """Writes a log. The fold of it never rests."""

    def __init__(self, config: ShardConfig | None = None, terms: Terms | None = None) -> None:
        self.config = config or ShardConfig(vhost="shop", administrators=(USER,), sequenced=True)
        self.terms = terms or terms_of(self.config)
        self.records: list[LogRecord] = []
        self.at_ms = START_MS
        self.epoch = NO_EPOCH
        self.contents: dict[int, bytes] = {}
        store = MemoryStore()
        self.fold = LogFold(Shard(self.config, store, published=self.published), store)
        self.rows: list[Event] = []
        self.told: list[Outbound] = []
        self.deliveries: dict[str, list[DeliveryOut]] = {}

    def published(self, message: Message) -> PublishedHeaders:
        """The headers of a message."""
        return PublishedHeaders(read_properties(self.contents[message.offset]).get("headers"))

    # -- what a front writes

    def begin(self, name: str) -> int:
        """Begin an epoch; return its number."""
        value = encode(Epoch(name, self.terms.core_version, self.terms.rules))
        header = LogHeader(LOG_VERSION, NO_EPOCH, LogKind.EPOCH)
        self.epoch = self._append([(LOG, encode(header))], value)
        self.fold.begin_epoch(self.at_ms, self.epoch, self.terms)
        self.hear()
        return self.epoch

    def open(self, channel: str, user: str = USER) -> None:
        """Open a channel."""
        self.ask(channel, OpenChannel(channel=channel, connection=f"of {channel}"), user)

    def ask(
        self, channel: str, command: Command, user: str = USER, epoch: int | None = None
    ) -> None:
        """Write a command."""
        header = self._header(LogKind.COMMAND, user, channel, epoch)
        offset = self._append([(LOG, encode(header))], encode_command(command))
        if self.fold.begin(offset, header.epoch):
            self.fold.command(self.at_ms, command, Actor(user, channel))
        self.hear()

    def consume(self, channel: str, queue: str, **more: Any) -> None:
        """Write that a channel consumes a queue."""
        self.ask(channel, Consume(queue=queue, label=queue, **more))

    def publish(
        self,
        channel: str,
        exchange: str,
        routing_key: str,
        body: bytes = b"body",
        *,
        flags: int = 0,
        user: str = USER,
        epoch: int | None = None,
        routed: Routed | None = None,
        **properties: Any,
    ) -> int:
        """Write a publish; return its offset."""
        content = write_properties(properties)
        header = LogHeader(
            LOG_VERSION,
            self.epoch if epoch is None else epoch,
            LogKind.PUBLISH,
            user,
            channel,
            exchange,
            routing_key,
            flags,
            properties.get("user_id"),
            routed,
        )
        offset = self._append([(LOG, encode(header)), (CONTENT, content)], body)
        self.contents[offset] = content
        message = Message(0, 0, offset, 0, 0, len(body))
        actor = Actor(user, channel)
        if self.fold.begin(offset, header.epoch):
            publication = publication_seen(
                exchange, routing_key, see(content), header.user_id, header.routed
            )
            self.fold.publish(self.at_ms, message, publication, flags, actor)
        else:
            self.fold.void(message, actor)
        self.hear()
        return offset

    def settle(
        self, *settlements: tuple[str, int, SettleOutcome], epoch: int | None = None
    ) -> None:
        """Write settlements: channel, tag, outcome."""
        found = [
            Settlement(USER, channel, tag, outcome=outcome) for channel, tag, outcome in settlements
        ]
        header = self._header(LogKind.SETTLE, None, "", epoch)
        offset = self._append([(LOG, encode(header))], encode(found))
        if self.fold.begin(offset, header.epoch):
            for each in found:
                self.fold.settle(
                    self.at_ms,
                    Actor(each.user, each.channel),
                    each.tag,
                    each.last,
                    multiple=False,
                    outcome=each.outcome,
                )
        self.hear()

    def tick(self, after_ms: int = 0) -> None:
        """Let time pass, and write that it has."""
        self.at_ms += after_ms
        header = self._header(LogKind.TICK, None, "", None)
        offset = self._append([(LOG, encode(header))], None)
        self.fold.begin(offset, header.epoch)
        self.fold.tick(self.at_ms)
        self.hear()

    def digest(self, wrong: bytes | None = None) -> None:
        """Write the newest digest, or a wrong one, with its boundary; nothing if there is none."""
        if self.fold.last_digest is None:
            return
        boundary, digest = self.fold.last_digest
        header = self._header(LogKind.DIGEST, None, "", None)
        offset = self._append([(LOG, encode(header))], encode(Digest(boundary, wrong or digest)))
        self.fold.begin(offset, header.epoch)

    def foreign(self, headers: list[tuple[str, bytes]], value: bytes | None) -> int:
        """Let another program write a record, which no fold takes for one of the log."""
        return self._append(headers, value)

    # --

    def tags(self, channel: str) -> list[int]:
        """Remove and return the tags of the deliveries that a channel got."""
        return [each.tag for each in self.deliveries.pop(channel, [])]

    def _header(
        self, kind: LogKind, user: str | None, channel: str, epoch: int | None
    ) -> LogHeader:
        return LogHeader(LOG_VERSION, self.epoch if epoch is None else epoch, kind, user, channel)

    def _append(self, headers: list[tuple[str, bytes]], value: bytes | None) -> int:
        self.records.append(LogRecord(len(self.records), self.at_ms, headers, value))
        return len(self.records) - 1

    def hear(self) -> None:
        """Take what came of the last record."""
        for out in self.fold.take_outbound():
            self.told.append(out)
            if isinstance(out, DeliveryOut):
                self.deliveries.setdefault(out.actor.channel, []).append(out)
        self.rows += self.fold.take_events().rows()
