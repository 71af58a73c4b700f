"""The broker core as an engine for scenarios: one shard in memory."""

from streaming.broker.commands import Command
from streaming.broker.config import ShardConfig
from streaming.broker.events import Actor
from streaming.broker.message import Message
from streaming.broker.outbound import (
    AnswerOut,
    CancelOut,
    ConfirmOut,
    DeliveryOut,
    PublishErrorOut,
    ReturnOut,
)
from streaming.broker.publishing import CONFIRM, IMMEDIATE, MANDATORY
from streaming.broker.shard import Shard
from streaming.broker.state.store import MemoryStore
from streaming.scenario.deliveries import delivery_record, envelope_record
from streaming.scenario.replies import (
    START_MS,
    VHOST,
    Answered,
    Confirmed,
    Delivered,
    Refused,
    Reply,
    Returned,
    error_record,
)
from streaming.scenario.steps import Publish
from topology.values import Compat


class CoreBroker:
    """See `Broker`.

    Attributes:
        bodies: body of each message, by offset.
        refs: refs of the deliveries, by row of their event.
    """

    def __init__(self, compat: Compat) -> None:
        self.shard = Shard(ShardConfig(vhost=VHOST, compat=compat), MemoryStore())
        self.bodies: list[str] = []
        self.refs: dict[int, str] = {}
        self._compat: Compat = compat
        self._actors: dict[str, Actor] = {}

    def advance(self, at_ms: int) -> list[Reply]:
        """See `Broker`."""
        self.shard.advance(START_MS + at_ms)
        return self._replies()

    def publish(self, publish: Publish) -> list[Reply]:
        """See `Broker`."""
        offset = len(self.bodies)
        self.bodies.append(publish.body)
        message = Message(0, 0, offset, 0, offset, len(publish.body.encode()))
        flags = CONFIRM | (MANDATORY if publish.mandatory else 0)
        flags |= IMMEDIATE if publish.immediate else 0
        actor = self._actor(publish.channel)
        self.shard.publish(self.shard.now_ms, message, publish.publication, flags, actor)
        return self._replies()

    def command(self, command: Command) -> list[Reply]:
        """See `Broker`."""
        channel = getattr(command, "channel", None) or ""
        self.shard.command(self.shard.now_ms, command, self._actor(channel))
        return self._replies()

    def unacked(self, delivery_ids: list[str]) -> set[str]:
        """See `Broker`."""
        return {each for each in delivery_ids if self.shard.state.channels.is_unacked(each)}

    def _actor(self, channel: str) -> Actor:
        return self._actors.setdefault(channel, Actor(None, channel))

    def _replies(self) -> list[Reply]:
        """The broker's output since the last call."""
        return [
            self._reply(one) for one in self.shard.take_outbound() if not isinstance(one, CancelOut)
        ]

    def _reply(
        self, out: DeliveryOut | ConfirmOut | ReturnOut | PublishErrorOut | AnswerOut
    ) -> Reply:
        match out:
            case DeliveryOut():
                self.refs[out.row] = out.ref
                body = self.bodies[out.copy.message.offset]
                message = delivery_record(out, body, self._compat)
                return Delivered(out.actor.channel, out.ref, out.delivery_id, out.queue, message)
            case ConfirmOut():
                return Confirmed(out.ack)
            case ReturnOut():
                body = self.bodies[out.message.offset]
                message = envelope_record(out.envelope, body, out.envelope.headers)
                return Returned(out.code, out.text, message)
            case PublishErrorOut():
                return Refused(error_record(out.refusal))
            case AnswerOut():
                error = None if out.refusal is None else error_record(out.refusal)
                return Answered(out.result, error)
