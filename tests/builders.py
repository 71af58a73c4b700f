"""A broker for tests: a shard on a store in memory, whose events are read as sentences.

    broker = Broker()
    broker.queue("work", dead_letter_exchange="", dead_letter_routing_key="dead")
    broker.queue("dead")
    broker.publish("", "work", "m1")
    broker.story()  # ["m1 enqueued in work"]

Argument names of `queue` stand for RabbitMQ's: `max_length=1` is `x-max-length: 1`. Time begins at
`START_MS`; `at(n)` moves it to n milliseconds after that.
"""

from __future__ import annotations

from typing import Any

import msgspec

from streaming.broker import commands
from streaming.broker.commands import Command
from streaming.broker.config import ShardConfig
from streaming.broker.dead_letters.x_death import delivered_headers
from streaming.broker.events import Actor, Event, Kind
from streaming.broker.message import (
    CONFIRM,
    IMMEDIATE,
    MANDATORY,
    Copy,
    Message,
    Publication,
    PublishedHeaders,
    publication_of,
)
from streaming.broker.outbound import (
    AnswerOut,
    ConfirmOut,
    DeliveryOut,
    Outbound,
    ReturnOut,
)
from streaming.broker.shard import Batch, Shard
from streaming.broker.state.store import MemoryStore
from streaming.broker.state.vhost_codec import VhostCache
from tests.event_sentences import sentences
from topology.declarations import Binding, Exchange, Policy, Queue
from topology.refusals import Refusal

START_MS = 1_600_000_000_000
ADMIN = "admin"


class Broker:
    """A shard, and its events and outbound records so far.

    Args:
        cut: end the batch after every step, and begin a new one from the stored bytes.
        config: fields of `ShardConfig`.
    """

    def __init__(
        self, *, cut: bool = False, cache: VhostCache | None = None, **config: Any
    ) -> None:
        self.config = ShardConfig(**config)
        self.store = MemoryStore()
        self.cache = cache
        self.cut = cut
        self.bodies: list[str] = []
        self.headers: list[PublishedHeaders] = []
        self.flags: list[int] = []
        self.properties: list[dict[str, Any]] = []
        self.time_ms = START_MS
        self.rows: list[Event] = []
        self.sentences: list[str] = []
        self.outbound: list[Outbound] = []
        self._first_new = 0
        self._publications: dict[str, Publication] = {}
        self._actors: dict[tuple[str | None, str], Actor] = {}
        self.shard = self.reopened()
        self.at(0)

    # -- batches and time

    def reopened(self) -> Shard:
        """A shard from the stored state."""
        return Shard(
            self.config,
            self.store,
            now_ms=self.time_ms,
            cache=self.cache,
            published=self.published,
        )

    def published(self, message: Message) -> PublishedHeaders:
        """The published headers of a message; LookupError (an IndexError) without it."""
        return self.headers[message.offset]

    def delivered_headers(self, copy: Copy) -> dict[str, Any] | None:
        """The headers that a consumer of this copy sees."""
        return delivered_headers(copy.envelope, self.published(copy.message).headers)

    def finish(self) -> Batch:
        """End the batch; the next begins from the store."""
        batch = self.shard.finish()
        self._collect(batch)
        self.shard = self.reopened()
        return batch

    def _collect(self, batch: Batch) -> None:
        self.rows += batch.events.rows()
        self.sentences += sentences(self.bodies, batch)
        self.outbound += batch.outbound

    def at(self, after_ms: int) -> Broker:
        """Move the time to `START_MS` plus `after_ms`."""
        self.time_ms = START_MS + after_ms
        if self.config.clock == "event":
            self.shard.advance(self.time_ms)
            self._step()
        return self

    def next_batch(self, after_ms: int) -> Batch:
        """End the batch, and begin one whose `now` is `START_MS` plus `after_ms` (clock = wall)."""
        batch = self.shard.finish()
        self._collect(batch)
        self.time_ms = START_MS + after_ms
        self.shard = self.reopened()
        return batch

    def _step(self) -> None:
        if self.cut:
            self.finish()

    # -- declaring

    def exchange(self, name: str, kind: str = "direct", **fields: Any) -> Refusal | None:
        """Declare an exchange."""
        return self.refusal(commands.DeclareExchange(exchange=Exchange(name, kind, **fields)))

    def queue(self, name: str, **arguments: Any) -> Refusal | None:
        """Declare a queue; the module's docstring describes the arguments."""
        return self.refusal(commands.DeclareQueue(queue=a_queue(name, **arguments)))

    def quorum(self, name: str, **arguments: Any) -> Refusal | None:
        """Declare a quorum queue."""
        return self.queue(name, queue_type="quorum", **arguments)

    def bind(
        self, source: str, destination: str, routing_key: str = "", **fields: Any
    ) -> Refusal | None:
        """Bind a queue, or an exchange with `destination_type="exchange"`."""
        binding = Binding(source, destination, routing_key=routing_key, **fields)
        return self.refusal(commands.Bind(binding=binding))

    def policy(
        self, name: str, pattern: str, definition: dict[str, Any], *, operator: bool = False
    ) -> Refusal | None:
        """Set a policy."""
        policy = Policy(name, pattern, definition)
        if operator:
            return self.refusal(commands.SetOperatorPolicy(policy=policy))
        return self.refusal(commands.SetPolicy(policy=policy))

    # -- what clients do

    def actor(self, user: str | None, channel: str) -> Actor:
        """The actor of a user on a channel; always the same object."""
        return self._actors.setdefault((user, channel), Actor(user, channel))

    def publish(
        self,
        exchange: str,
        routing_key: str,
        body: str,
        *,
        size: int | None = None,
        headers: dict[str, Any] | None = None,
        kafka_headers: dict[str, Any] | None = None,
        mandatory: bool = False,
        immediate: bool = False,
        confirm: bool = False,
        user: str | None = None,
        channel: str = "pub",
        **properties: Any,
    ) -> list[Outbound]:
        """Publish; returns the outbound records."""
        flags = (MANDATORY if mandatory else 0) | (IMMEDIATE if immediate else 0)
        flags |= CONFIRM if confirm else 0
        offset = len(self.bodies)
        self.bodies.append(body)
        message = Message(0, 0, offset, 0, offset, len(body) if size is None else size)
        self.headers.append(PublishedHeaders(headers, kafka_headers))
        self.flags.append(flags)
        self.properties.append(properties)
        publication = publication_of(exchange, routing_key, properties, headers)
        publication.user_id = properties.get("user_id")
        publication = self._publications.setdefault(repr(publication), publication)
        before = len(self.shard.outbound)
        actor = self.actor(user, channel)
        self.shard.publish(self.time_ms, message, publication, flags, actor)
        out = self.shard.outbound[before:]
        self._step()
        return out

    def do(self, command: Command, *, user: str | None = None) -> list[Outbound]:
        """Execute a command on the channel that it names; returns the outbound records."""
        channel = getattr(command, "channel", None) or ""
        before = len(self.shard.outbound)
        self.shard.command(self.time_ms, command, self.actor(user, channel))
        out = self.shard.outbound[before:]
        self._step()
        return out

    def answer(self, command: Command, *, user: str | None = None) -> dict[str, Any] | Refusal:
        """The answer to a command, which asks for one."""
        command = msgspec.structs.replace(command, reply_id=command.reply_id or "asked")
        answers = [out for out in self.do(command, user=user) if isinstance(out, AnswerOut)]
        assert len(answers) == 1
        return answers[0].refusal or answers[0].result

    def refusal(self, command: Command, *, user: str | None = None) -> Refusal | None:
        """The refusal of a command, if it was refused."""
        answer = self.answer(command, user=user)
        return answer if isinstance(answer, Refusal) else None

    def get(
        self, queue: str, label: str | None = None, count: int = 1, **fields: Any
    ) -> list[DeliveryOut]:
        """Get; returns the deliveries made to this get."""
        user = fields.pop("user", None)
        command = commands.Get(queue=queue, label=label, count=count, **fields)
        given = [out for out in self.do(command, user=user) if isinstance(out, DeliveryOut)]
        return [one for one in given if one.actor.channel == command.channel]

    def drain(self, queue: str) -> list[str]:
        """Take everything out of a queue; returns the bodies."""
        given = self.get(queue, count=1_000_000, auto_ack=True, channel="drain")
        return [self.body(one) for one in given]

    def consume(self, queue: str, label: str, **fields: Any) -> Refusal | None:
        """Start a consumer."""
        user = fields.pop("user", None)
        return self.refusal(commands.Consume(queue=queue, label=label, **fields), user=user)

    def ack(self, *refs: str, multiple: bool = False, channel: str | None = None) -> None:
        """Ack deliveries."""
        self.do(commands.Ack(refs=refs, multiple=multiple, channel=channel))

    def reject(self, *refs: str, requeue: bool = False, channel: str | None = None) -> None:
        """Reject deliveries."""
        self.do(commands.Reject(refs=refs, requeue=requeue, channel=channel))

    def close_channel(self, channel: str = "c0", *, user: str | None = None) -> None:
        """Close a channel."""
        self.do(commands.CloseChannel(channel=channel), user=user)

    # -- what is there

    def depth(self, queue: str) -> int | None:
        """The number of ready copies; None without that queue. Does not count as a use."""
        if queue not in self.shard.vhost.queues:
            return None
        return self.shard.state.queues.named(queue).ready

    def body(self, out: DeliveryOut | ConfirmOut | ReturnOut) -> str:
        """The body of an outbound record's message."""
        message = out.copy.message if isinstance(out, DeliveryOut) else out.message
        return self.bodies[message.offset]

    def deliveries(self) -> list[str]:
        """The deliveries since the start, as `ref body`."""
        self.finish()
        given = (out for out in self.outbound if isinstance(out, DeliveryOut))
        return [f"{out.ref} {self.body(out)}" for out in given]

    def story(self) -> list[str]:
        """The events of copies since the last call, one sentence per event."""
        self.finish()
        first, self._first_new = self._first_new, len(self.sentences)
        return self.sentences[first:]

    def everything(self) -> list[Event]:
        """All events since the start."""
        self.finish()
        return self.rows

    def of_kind(self, kind: Kind) -> list[tuple[str, dict[str, Any]]]:
        """Queue and detail of each event of a kind since the start."""
        self.finish()
        return [(event.queue, event.detail or {}) for event in self.rows if event.kind is kind]


def a_queue(name: str, **arguments: Any) -> Queue:
    """A queue declaration; `durable`, `exclusive` and `auto_delete` are its properties."""
    properties = {
        key: arguments.pop(key)
        for key in ("durable", "exclusive", "auto_delete")
        if key in arguments
    }
    table = {f"x-{key.replace('_', '-')}": value for key, value in arguments.items()}
    return Queue(name, arguments=table, **properties)
