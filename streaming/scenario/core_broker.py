"""The broker core as an engine for scenarios: one shard in memory."""

from decimal import Decimal
from typing import Any

from streaming.broker import outbound
from streaming.broker.commands import Command
from streaming.broker.config import ShardConfig
from streaming.broker.dead_letters.x_death import headers_after
from streaming.broker.events import Actor
from streaming.broker.message import (
    CONFIRM,
    IMMEDIATE,
    MANDATORY,
    Envelope,
    Message,
    PublishedHeaders,
)
from streaming.broker.shard import Shard
from streaming.broker.state.store import MemoryStore
from streaming.protocol.amqp_properties import PROPERTIES
from streaming.protocol.record_headers import delivered_headers
from streaming.scenario import replies
from streaming.scenario.steps import Publish
from topology.values import Compat, Timestamp


class CoreBroker:
    """A `Broker` in memory."""

    def __init__(self, compat: Compat) -> None:
        self.publishes: list[Publish] = []  # by offset of the message
        self.shard = Shard(
            ShardConfig(vhost=replies.VHOST, compat=compat),
            MemoryStore(),
            published=self.published,
        )
        self.refs: dict[int, str] = {}  # of deliveries, by row of their event
        self._compat: Compat = compat
        self._actors: dict[str, Actor] = {}

    def advance(self, at_ms: int) -> list[replies.Reply]:
        """Advance the clock to `at_ms` of the scenario."""
        self.shard.advance(replies.START_MS + at_ms)
        return self._replies()

    def publish(self, publish: Publish) -> list[replies.Reply]:
        """Publish with confirm."""
        self._publish(publish, self.shard, *self._add(publish))
        return self._replies()

    def _add(self, publish: Publish) -> tuple[Message, int]:
        """Keep a publish; return its message and flags."""
        offset = len(self.publishes)
        self.publishes.append(publish)
        flags = CONFIRM | (MANDATORY if publish.mandatory else 0)
        flags |= IMMEDIATE if publish.immediate else 0
        return Message(0, 0, offset, 0, offset, len(publish.body.encode())), flags

    def _publish(self, publish: Publish, shard: Shard, message: Message, flags: int) -> None:
        actor = self._actor(publish.channel)
        shard.publish(shard.now_ms, message, publish.publication, flags, actor)

    def published(self, message: Message) -> PublishedHeaders:
        """The headers of a message as it was published."""
        return PublishedHeaders(self.publishes[message.offset].headers)

    def command(self, command: Command) -> list[replies.Reply]:
        """Run a command."""
        channel = getattr(command, "channel", None) or ""
        self.shard.command(self.shard.now_ms, command, self._actor(channel))
        return self._replies()

    def unacked(self, delivery_ids: list[str]) -> set[str]:
        """The deliveries of these that are not settled now."""
        return {each for each in delivery_ids if self.shard.state.channels.is_unacked(each)}

    def _actor(self, channel: str) -> Actor:
        return self._actors.setdefault(channel, Actor(None, channel))

    def _replies(self) -> list[replies.Reply]:
        """The broker's output since the last call."""
        found = map(self._reply, self.shard.take_outbound())
        return [reply for reply in found if reply is not None]

    def _reply(self, out: outbound.Outbound) -> replies.Reply | None:
        match out:
            case outbound.DeliveryOut():
                self.refs[out.row] = out.ref
                publish = self.publishes[out.copy.message.offset]
                headers = delivered_headers(out, publish.headers, self._compat)
                message = _message_record(publish, out.copy.envelope, headers)
                message["redelivered"] = bool(out.delivery_count)
                return replies.Delivered(
                    out.actor.channel, out.ref, out.delivery_id, out.queue, message, out.tag
                )
            case outbound.ConfirmOut():
                return replies.Confirmed(out.ack)
            case outbound.ReturnOut():
                publish = self.publishes[out.message.offset]
                headers = headers_after(out.envelope, publish.headers)
                message = _message_record(publish, out.envelope, headers)
                return replies.Returned(out.code, out.text, message)
            case outbound.PublishErrorOut():
                return replies.Refused(replies.error_record(out.refusal))
            case outbound.AnswerOut():
                error = None if out.refusal is None else replies.error_record(out.refusal)
                return replies.Answered(out.result, error)
            case outbound.CancelOut():
                return None


def normalised(value: Any) -> Any:
    """An AMQP value as JSON, as recorded: timestamps become a placeholder, bytes text."""
    match value:
        case Timestamp():
            return "<timestamp>"
        case bytes():
            return value.decode("utf-8", "backslashreplace")
        case Decimal():
            return str(value)
        case dict():
            return {name: normalised(item) for name, item in value.items()}
        case list():
            return [normalised(item) for item in value]
        case _:
            return value


def _message_record(
    publish: Publish, envelope: Envelope, headers: dict[str, Any] | None
) -> dict[str, Any]:
    """Body, exchange, routing key, properties and headers."""
    properties = {**publish.properties, "expiration": envelope.expiration}
    if envelope.expiration is None:
        del properties["expiration"]
    return {
        "body": publish.body,
        "exchange": envelope.exchange,
        "routing_key": envelope.routing_keys[0],
        "properties": {
            name: normalised(properties[name]) for name in PROPERTIES if name in properties
        },
        "headers": normalised(headers),
    }
