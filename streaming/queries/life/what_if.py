"""What if the topology had been another: a recorded stretch, played again on the pure core.

    copies in queues at T  +  publishes and settlements since T  -->  core with other definitions
                                                                 -->  fates by queue, compared

The answer is deterministic: equal tables and definitions give an equal answer, whatever the number
of processes. Copies that are in queues at the beginning keep age, expiration, priority, deaths and
holder; how often they were requeued is not known. A delivery is replayed if the queue has the
message then. Consumers that would have acted otherwise are unknown; the answer counts the
deliveries and settlements that found nothing.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any, Final

import msgspec

from streaming.broker import commands
from streaming.broker.config import ShardConfig
from streaming.broker.events import ENDINGS, Actor, Events, Kind
from streaming.broker.message import (
    IMMEDIATE,
    MANDATORY,
    NO_COPY,
    Message,
    Publication,
    PublishedHeaders,
    publication_of,
)
from streaming.broker.outbound import DeliveryOut
from streaming.broker.shard import Shard
from streaming.broker.state.store import MemoryStore
from streaming.queries.cut import Cut
from streaming.queries.duckdb_tables import QueryError, Row, Tables
from streaming.queries.life.resident_copies import Resident, residents_of_lane
from topology.declarations import Definitions
from topology.definitions.load import load_definitions
from topology.values import Compat, table_from_json

BATCH_EVENTS: Final = 100_000
"""How many events are replayed before those of the core are counted and dropped."""

NO_QUEUE: Final = "no_queue"
"""Why a copy is lost that was in a queue which the definitions do not have."""

_ARRIVALS: Final = frozenset({"enqueued", "unroutable", "returned", "publish_error", "refused"})
_LEAVING: Final = frozenset({*(kind.name.lower() for kind in ENDINGS), "held"})
_SETTLED: Final = frozenset({"acked", "requeued", "died", "rerouted"})


MOVES: Final = frozenset({"redriven", "discarded", "republished"})
"""The events with which redrives, discards and restores move letters."""


class Fate(msgspec.Struct, frozen=True):
    """How many copies of a queue, or messages of a vhost, had one fate, then and now.

    Attributes:
        queue: empty for messages that reached no queue.
        fate: an event's kind, `lost`, or `waiting` at the end; `reason` says why.
    """

    vhost: str
    queue: str
    fate: str
    reason: str
    recorded: int
    replayed: int


class WhatIf(msgspec.Struct, frozen=True):
    """The answer.

    Attributes:
        publishes: how many publishes were replayed.
        resident: how many copies were in queues at the beginning.
        unplayed: deliveries and settlements that found no message where one was recorded.
        moved: letters that were redriven, discarded, restored or published again; the replay leaves
            them where they were.
        unlisted: vhosts of the tables that the definitions do not have.
    """

    fates: list[Fate]
    publishes: int
    resident: int
    unplayed: int
    moved: int
    unlisted: list[str]


class _Job(msgspec.Struct, frozen=True):
    """All that a process needs to replay one lane of one vhost; pickles."""

    root: str
    options: dict[str, str]
    batch_id: int
    cut: Cut
    vhost: str
    lane: int
    lanes: int
    document: bytes
    compat: Compat


_Key = tuple[str, str, str]
"""Queue, fate, reason."""


class _Found(msgspec.Struct):
    recorded: dict[_Key, int]
    replayed: dict[_Key, int]
    publishes: int
    resident: int
    unplayed: int
    moved: int


def what_if(
    tables: Tables,
    cut: Cut,
    document: bytes,
    *,
    options: Mapping[str, str] | None = None,
    compat: Compat = "4.0",
    processes: int = 1,
) -> WhatIf:
    """Replay what happened after a cut with the topology of a definitions document.

    Raises:
        QueryError: the tables have nothing after the cut, or no vhost that the document has.
        InvalidTopologyError: the document is not valid.
    """
    known = load_definitions(document, compat=compat).vhosts
    tables.view("events", columns=["vhost", "lane"])
    found = tables.values(
        "SELECT vhost, max(lane) FROM events WHERE vhost IS NOT NULL GROUP BY 1 ORDER BY 1"
    )
    jobs = [
        _Job(
            tables.root, dict(options or {}), cut.batch_id, cut, *place, most + 1, document, compat
        )
        for vhost, most in found
        if vhost in known
        for place in ((vhost, lane) for lane in range(most + 1))
    ]
    if not jobs:
        names = ", ".join(repr(vhost) for vhost, _ in found)
        raise QueryError(f"the definitions have no vhost of the tables: {names or 'there is none'}")
    if min(processes, len(jobs)) > 1:
        with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
            parts = list(pool.map(_replay, jobs))
    else:
        parts = [_replay(job) for job in jobs]
    totals: dict[tuple[str, _Key], list[int]] = {}
    for job, part in zip(jobs, parts, strict=True):
        for place, counts in enumerate((part.recorded, part.replayed)):
            for key, count in counts.items():
                totals.setdefault((job.vhost, key), [0, 0])[place] += count
    return WhatIf(
        [Fate(vhost, *key, *both) for (vhost, key), both in sorted(totals.items()) if any(both)],
        sum(part.publishes for part in parts),
        sum(part.resident for part in parts),
        sum(part.unplayed for part in parts),
        sum(part.moved for part in parts),
        [vhost for vhost, _most in found if vhost not in known],
    )


def _replay(job: _Job) -> _Found:
    tables = Tables(job.root, job.options, threads=1)
    try:
        return _Replay(tables, job).run()
    finally:
        tables.close()


class _Replay:
    def __init__(self, tables: Tables, job: _Job) -> None:
        self._tables = tables
        self._job = job
        self._place = [job.vhost, job.lane]
        self._headers: dict[tuple[int, int, int], dict[str, Any] | None] = {}
        self._interned: dict[str, Publication] = {}
        self._store = MemoryStore()
        self._replayed: Counter[_Key] = Counter()
        self._entered: Counter[str] = Counter()  # copies at the beginning
        self._deliveries: dict[int, tuple[str, Actor]] = {}  # recorded copy -> its delivery now
        definitions = load_definitions(job.document, compat=job.compat)
        self._declared = definitions.vhosts[job.vhost]
        self._config = ShardConfig(
            vhost=job.vhost, lane=job.lane, lanes=job.lanes, compat=job.compat
        )
        self._shard = self._open()
        self._unplayed = 0
        self._moved = 0

    def run(self) -> _Found:
        """Replay the lane."""
        resident = self._residents()
        publications = self._publications()
        events = self._events()
        if events:
            self._shard.advance(events[0]["at_ms"])
        self._declare()
        self._fill_queues(resident)
        started = Counter(one.queue for one in resident)
        seen: set[tuple[int, int, int]] = set()
        publishes = 0
        for number, event in enumerate(events, 1):
            key = _key(event)
            new = event["parent_copy_id"] is None and key not in seen and key in publications
            if event["kind"] in _ARRIVALS and new:
                seen.add(key)
                publishes += 1
                self._publish(event, *publications[key])
            elif event["kind"] in {"delivered", "consumed"}:
                is_consumed = event["kind"] == "consumed"
                place = (event["at_ms"], event["copy_id"], event["queue"], key)
                self._deliver(*place, auto_ack=is_consumed)
            elif event["kind"] in _SETTLED:
                self._settle(event)
            elif event["kind"] in MOVES:
                self._moved += 1
            if number % BATCH_EVENTS == 0:
                self._cut_batch()
        if events:
            self._shard.advance(events[-1]["at_ms"])
        self._cut_batch()
        recorded = self._recorded(started)
        replayed = dict(_with_waiting(self._replayed, self._entered))
        return _Found(recorded, replayed, publishes, len(resident), self._unplayed, self._moved)

    def _fill_queues(self, resident: list[Resident]) -> None:
        """Put the copies at the beginning into their queues, and deliver those that were unacked.

        What they do at once, such as expire, counts as replayed; that they enter does not.
        """
        for one in resident:
            message = one.message
            self._headers[message.topic_number, message.partition, message.offset] = one.headers
            envelope = one.envelope
            if one.publication is not None:
                publication = self._interned.setdefault(repr(one.publication), one.publication)
                envelope = self._shard.state.publishing.plan(publication, message).envelope
            assert envelope is not None, "it has a publication or an envelope"
            if not self._shard.place(one.queue, message, envelope, one.since_ms):
                self._replayed[one.queue, "lost", NO_QUEUE] += 1
        for one in resident:
            if one.is_unacked:
                key = (one.message.topic_number, one.message.partition, one.message.offset)
                self._deliver(self._shard.now_ms, one.copy_id, one.queue, key)
        events = self._shard.events
        for row, kind in enumerate(events.kinds):
            copy = events.copies[row]
            if kind == Kind.ENQUEUED and copy is not None and copy.parent_copy_id == NO_COPY:
                self._entered[events.queues[row]] += 1
        self._cut_batch()
        for queue, count in self._entered.items():
            self._replayed[queue, "enqueued", ""] -= count

    # -- the tables

    def _residents(self) -> list[Resident]:
        self._tables.cut = self._job.cut
        found = list(residents_of_lane(self._tables, self._job.vhost, self._job.lane))
        self._tables.cut = None
        return found

    def _events(self) -> list[Row]:
        files = self._tables.files("events", {"batch_id": self._job.batch_id})
        self._tables.view("events", files=files)
        return self._tables.rows(
            f"""
            SELECT epoch_ms("at") AS at_ms, kind, copy_id, parent_copy_id, queue, reason,
                   body_bytes, message_id.topic_number, message_id."partition", message_id."offset"
            FROM events
            WHERE vhost = ? AND lane = ? AND message_id IS NOT NULL AND NOT ({self._before()})
            ORDER BY seq
            """,
            self._place,
        )

    def _before(self) -> str:
        return self._job.cut.condition("events") or "false"

    def _publications(self) -> dict[tuple[int, int, int], tuple[Publication, int]]:
        files = self._tables.files("messages", {"batch_id": self._job.batch_id})
        self._tables.view("messages", files=files)
        found = self._tables.rows(
            """
            SELECT topic_number, "partition", "offset", exchange, routing_key, headers,
                   properties.expiration, properties.priority, mandatory, immediate
            FROM messages WHERE vhost = ? AND lane = ?
            """,
            self._place,
        )
        publications = {}
        for row in found:
            headers = (
                None
                if row["headers"] is None
                else table_from_json(msgspec.json.decode(row["headers"]))
            )
            properties = {"expiration": row["expiration"], "priority": row["priority"]}
            made = publication_of(
                row["exchange"] or "", row["routing_key"] or "", properties, headers
            )
            publication = self._interned.setdefault(repr(made), made)
            flags = (MANDATORY if row["mandatory"] else 0) | (IMMEDIATE if row["immediate"] else 0)
            self._headers[_key(row)] = headers
            publications[_key(row)] = (publication, flags)
        return publications

    def _recorded(self, started: Counter[str]) -> dict[_Key, int]:
        counts: Counter[_Key] = Counter()
        for queue, kind, reason, count in self._tables.values(
            f"""
            SELECT coalesce(queue, ''), kind, coalesce(reason, ''), count(*) FROM events
            WHERE vhost = ? AND lane = ? AND message_id IS NOT NULL AND NOT ({self._before()})
            GROUP BY ALL
            """,
            self._place,
        ):
            counts[queue, kind, reason] += count
        files = self._tables.files("dead_letters", {"batch_id": self._job.batch_id})
        self._tables.view("dead_letters", files=files)
        for queue, outcome, count in self._tables.values(
            f"""
            SELECT queue, outcome, count(*) FROM dead_letters
            WHERE vhost = ? AND lane = ? AND outcome IS NOT NULL AND len(targets) = 0
            AND NOT ({self._job.cut.condition("dead_letters") or "false"}) GROUP BY ALL
            """,
            self._place,
        ):
            counts[queue, "lost", outcome] += count
        return dict(_with_waiting(counts, started))

    # -- the core

    def _open(self) -> Shard:
        return Shard(self._config, self._store, published=self._published)

    def _published(self, message: Message) -> PublishedHeaders:
        key = (message.topic_number, message.partition, message.offset)
        return PublishedHeaders(self._headers.get(key))

    def _cut_batch(self) -> None:
        """End a batch of the core, and count its events."""
        batch = self._shard.finish()
        self._replayed.update(_fates(batch.events))
        self._shard = self._open()

    def _declare(self) -> None:
        for command in _declarations(self._declared):
            self._shard.command(self._shard.now_ms, command)
        self._shard.take_outbound()

    def _publish(self, event: Row, publication: Publication, flags: int) -> None:
        self._shard.publish(event["at_ms"], _message(event), publication, flags)
        self._shard.take_outbound()

    def _deliver(
        self,
        at_ms: int,
        copy_id: int,
        queue: str,
        message: tuple[int, int, int],
        *,
        auto_ack: bool = False,
    ) -> None:
        """Deliver a message as it was recorded, if the queue has it."""
        actor = Actor(None, f"c{copy_id}")
        get = commands.Get(
            queue=queue, message=message, label="g", auto_ack=auto_ack, channel=actor.channel
        )
        self._shard.command(at_ms, get, actor)
        given = [out for out in self._shard.take_outbound() if isinstance(out, DeliveryOut)]
        if not given:
            self._unplayed += 1
        elif not auto_ack:
            self._deliveries[copy_id] = (given[0].delivery_id, actor)

    def _settle(self, event: Row) -> None:
        if event["kind"] == "died" and event["reason"] not in {"rejected", "delivery_limit"}:
            return
        found = self._deliveries.pop(event["copy_id"], None)
        if found is None:
            self._unplayed += 1
            return
        delivery, actor = found
        command: commands.Command
        if event["kind"] == "acked":
            command = commands.Ack(refs=(delivery,), channel=actor.channel)
        else:
            requeue = event["kind"] == "requeued" or event["reason"] == "delivery_limit"
            command = commands.Reject(refs=(delivery,), requeue=requeue, channel=actor.channel)
        self._shard.command(event["at_ms"], command, actor)
        self._shard.command(event["at_ms"], commands.CloseChannel(channel=actor.channel), actor)
        self._shard.take_outbound()


def _declarations(declared: Definitions) -> Iterator[commands.Command]:
    yield from (commands.SetPolicy(policy=one) for one in declared.policies)
    yield from (commands.SetOperatorPolicy(policy=one) for one in declared.operator_policies)
    yield from (commands.DeclareExchange(exchange=one) for one in declared.exchanges)
    yield from (commands.DeclareQueue(queue=one) for one in declared.queues)
    yield from (commands.Bind(binding=one) for one in declared.bindings)


def _fates(events: Events) -> Counter[_Key]:
    outcomes = dict(zip(events.death_rows, events.death_outcomes, strict=True))
    found: Counter[_Key] = Counter()
    for row, kind in enumerate(events.kinds):
        if events.copies[row] is None and row not in events.messages:
            continue
        outcome = outcomes.get(row)
        reason = "" if outcome is None else outcome.reason
        found[events.queues[row], Kind(kind).name.lower(), reason] += 1
        if outcome is not None and outcome.outcome and not outcome.targets:
            found[events.queues[row], "lost", outcome.outcome] += 1
    return found


def _with_waiting(counts: Mapping[_Key, int], started: Counter[str]) -> Iterator[tuple[_Key, int]]:
    """The fates, and how many copies each queue has at the end."""
    waiting = Counter(started)
    for (queue, fate, reason), count in counts.items():
        if fate == "enqueued":
            waiting[queue] += count
        elif fate in _LEAVING:
            waiting[queue] -= count
        if fate not in {"delivered", "requeued", "settle_missed"}:
            yield (queue, fate, reason), count
    yield from (((queue, "waiting", ""), count) for queue, count in waiting.items() if count)


def _key(row: Row) -> tuple[int, int, int]:
    return row["topic_number"], row["partition"], row["offset"]


def _message(row: Row) -> Message:
    return Message(*_key(row), 0, 0, row["body_bytes"] or 0)
