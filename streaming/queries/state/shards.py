"""What the tables know of each shard after their last batch.

    copies, declarations, channels, redrives in the tables  -->  KnownShard  -->  rebuild_shard

What the last batch row says of a shard (its time, the number of its next outbound record) is used
if it is there; otherwise safe bounds take its place.
"""

from collections import Counter
from collections.abc import Container, Iterable
from typing import Any, Final

import msgspec

from streaming.broker.events import Actor
from streaming.broker.message import NEVER, NO_FILE, Message
from streaming.broker.outbound import next_start
from streaming.broker.rebuilt_shard import (
    KnownConsumer,
    KnownDelivery,
    KnownShard,
    Positions,
)
from streaming.broker.redrive_letters import RedriveOptions
from streaming.broker.redrives.records import (
    CANCELLED,
    FINISHED,
    PAUSED,
    Chunk,
    ClosedRecord,
    OpenRecord,
)
from streaming.broker.redrives.version_keys import version_of
from streaming.ledger.batch_detail import BatchDetail
from streaming.queries.as_of.snapshots import events_after_snapshot
from streaming.queries.duckdb_tables import Tables
from streaming.queries.state.copies import RESIDENT, Copies, KnownCopy, LostStateError, ShardName
from streaming.queries.vhosts.clients import clients_of_lanes, list_channels
from streaming.queries.vhosts.declared import Declared, declared
from topology.definitions.json_object import Fields, Report
from topology.definitions.objects import read_queue
from topology.values import Compat
from topology.vhost import Vhost

_EVENTS: Final = (
    *("batch_id", "vhost", "lane", "seq", "at", "kind", "copy_id", "parent_copy_id", "queue"),
    *("position", "user", "channel", "detail"),
)
_POSITIONS: Final = f"""
    WITH born AS (
        SELECT vhost, lane, detail ->> '$.name' AS queue, max(seq) AS seq FROM later_event
        WHERE kind = 'topology' AND detail ->> '$.what' = 'queue_declared' GROUP BY ALL),
    placed AS (
        SELECT vhost, lane, queue, seq, "position" FROM later_event
        WHERE kind IN ('enqueued', 'requeued') AND queue IS NOT NULL
        UNION ALL
        SELECT vhost, lane, queue, -1, "position" FROM {RESIDENT})
    SELECT placed.vhost, placed.lane, placed.queue,
           max("position") FILTER ("position" >= 0) AS arrived,
           max("position") FILTER ("position" < 0) AS requeued
    FROM placed LEFT JOIN born USING (vhost, lane, queue)
    WHERE placed.seq = -1 OR born.seq IS NULL OR placed.seq > born.seq
    GROUP BY ALL
"""
_OWNERS: Final = """
    SELECT vhost, lane, detail ->> '$.name' AS queue, arg_max({'user': "user", 'channel': channel},
           seq) AS actor
    FROM later_event WHERE kind = 'topology' AND detail ->> '$.what' = 'queue_declared' GROUP BY ALL
"""
_DECLARATION: Final = """
    SELECT arg_max(detail ->> '$.declaration', {'at': "at", 'seq': seq}) FROM topology
    WHERE kind = 'topology' AND detail ->> '$.what' = 'queue_declared' AND vhost = ?
          AND detail ->> '$.name' = ?
"""
_REDRIVES: Final = """
    SELECT vhost, lane, kind, seq, "user", copy_id, detail FROM every
    WHERE kind IN ('redrive', 'redriven', 'discarded', 'republished', 'skipped') ORDER BY seq
"""
_VERSIONS: Final = """
    SELECT edited.vhost, edited.lane, exchange, routing_key, topic_number, "partition", "offset",
           body_bytes
    FROM every AS edited JOIN stored ON (topic_number, "partition", "offset") =
        (edited.message_id.topic_number, edited.message_id."partition", edited.message_id."offset")
    WHERE edited.kind = 'edited' ORDER BY edited.seq
"""


def known_shards(
    tables: Tables, compat: Compat, detail: BatchDetail
) -> dict[ShardName, KnownShard]:
    """Read what the tables know of each shard, up to their cut, and of `tables.vhosts` only.

    Args:
        detail: of the batch row at the cut.

    Raises:
        LostStateError: a copy cannot be restored as it was.
        QueryError: a table is missing or cannot be read.
    """
    places = {shard_named(name): key for name, key in detail.manifest.shards.items()}
    clocks = {
        place: detail.clocks[key]
        for place, key in places.items()
        if key in detail.clocks and (tables.vhosts is None or place[0] in tables.vhosts)
    }
    answered = sum(detail.positions.values())  # at most so many records without an event
    copies = Copies(tables, compat)
    snapshot = events_after_snapshot(tables, _EVENTS, "later_event")
    ends = {
        (vhost, lane): seq
        for vhost, lane, seq in (() if snapshot is None else snapshot.last_seq)
        if tables.vhosts is None or vhost in tables.vhosts
    }
    at_ms: dict[ShardName, int] = {}
    for vhost, lane, seq, at_us in tables.values(
        'SELECT vhost, lane, max(seq), max(epoch_us("at")) FROM later_event WHERE seq IS NOT NULL '
        "GROUP BY ALL"
    ):
        ends[vhost, lane] = seq
        at_ms[vhost, lane] = at_us // 1000
    if snapshot is not None and snapshot.at is not None:
        earliest = int(snapshot.at.timestamp() * 1000)
        at_ms = {place: max(at_ms.get(place, 0), earliest) for place in ends}
    topologies = declared(tables)
    found: dict[ShardName, KnownShard] = {}
    for place in sorted(ends.keys() | clocks.keys()):
        seq = ends.get(place, 0)  # 0: it had no event yet
        now_ms, sent = clocks.get(place, (at_ms.get(place, 0), seq + 1 + answered))
        found[place] = KnownShard(
            now_ms=now_ms,
            next_seq=seq + 1,
            next_outbound=next_start(sent),  # a lost batch may have sent the next numbers
            vhost=vhost_of(topologies.get(place[0], Declared()), compat),
        )
    _add_copies(tables, found, copies)
    _add_queues(tables, found)
    _add_clients(tables, found, clocks.keys() or found.keys())
    _add_redrives(tables, found)
    return found


def shard_named(name: str) -> ShardName:
    """The vhost and lane that a name in the manifest stands for."""
    lane, _space, vhost = name.partition(" ")
    return vhost, int(lane)


def vhost_of(topology: Declared, compat: Compat) -> Vhost:
    """The vhost with queues numbered in the order of their declarations."""
    numbers = {name: number for number, name in enumerate(topology.queues, 1)}
    vhost = Vhost.from_definitions(topology.definitions(), compat, numbers)
    vhost.version = len(topology.details) + 1
    return vhost


# -- copies


def _add_copies(
    tables: Tables, found: dict[ShardName, KnownShard], copies: Iterable[KnownCopy]
) -> None:
    deliveries: dict[ShardName, list[tuple[int, KnownDelivery]]] = {}
    held: dict[ShardName, list[KnownCopy]] = {}
    for known in copies:
        shard = found[known.place]
        if known.queue not in shard.vhost.queues:
            _add_leaving_queue(tables, shard, known)
        if known.delivered is not None:
            actor, at_ms, seq = known.delivered
            delivery = KnownDelivery(known.queue, known.copy, actor, at_ms)
            deliveries.setdefault(known.place, []).append((seq, delivery))
        elif known.held is not None:
            held.setdefault(known.place, []).append(known)
        else:
            shard.ready.append((known.queue, known.copy))
    for place, ordered in deliveries.items():
        ordered.sort(key=lambda entry: entry[0])
        found[place].unacked.extend(delivery for _seq, delivery in ordered)
    for place, copies_held in held.items():
        copies_held.sort(key=lambda known: known.held_seq)
        found[place].held.extend((each.queue, each.held) for each in copies_held if each.held)


def _add_leaving_queue(tables: Tables, shard: KnownShard, known: KnownCopy) -> None:
    """Declare a queue again that was deleted, but has copies: the first batch deletes it at once.

    It had more messages than one step removes, or the home lane deleted it before this lane did.
    An exclusive queue without an owner goes with the channels, as those of lost clients do.
    """
    tables.view("events", columns=_EVENTS, view="topology")  # retention keeps these events
    vhost, lane = known.place
    found = tables.values(_DECLARATION, [vhost, known.queue])
    if not found or found[0][0] is None:
        raise LostStateError(
            f"queue {known.queue!r} of vhost {vhost!r} was deleted, but lane {lane} still "
            "has messages in it, and the tables do not say how it was declared: restore the "
            "checkpoint from a backup"
        )
    document = msgspec.json.decode(found[0][0])
    declaration = read_queue(Fields(document, "", Report()))
    shard.vhost.add_queue(msgspec.structs.replace(declaration, exclusive=True))


# -- queues and clients


def _add_queues(tables: Tables, found: dict[ShardName, KnownShard]) -> None:
    for vhost, lane, queue, arrived, requeued in tables.values(_POSITIONS):
        shard = found.get((vhost, lane))
        if shard is None or queue not in shard.vhost.queues:
            continue
        shard.positions[queue] = Positions(
            0 if arrived is None else arrived + 1, None if requeued is None else requeued + 1
        )
    for vhost, lane, queue, actor in tables.values(_OWNERS):
        shard = found[vhost, lane]
        if queue in shard.vhost.exclusive_queues:
            shard.owners[queue] = Actor(actor["user"], actor["channel"] or "")


def _add_clients(
    tables: Tables, found: dict[ShardName, KnownShard], lanes: Container[ShardName]
) -> None:
    """Add channels and consumers to every lane of their vhost, as the lanes have them.

    A channel that is open on one lane only is there too: its lease has expired on the others
    meanwhile. So all lanes lose the same channels, and the same queues with them.

    Args:
        lanes: those that the job had; a lane that a rebuild removed closed nothing.
    """
    channels: dict[str, dict[Actor, None]] = {}
    consumers: dict[str, dict[tuple[Actor, str], KnownConsumer]] = {}
    clients = clients_of_lanes(tables)
    for vhost, lane, user, name in clients.channels:
        if (vhost, lane) in lanes:
            channels.setdefault(vhost, {})[Actor(user, name)] = None
    for row in list_channels(tables):  # also those that only hold messages
        channels.setdefault(row["vhost"], {})[Actor(row["user"], row["name"] or "")] = None
    for vhost, lane, user, name, tag, queue, prefetch, auto_ack in clients.consumers:
        if (vhost, lane) in lanes:
            consumer = KnownConsumer(Actor(user, name), tag, queue, prefetch, auto_ack)
            consumers.setdefault(vhost, {})[consumer.actor, tag] = consumer
    for (vhost, _lane), shard in found.items():
        shard.channels.extend(channels.get(vhost, ()))
        known = consumers.get(vhost, {}).values()
        shard.consumers.extend(one for one in known if one.queue in shard.vhost.queues)


def _add_redrives(tables: Tables, found: dict[ShardName, KnownShard]) -> None:
    """Add the redrives, whose events retention keeps, and the versions that are in `messages`."""
    columns = ["batch_id", "vhost", "lane", "seq", "kind", "user", "copy_id", "detail"]
    tables.view("events", columns=[*columns, "message_id"], view="every")
    open_ones: dict[tuple[ShardName, str], OpenRecord] = {}
    handled: Counter[tuple[str, str]] = Counter()  # letters on all lanes, by vhost and redrive
    for vhost, lane, kind, seq, user, copy_id, text in tables.values(_REDRIVES):
        shard = found[vhost, lane]
        detail = msgspec.json.decode(text)
        if kind == "republished":
            shard.republished.append(copy_id)
        key = ((vhost, lane), detail["redrive"])
        record = open_ones.get(key)
        if kind == "redrive" and detail["what"] == "requested":
            open_ones[key] = OpenRecord(
                *(detail["redrive"], seq, user, detail.get("reason", ""), detail["seal"]),
                options=msgspec.convert(detail["options"], RedriveOptions),
                total=detail["total"],
                status=PAUSED,
                next_ms=NEVER,
            )
        elif record is None:
            continue
        elif kind == "redrive" and detail["what"] in {FINISHED, CANCELLED}:
            del open_ones[key]
            shard.ended_redrives[record.id] = ClosedRecord(
                *(record.seal, detail["what"], record.total),
                *(detail["moved"], detail["skipped"], detail["parked"]),
            )
        elif kind != "redrive":
            _count(record, kind, detail)
            handled[vhost, record.id] += 1
    for (place, redrive_id), record in open_ones.items():
        # the tables do not say which lane the other letters are on: the first one counts them all
        left = record.total - handled[place[0], redrive_id]
        record.chunks = [Chunk(0, left)] if left > 0 else []
        handled[place[0], redrive_id] = record.total
        found[place].open_redrives.append(record)
    columns = ["topic_number", "partition", "offset", "exchange", "routing_key", "body_bytes"]
    tables.view("messages", columns=columns, view="stored")
    for vhost, lane, exchange, key, topic, partition, offset, size in tables.values(_VERSIONS):
        message = Message(topic, partition, offset, NO_FILE, 0, size)
        found[vhost, lane].versions[version_of(exchange, key)] = message


def _count(record: OpenRecord, kind: str, detail: dict[str, Any]) -> None:
    if kind != "skipped":
        record.moved += 1
    elif detail["reason"] == "cap":
        record.parked += 1
    else:
        record.skipped += 1
