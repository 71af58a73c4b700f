"""One lane of a recorded stretch, played again on the pure core with other definitions.

    copies in queues at T           placed, with age, expiration, priority, deaths, returns, holder
    publishes                       published again
    deliveries, settlements         if the queue has the message then
    purges, redrives, discards,     the same copies leave; redriven letters enter the queues that
    restores, deleted queues        they entered then
    queues and so on that came      declared, bound and deleted when they were: definitions files
    and went                        cannot have them, such as exclusive queues
    all other declarations          not replayed: the definitions hold from the beginning

Consumers that would have acted otherwise are unknown; what finds no message is counted. Nothing
expires a queue: the uses that keep it are not all recorded.
"""

import base64
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from streaming.broker import commands
from streaming.broker.config import ShardConfig
from streaming.broker.events import Actor, Kind
from streaming.broker.message import (
    AWAY,
    IMMEDIATE,
    MANDATORY,
    NO_COPY,
    Envelope,
    Message,
    Publication,
    PublishedHeaders,
    publication_of,
)
from streaming.broker.outbound import DeliveryOut
from streaming.broker.queues import step_size
from streaming.broker.shard import Shard
from streaming.broker.state.pages import decode_envelope
from streaming.broker.state.store import MemoryStore
from streaming.queries.cut import Cut
from streaming.queries.duckdb_tables import Row, Tables, text
from streaming.queries.life.fates import FateKey, fates_in, recorded_fates, with_waiting
from streaming.queries.life.passing_topology import (
    PassingTopology,
    lasting_policy,
    lasting_queue,
)
from streaming.queries.life.settlements import Settlements, how_settled
from streaming.queries.state.copies import Copies, KnownCopy, published_headers
from topology.declarations import Definitions
from topology.definitions.load import load_definitions
from topology.values import Compat

BATCH_EVENTS: Final = 100_000
"""How many events are replayed before those of the core are counted and dropped."""

NO_QUEUE: Final = "no_queue"
"""Why a copy is lost that was in a queue which the definitions do not have."""

TOPOLOGY_CHANGES: Final = "changes of the topology: the definitions hold from the beginning"
REFUSED_USERS: Final = "publishes that their user may not make: they are refused again"
"""What is not replayed, and why."""

_ACCESS_REFUSED: Final = 403
_WITHOUT_EFFECT: Final = ("permissions", "parameter", "deployed")
_OTHER_USER: Final = "PRECONDITION_FAILED - user_id property "
_NO_CONSUMERS: Final = 313

_ARRIVALS: Final = frozenset({"enqueued", "unroutable", "returned", "publish_error", "refused"})
"""A message's first event, unless it died on arrival: then its copy has the number of that."""

_SETTLED: Final = frozenset({"acked", "requeued", "died", "rerouted"})
_TAKEN_AWAY: Final = frozenset({"purged", "deleted", "redriven", "discarded"})

MessageKey = tuple[int, int, int]


class ReplayJob(msgspec.Struct, frozen=True):
    """All that a process needs to replay one lane of one vhost; pickles."""

    root: str
    options: dict[str, str]
    cut: Cut
    vhost: str
    lane: int
    lanes: int
    document: bytes
    compat: Compat
    rules: ShardConfig


class Replayed(msgspec.Struct):
    """What became of one lane; see `WhatIf`."""

    recorded: dict[FateKey, int]
    replayed: dict[FateKey, int]
    publishes: int
    resident: int
    unplayed: int
    apart: dict[str, int]


class Replay:
    """The replay of one lane."""

    def __init__(self, tables: Tables, job: ReplayJob) -> None:
        self._tables = tables
        self._job = job
        self._place = (job.vhost, job.lane)
        self._headers: dict[MessageKey, dict[str, Any] | None] = {}
        self._interned: dict[str, Publication] = {}
        self._store = MemoryStore()
        self._replayed: Counter[FateKey] = Counter()
        self._entered: Counter[str] = Counter()  # copies at the beginning
        self._deliveries: dict[int, tuple[str, Actor]] = {}  # recorded copy -> its delivery now
        self._settlements = Settlements([])
        self._previous = ("", "")  # kind and queue of the previous event
        self._large_purges: dict[str, int] = {}  # queue -> seq of the first event of the last one
        self._moved: set[int] = set()  # recorded copies that others led somewhere else
        self._held: set[int] = set()  # recorded copies that at-least-once dead-lettering held
        definitions = load_definitions(job.document, compat=job.compat)
        self._declared = definitions.vhosts[job.vhost]
        self._passing = PassingTopology(tables, job.cut, job.vhost, self._declared)
        self._config = msgspec.structs.replace(
            job.rules,
            vhost=job.vhost,
            lane=job.lane,
            lanes=job.lanes,
            compat=job.compat,
            ignores_timeouts=True,  # what they requeued is recorded
        )
        self._shard = self._open()
        self._publishes = self._unplayed = 0
        self._apart: Counter[str] = Counter()

    def run(self) -> Replayed:
        """Replay the lane."""
        resident = self._residents()
        publications = self._publications()
        events = self._events()
        self._settlements = Settlements(events)
        if events:
            self._shard.advance(events[0]["at_ms"])
        self._declare()
        self._fill_queues(resident)
        started = Counter(one.queue for one in resident)
        seen: set[MessageKey] = set()
        has_begun = bool(resident)
        for number, event in enumerate(events, 1):
            key = _key(event)
            new = event["parent_copy_id"] is None and key not in seen and key in publications
            if event["kind"] == "topology":
                self._change(event, counts=has_begun)
            elif new and (event["kind"] in _ARRIVALS or event["copy_id"] == event["seq"]):
                has_begun = True
                seen.add(key)
                self._publish(event, *publications[key])
            else:
                self._follow(event, key)
            self._previous = event["kind"], event["queue"]
            if number % BATCH_EVENTS == 0:
                self._cut_batch()
        if events:
            self._shard.advance(events[-1]["at_ms"])
        self._cut_batch()
        return Replayed(
            with_waiting(recorded_fates(self._tables, self._job.cut, *self._place), started),
            with_waiting(self._replayed, self._entered),
            self._publishes,
            len(resident),
            self._unplayed,
            dict(self._apart),
        )

    def _follow(self, event: Row, key: MessageKey) -> None:
        """Do what somebody did with a copy."""
        kind, copy_id, queue = event["kind"], event["copy_id"], event["queue"]
        is_orphan = kind == "rerouted" and event["reason"] == "orphaned"
        if kind == "enqueued" and event["parent_copy_id"] in self._moved:
            self._enter(event)
        elif kind in {"delivered", "consumed"}:
            place = (event["at_ms"], copy_id, queue, key)
            self._deliver(*place, event["seq"], auto_ack=kind == "consumed")
        elif kind in _TAKEN_AWAY or is_orphan:
            if self._passing.has_queue(queue) and (is_orphan or kind == "deleted"):
                return  # its queue is deleted like it was then
            if kind == "purged" and self._purge(event):
                return
            self._moved.add(copy_id)
            self._take_away(event, key)
        elif kind == "republished":
            self._moved.add(copy_id)
            self._replayed[queue, kind, event["reason"] or ""] += 1
        elif kind == "held" or (kind in _SETTLED and copy_id not in self._held):
            self._settle(event)

    def _fill_queues(self, resident: list[KnownCopy]) -> None:
        """Put the copies at the beginning into their queues, and deliver those that were unacked.

        What they do at once, such as expire, counts as replayed; that they enter does not.
        """
        for one in resident:
            known = one.copy
            place = (one.queue, known.message, known.envelope, one.since_ms)
            if not self._shard.place(*place, requeue_count=known.requeue_count, held=one.held):
                self._replayed[one.queue, "lost", NO_QUEUE] += 1
            if one.held is not None:
                self._held.add(known.copy_id)
        for one in resident:
            if one.delivered is not None:
                key = _key_of(one.copy.message)
                self._deliver(self._shard.now_ms, one.copy.copy_id, one.queue, key)
        events = self._shard.events
        for row, kind in enumerate(events.kinds):
            copy = events.copies[row]
            if kind == Kind.ENQUEUED and copy is not None and copy.parent_copy_id == NO_COPY:
                self._entered[events.queues[row]] += 1
        self._cut_batch()
        for queue, count in self._entered.items():
            self._replayed[queue, "enqueued", ""] -= count

    # -- the tables

    def _residents(self) -> list[KnownCopy]:
        self._tables.cut = self._job.cut
        of_lane = f"vhost = {text(self._job.vhost)} AND lane = {self._job.lane}"
        copies = Copies(self._tables, self._job.compat, where=of_lane, headers=True)
        found = list(copies)
        for one in found:
            self._headers[_key_of(one.copy.message)] = copies.headers(one.copy.message)
        self._tables.cut = None
        return found

    def _events(self) -> list[Row]:
        files = self._tables.files("events", {"batch_id": self._job.cut.batch_id})
        self._tables.view("events", files=files)
        later = f"vhost = ? AND lane = ? AND NOT ({self._job.cut.condition('events')})"
        moved = "kind IN ('redriven', 'republished') OR (kind = 'rerouted' AND reason = 'orphaned')"
        return self._tables.rows(
            f"""
            SELECT seq, epoch_ms("at") AS at_ms, kind, copy_id, parent_copy_id, queue, reason,
                   number, body_bytes, message_id.topic_number, message_id."partition",
                   message_id."offset",
                   CASE WHEN kind IN ('topology', 'publish_error') THEN detail END AS detail,
                   CASE WHEN kind = 'enqueued' AND parent_copy_id IN (
                       SELECT copy_id FROM events WHERE {later} AND ({moved})
                   ) THEN base64(envelope) END AS envelope
            FROM events WHERE {later} AND (message_id IS NOT NULL OR kind = 'topology')
            ORDER BY seq
            """,
            [*self._place, *self._place],
        )

    def _publications(self) -> dict[MessageKey, tuple[Publication, int]]:
        """What was published, with its flags: in this lane, or in another with a single queue."""
        files = self._tables.files("messages", {"batch_id": self._job.cut.batch_id})
        self._tables.view("messages", files=files)
        found = self._tables.rows(
            """
            SELECT topic_number, "partition", "offset", exchange, routing_key, headers, lane,
                   properties.expiration, properties.priority, mandatory, immediate
            FROM messages WHERE vhost = ? AND (lane = ? OR ? = 0)
            """,
            [*self._place, self._job.lane],
        )
        publications = {}
        for row in found:
            headers = published_headers(row["headers"])
            properties = {"expiration": row["expiration"], "priority": row["priority"]}
            made = publication_of(
                row["exchange"] or "", row["routing_key"] or "", properties, headers
            )
            publication = self._interned.setdefault(repr(made), made)
            flags = (MANDATORY if row["mandatory"] else 0) | (IMMEDIATE if row["immediate"] else 0)
            if row["lane"] != self._job.lane:
                flags |= AWAY
            self._headers[_key(row)] = headers
            publications[_key(row)] = (publication, flags)
        return publications

    # -- the core

    def _open(self) -> Shard:
        return Shard(self._config, self._store, published=self._published)

    def _published(self, message: Message) -> PublishedHeaders:
        return PublishedHeaders(self._headers.get(_key_of(message)))

    def _cut_batch(self) -> None:
        """End a batch of the core, and count its events."""
        batch = self._shard.finish()
        self._replayed.update(fates_in(batch.events))
        self._shard = self._open()

    def _declare(self) -> None:
        for command in (*_declarations(self._declared), *self._passing.at_the_beginning()):
            self._passing.execute(self._shard, self._shard.now_ms, command)
        self._shard.take_outbound()

    def _change(self, event: Row, *, counts: bool) -> None:
        """Replay a change of what comes and goes; count another one if it can have an effect."""
        detail = msgspec.json.decode(event["detail"])
        command = self._passing.command(detail)
        if command is not None:
            self._passing.execute(self._shard, event["at_ms"], command)
            self._shard.take_outbound()
        elif counts and not detail["what"].startswith(_WITHOUT_EFFECT):
            self._apart[TOPOLOGY_CHANGES] += 1

    def _publish(self, event: Row, publication: Publication, flags: int) -> None:
        self._publishes += 1
        if event["kind"] == "publish_error":
            detail = msgspec.json.decode(event["detail"] or "{}")
            is_of_user = detail.get("text", "").startswith(_OTHER_USER)
            if is_of_user or detail.get("code") == _ACCESS_REFUSED:
                self._apart[REFUSED_USERS] += 1
                self._replayed["", "publish_error", ""] += 1
                return
        elif event["kind"] != "returned" or event["number"] != _NO_CONSUMERS:
            flags &= ~IMMEDIATE  # there was a consumer then, and here are none
        self._shard.publish(event["at_ms"], _message(event), publication, flags)
        self._shard.take_outbound()

    def _enter(self, event: Row) -> None:
        """Put a letter that was led there into a queue, as it entered then."""
        self._shard.advance(event["at_ms"])
        envelope: Envelope = decode_envelope(base64.b64decode(event["envelope"]))
        if not self._shard.place(event["queue"], _message(event), envelope, event["at_ms"]):
            self._unplayed += 1

    def _get(
        self, at_ms: int, actor: Actor, queue: str, message: MessageKey, *, auto_ack: bool
    ) -> str | None:
        """Take a message out of a queue; return the id of the delivery, None if it is missing."""
        wanted = "/".join(map(str, message))
        get = commands.Get(
            queue=queue, message=wanted, label="g", auto_ack=auto_ack, channel=actor.channel
        )
        self._shard.command(at_ms, get, actor)
        given = [out for out in self._shard.take_outbound() if isinstance(out, DeliveryOut)]
        if not given:
            self._unplayed += 1
            return None
        return given[0].delivery_id

    def _deliver(
        self,
        at_ms: int,
        copy_id: int,
        queue: str,
        message: MessageKey,
        seq: int = -1,
        *,
        auto_ack: bool = False,
    ) -> None:
        """Deliver a message as it was recorded, if the queue has it.

        Args:
            seq: of the recorded delivery; -1: before the beginning.
        """
        actor = Actor(None, self._settlements.channel(copy_id, seq))
        delivery = self._get(at_ms, actor, queue, message, auto_ack=auto_ack)
        if delivery is not None and not auto_ack:
            self._deliveries[copy_id] = (delivery, actor)

    def _take_away(self, event: Row, key: MessageKey) -> None:
        """Let a copy leave its queue as it left then: the core delivers it, and nobody gets it."""
        at_ms, queue = event["at_ms"], event["queue"]
        end = "acked"
        found = self._deliveries.pop(event["copy_id"], None)
        if found is None:
            end = "consumed"
            actor = Actor(None, f"c{event['copy_id']}")
            if self._get(at_ms, actor, queue, key, auto_ack=True) is None:
                return
        else:
            delivery, actor = found
            self._end(at_ms, actor, commands.Ack(refs=(delivery,), channel=actor.channel))
        self._replayed[queue, end, ""] -= 1
        self._replayed[queue, event["kind"], event["reason"] or ""] += 1

    def _purge(self, event: Row) -> bool:
        """Purge the queue with the first event of a purge; return whether that is all.

        The events of a large purge follow in portions, and other copies arrive before them. Then
        each event lets its copy leave.
        """
        queue = event["queue"]
        if queue not in self._shard.vhost.queues:
            return False
        ready = self._shard.state.queues.named(queue).ready
        if ready > step_size.MAX_AT_ONCE:
            self._large_purges.setdefault(queue, event["seq"])
        if event["copy_id"] < self._large_purges.get(queue, 0):
            return False
        if self._previous != ("purged", queue):
            command = commands.Purge(queue=queue)
            self._shard.command(event["at_ms"], command)
            self._shard.take_outbound()
        return True

    def _settle(self, event: Row) -> None:
        if event["kind"] == "held":
            self._held.add(event["copy_id"])
        copies = self._settlements.copies(event["seq"])
        found = [self._deliveries.pop(copy_id) for copy_id in copies if copy_id in self._deliveries]
        self._unplayed += len(copies) - len(found)
        if not found:
            return
        delivery, actor = found[-1]
        rest: dict[str, Any] = {"refs": (delivery,), "multiple": True, "channel": actor.channel}
        how = how_settled(event)
        command: commands.Command = commands.Ack(**rest)
        if how != "ack":
            command = commands.Nack(requeue=how == "requeue", **rest)
        self._end(event["at_ms"], actor, command)

    def _end(self, at_ms: int, actor: Actor, command: commands.Command) -> None:
        """Settle a delivery, and close its channel, which has no other."""
        self._shard.command(at_ms, command, actor)
        self._shard.command(at_ms, commands.CloseChannel(channel=actor.channel), actor)
        self._shard.take_outbound()


def _declarations(declared: Definitions) -> Iterator[commands.Command]:
    yield from (commands.SetPolicy(policy=lasting_policy(one)) for one in declared.policies)
    for one in declared.operator_policies:
        yield commands.SetOperatorPolicy(policy=lasting_policy(one))
    yield from (commands.DeclareExchange(exchange=one) for one in declared.exchanges)
    yield from (commands.DeclareQueue(queue=lasting_queue(one)) for one in declared.queues)
    yield from (commands.Bind(binding=one) for one in declared.bindings)


def _key(row: Row) -> MessageKey:
    return row["topic_number"], row["partition"], row["offset"]


def _key_of(message: Message) -> MessageKey:
    return message.topic_number, message.partition, message.offset


def _message(row: Row) -> Message:
    return Message(*_key(row), 0, 0, row["body_bytes"] or 0)
