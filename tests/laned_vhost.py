"""A vhost of several lanes for tests: a shard a lane, with the routing and merging of the job.

vhost = LanedVhost(lanes=4)
vhost.do(commands.DeclareQueue(queue=Queue("q")))
vhost.publish("", "q", "m1", lane=2)
vhost.do(commands.Consume(queue="q", label="c", prefetch=4, channel="c0"))
vhost.delivered  # [Given(name="1.1.0@2", ref="c/0@2", queue="q", body="m1", lane=2)]
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from streaming.broker.commands import Command
from streaming.broker.config import ShardConfig
from streaming.broker.events import Actor, Event, Kind
from streaming.broker.lanes import HOME, LanePart, on_each_lane, on_lane
from streaming.broker.message import AWAY, CONFIRM, Message, Publication, PublishedHeaders
from streaming.broker.outbound import AnswerOut, ConfirmOut, DeliveryOut, Outbound
from streaming.broker.redrives.agreement import LaneNote, verdicts
from streaming.broker.shard import Shard
from streaming.broker.state.store import MemoryStore
from streaming.protocol.command_json import parse_command
from streaming.scenario.laned_broker import take_outbound
from topology.refusals import Refusal

START_MS = 1_600_000_000_000


class Given(NamedTuple):
    """A delivery as its client sees it."""

    name: str
    ref: str
    queue: str
    body: str
    lane: int
    channel: str
    consumer: str


class LanedVhost:
    """A vhost, what its clients were told, and its events by lane.

    Attributes:
        answers: the answers to commands, merged.
        confirms: the confirms, merged: body and whether it is an ack.
        told: all other outbound records.
        notes: how far redrives had come on each lane when the last batch ended.
    """

    def __init__(self, lanes: int, **config: Any) -> None:
        self.configs = [ShardConfig(lane=lane, lanes=lanes, **config) for lane in range(lanes)]
        self.stores = [MemoryStore() for _ in range(lanes)]
        self.bodies: list[str] = []
        self.events: list[list[Event]] = [[] for _ in range(lanes)]
        self.delivered: list[Given] = []
        self.answers: list[LanePart | AnswerOut] = []
        self.confirms: list[tuple[str, bool]] = []
        self.told: list[Outbound] = []
        self.notes: list[list[LaneNote]] = [[] for _ in range(lanes)]
        self.time_ms = START_MS
        self._records = 0
        self._publications: dict[tuple[str, str], Publication] = {}
        self.shards = self._opened()

    def _opened(self) -> list[Shard]:
        return [
            Shard(
                config,
                store,
                now_ms=self.time_ms,
                published=lambda _message: PublishedHeaders(None),
            )
            for config, store in zip(self.configs, self.stores, strict=True)
        ]

    def at(self, after_ms: int) -> LanedVhost:
        """Move the time to `START_MS` plus `after_ms`."""
        self.time_ms = START_MS + after_ms
        for shard in self.shards:
            shard.advance(self.time_ms)
        self._hear()
        return self

    def cut(self) -> None:
        """End the batch on all lanes, and begin the next from the stored bytes."""
        for lane, shard in enumerate(self.shards):
            batch = shard.finish()
            self.events[lane] += batch.events.rows()
            self.notes[lane] = batch.redrives
        self.shards = self._opened()

    def agree(self) -> list[str]:
        """End batches until the lanes' notes make no verdict any more; return the verdicts."""
        found: list[str] = []
        self.cut()
        while agreed := list(verdicts(self.notes)):
            for note, verdict in agreed:
                found.append(verdict.verdict)
                read = parse_command(msgspec.json.decode(msgspec.json.encode(verdict)))
                self.tell(read, Actor(note.user, ""))
            self.cut()
        return found

    def publish(
        self,
        exchange: str,
        key: str,
        body: str,
        *,
        lane: int,
        flags: int = CONFIRM,
        channel: str = "pub",
    ) -> None:
        """Publish a message that the first stage puts on a lane."""
        message = Message(0, lane, len(self.bodies), 0, 0, len(body))
        self.bodies.append(body)
        publication = self._publications.setdefault((exchange, key), Publication(exchange, key))
        for each in sorted({HOME, lane}):
            away = 0 if each == lane else AWAY
            actor = Actor(None, channel)
            self.shards[each].publish(self.time_ms, message, publication, flags | away, actor)
        self._hear()

    def do(
        self, command: Command, turn: int = 0, *, user: str | None = None
    ) -> dict[str, Any] | Refusal:
        """Carry out a command that asks for an answer; return the merged one."""
        command = msgspec.structs.replace(command, reply_id=command.reply_id or "asked")
        channel = getattr(command, "channel", None) or "c0"
        before = len(self.answers)
        self.tell(command, Actor(user, channel), turn)
        [answer] = self.answers[before:]
        refusal = answer.refusal
        return answer.result if refusal is None else refusal

    def tell(self, command: Command, actor: Actor, turn: int = 0) -> None:
        """Let every lane carry out its part of a command."""
        place = (1, 0, self._records)
        self._records += 1
        for lane, part, answering in on_each_lane(command, actor.channel, turn, len(self.shards)):
            self.shards[lane].command(self.time_ms, part, actor, answering, place)
        self._hear()

    def _hear(self) -> None:
        outs, answers = take_outbound(self.shards)
        for lane, out in outs:
            if isinstance(out, DeliveryOut):
                self.delivered.append(self._given(out, lane))
            elif isinstance(out, AnswerOut):
                self.answers.append(out)
            elif isinstance(out, ConfirmOut):
                self.confirms.append((self.bodies[out.message.offset], out.ack))
            else:
                self.told.append(out)
        for one in answers:
            if one.op:
                self.answers.append(one)
            else:
                self.confirms.append((self.bodies[one.place[2]], one.result["ack"]))

    def _given(self, out: DeliveryOut, lane: int) -> Given:
        return Given(
            on_lane(out.delivery_id, lane),
            on_lane(out.ref, lane),
            out.queue,
            self.bodies[out.copy.message.offset],
            lane,
            out.actor.channel,
            out.label,
        )

    def happened(self, *kinds: Kind) -> list[tuple[int, str, str, str]]:
        """Lane, kind, queue and body of the events of these kinds, lane by lane."""
        self.cut()
        return [
            (lane, event.kind.name.lower(), event.queue, self.bodies[event.copy.message.offset])
            for lane, events in enumerate(self.events)
            for event in events
            if event.kind in kinds and event.copy is not None
        ]

    def depths(self, queue: str) -> list[int]:
        """The ready messages of a queue on each lane."""
        return [
            shard.state.queues.named(queue).ready if queue in shard.vhost.queues else 0
            for shard in self.shards
        ]
