"""What a rebuild of the checkpoint would write, read from the tables; nothing is changed.

    last batch row + what the tables know of each shard + configuration  -->  RebuildPlan

The plan says what a person should know before anything is written: how many messages are ready,
requeued or held in each shard, where the topics continue, and what the tables do not know.
"""

from collections.abc import Container, Mapping
from typing import Any, Final

import msgspec

from streaming.broker.config import CORE_VERSION, ShardConfig
from streaming.broker.message import NEVER
from streaming.broker.rebuilt_shard import KnownShard
from streaming.config import JobConfig, outcome_hash, outcome_settings
from streaming.config.amqp import log_topic
from streaming.ledger.batch_detail import BatchDetail, BatchRow, KnownManifest
from streaming.ledger.schema.schemas import LEDGER
from streaming.ledger.schema.table_setup import load_table
from streaming.ledger.write.batch_row import last_batch_row
from streaming.ledger.write.data_file import DataFileName
from streaming.pipeline.checkpoint.errors import MissingVhostError, NewerVersionError
from streaming.pipeline.checkpoint.manifest import Manifest, Rebuilt
from streaming.pipeline.rebuild.from_log import FoldedState, fold_log_to
from streaming.pipeline.task import task_settings
from streaming.protocol.record_headers import WIRE_VERSION
from streaming.queries.as_of.contents import query_ids
from streaming.queries.as_of.instant import last_batch
from streaming.queries.cut import Cut
from streaming.queries.duckdb_tables import Tables
from streaming.queries.state.copies import LostStateError, ShardName
from streaming.queries.state.shards import known_shards, shard_named, vhost_of
from streaming.queries.vhosts.declared import Declared, declared
from streaming.storage.location import Location
from topology.vhost import Vhost

EVENTS: Final = LEDGER[-1]


class ShardPlan(msgspec.Struct, frozen=True):
    """What a shard will hold.

    Attributes:
        unacked: copies that are requeued as redelivered when the job starts.
        channels: those that are closed then.
        held: copies kept by at-least-once dead-lettering.
        redrives: open ones, which are cancelled.
    """

    vhost: str
    lane: int
    queues: int
    ready: int
    unacked: int
    held: int
    channels: int
    redrives: int


class RebuildPlan(msgspec.Struct):
    """The new checkpoint.

    Attributes:
        batch_id: the last batch that the tables have.
        spark_batch: the number that Spark's last batch gets; a batch that only some tables have, or
            whose files were written, keeps its number for itself.
        offsets: topic -> partition -> the next offset to read.
        half_written: table -> rows of a batch that never happened; they are removed.
        notes: what is different from before, in words.
        manifest: of the new checkpoint.
        known, configs: the shards by grouping key.
        folded: the entries of those of sequenced vhosts, by grouping key.
    """

    query_id: str
    batch_id: int
    spark_batch: int
    now_ms: int
    offsets: dict[str, dict[str, int]]
    half_written: dict[str, int]
    shards: list[ShardPlan]
    notes: list[str]
    manifest: Manifest
    gate_open: bool
    known: dict[int, KnownShard]
    configs: dict[int, ShardConfig]
    folded: dict[int, dict[str, bytes]]


def plan_rebuild(
    config: JobConfig, tables: Tables, place: Location, partitions: int
) -> RebuildPlan:
    """Read the tables.

    Args:
        partitions: shuffle partitions of the new checkpoint.

    Raises:
        CheckpointError: a newer version wrote the tables, or a vhost with messages is not listed.
        LostStateError: the tables do not know enough, or the log of a sequenced vhost is not there.
        QueryError: there is no batch, a table is missing, or two jobs wrote to the tables.
    """
    batch_id = last_batch(tables)
    [query_id] = query_ids(tables)
    tables.cut = Cut(batch_id)
    events = place / EVENTS
    row = last_batch_row(load_table(events), events.storage(), query_id)
    assert row is not None, "the table has a batch"
    manifest = row.detail.manifest
    if row.detail.core_version > CORE_VERSION:
        raise NewerVersionError(
            f"{place.url} was written by a newer version of dlx (core "
            f"{row.detail.core_version}; this version has {CORE_VERSION}). Run the newer version"
        )
    _refuse_changed_front(config, manifest, row)
    found = known_shards(tables, config.job.compat, row.detail)
    _check_residents(row, manifest, found)
    logs = {place: known for place, known in found.items() if place[0] in config.log_topics()}
    inputs = {place: known for place, known in found.items() if place not in logs}
    notes = list(_notes(config, row, inputs))
    configs_of = _shard_configs(config, found)
    folded = {
        place: _fold_again(config, row, configs_of[place], known) for place, known in logs.items()
    }
    notes += [
        f"vhost {place[0]!r} follows its log: its state is what the records before offset "
        f"{state.end} came to; {state.end - state.begin:,} of them were folded again. "
        f"{_channels(logs[place])} channels stay open, with {len(logs[place].unacked)} unacked "
        "messages"
        for place, state in folded.items()
    ]
    _add_lanes(config, tables, found, manifest, notes)
    new = _new_manifest(config, manifest, found, partitions)
    new.rebuilt = Rebuilt(batch_id, _changed_detail(row, manifest, new, found, config.log_topics()))
    keys = {place_: new.shards[f"{place_[1]} {place_[0]}"] for place_ in found}
    half_written, last = _half_written(place, query_id, batch_id)
    return RebuildPlan(
        query_id=query_id,
        batch_id=batch_id,
        spark_batch=last,
        now_ms=row.now_ms,
        offsets=row.detail.offsets,
        half_written=half_written,
        shards=[
            _shard_plan(place, known, stays=place in folded)
            for place, known in sorted(found.items())
        ],
        notes=notes,
        manifest=new,
        gate_open=row.detail.is_gate_open,
        known={keys[each]: known for each, known in found.items() if each not in folded},
        folded={keys[each]: state.entries for each, state in folded.items()},
        configs={keys[each]: configs_of[each] for each in found},
    )


def _check_residents(
    row: BatchRow, manifest: KnownManifest, found: Mapping[ShardName, KnownShard]
) -> None:
    """Compare the copies that were found with the count of the broker itself."""
    counted = row.detail.resident
    for name, key in manifest.shards.items():
        vhost, lane = shard_named(name)
        expected = counted.get(key, (0, 0))[0]
        shard = found.get((vhost, lane))
        known = 0 if shard is None else shard.resident()
        if known != expected:
            raise LostStateError(
                f"the tables have {known} messages in queues of vhost {vhost!r}, lane {lane}, but "
                f"the broker counted {expected}: rows are missing. See dlx balance; restore the "
                "tables or the checkpoint from a backup"
            )


# -- shards


def _shard_configs(
    config: JobConfig, found: Mapping[ShardName, KnownShard]
) -> dict[ShardName, ShardConfig]:
    """The configuration of each shard; one whose vhost is no longer listed must be empty."""
    settings = task_settings(
        config,
        Location(config.job.tables_location),
        dict.fromkeys(config.read_topics(), 0),
        _Numbers(),
        {},
        0,
    )
    configs = {(each.vhost, each.lane): each for each in settings.shards.values()}
    for (vhost, lane), shard in found.items():
        if vhost not in config.vhosts and shard.resident():
            raise MissingVhostError(
                f"vhosts: {vhost!r} is missing, but its queues have {shard.resident()} messages in "
                "the tables. Add it again; you can remove it once its queues are empty"
            )
        lanes = 1 + max(other for name, other in found if name == vhost)
        configs.setdefault((vhost, lane), ShardConfig(vhost=vhost, lane=lane, lanes=lanes))
    return configs


class _Numbers:
    """Gives each shard a number of its own."""

    def __init__(self) -> None:
        self._next = 0

    def __call__(self, _vhost: str, _lane: int) -> int:
        self._next += 1
        return self._next


def _refuse_changed_front(config: JobConfig, manifest: KnownManifest, row: BatchRow) -> None:
    """Refuse a vhost that was sequenced and is not, or the other way round."""
    for name in manifest.shards:
        vhost, _lane = shard_named(name)
        if vhost not in config.vhosts:
            continue
        was_sequenced = log_topic(config.amqp.log_topic, vhost) in row.detail.offsets
        if was_sequenced != config.vhosts[vhost].sequenced:
            raise LostStateError(
                f"vhosts.{vhost}.sequenced: the tables have {str(was_sequenced).lower()}, and the "
                "messages of this vhost came that way. Set it back; a new vhost can be the other "
                "kind"
            )


def _fold_again(
    config: JobConfig, row: BatchRow, shard: ShardConfig, known: KnownShard
) -> FoldedState:
    """The state of a sequenced vhost after the last batch, from its log.

    Raises:
        LostStateError: the log came to something else than what the tables have.
    """
    topic = config.log_topics()[shard.vhost]
    end = row.detail.offsets.get(topic, {}).get("0", 0)
    state = fold_log_to(config, row.detail.manifest, shard, end)
    if (state.next_seq, state.messages) != (known.next_seq, known.resident()):
        raise LostStateError(
            f"vhosts.{shard.vhost}: its log came to {state.next_seq - 1} events and "
            f"{state.messages} messages in queues before offset {end}, and the tables have "
            f"{known.next_seq - 1} and {known.resident()}. Restore the checkpoint from a backup, "
            "or rebuild it with the version and the settings that the front had"
        )
    return state


def _add_lanes(
    config: JobConfig,
    tables: Tables,
    found: dict[ShardName, KnownShard],
    manifest: KnownManifest,
    notes: list[str],
) -> None:
    """Let each vhost have its configured lanes; messages stay on their lane.

    Raises:
        LostStateError: a lane that is to go has messages, or letters that a redrive still moves.
    """
    topologies = declared(tables)
    for vhost, settings in config.vhosts.items():
        before = sum(shard_named(name)[0] == vhost for name in manifest.shards)
        # tables also know lanes that an earlier rebuild has removed
        for lane in sorted(n for name, n in found if name == vhost and n >= settings.lanes):
            shard = found.pop((vhost, lane))
            if shard.resident():
                raise LostStateError(
                    f"vhosts.{vhost}.lanes: lane {lane} has {shard.resident()} messages, and this "
                    f"configuration has {settings.lanes} lanes. A copy cannot change its lane: "
                    f"start the job with {before} lanes, stop the publishers until consumers have "
                    f"emptied the vhost's queues, and rebuild then; or keep {before} lanes"
                )
            if shard.open_redrives and lane < before:
                names = ", ".join(sorted(each.id for each in shard.open_redrives))
                raise LostStateError(
                    f"vhosts.{vhost}.lanes: redrive {names} is open on lane {lane}, and this "
                    f"configuration has {settings.lanes} lanes. Rebuild with {before} lanes first: "
                    "a job that starts with that checkpoint cancels it"
                )
        first = found.get((vhost, 0))
        if first is None or before in {0, settings.lanes}:
            continue
        for lane in range(before, settings.lanes):
            known = found.get((vhost, lane))
            if known is None:
                known = KnownShard(first.now_ms, 1, first.next_outbound, first.vhost)
            topology = topologies.get(vhost, Declared())
            found[vhost, lane] = _like_home(known, first, vhost_of(topology, config.job.compat))
        notes.append(
            f"vhost {vhost!r} gets {settings.lanes} lanes instead of {before}: its messages stay "
            "on their lanes, later ones are spread anew, so records of one Kafka partition may "
            "overtake those that wait on another lane"
        )


def _like_home(known: KnownShard, home: KnownShard, vhost: Vhost) -> KnownShard:
    """A new lane, or one that comes back, with what all lanes of a vhost have alike."""
    counts = {"moved": 0, "skipped": 0, "parked": 0}
    ended = {
        name: known.ended_redrives.get(name, msgspec.structs.replace(each, **counts))
        for name, each in home.ended_redrives.items()
    }
    return msgspec.structs.replace(
        known,
        vhost=vhost,
        channels=list(home.channels),
        consumers=list(home.consumers),
        owners=dict(home.owners),
        ended_redrives=ended,
        open_redrives=[
            msgspec.structs.replace(each, chunks=[], **counts) for each in home.open_redrives
        ],
    )


def _new_manifest(
    config: JobConfig, known: KnownManifest, found: Mapping[ShardName, KnownShard], partitions: int
) -> Manifest:
    settings = outcome_settings(config)
    manifest = Manifest(
        shuffle_partitions=partitions,
        core_version=CORE_VERSION,
        wire_version=WIRE_VERSION,
        topics=dict(known.topics),
        topic_names=dict(known.topic_names),
        outcome_hash=outcome_hash(config, core_version=CORE_VERSION, wire_version=WIRE_VERSION),
        outcome_settings=settings,
        job_id=known.job_id,
    )
    wanted = {f"{lane} {vhost}" for vhost, lane in found}
    removed = {
        name
        for name in known.shards
        if shard_named(name)[0] in config.vhosts
        and shard_named(name)[1] >= config.vhosts[shard_named(name)[0]].lanes
    }
    kept = {name: key for name, key in known.shards.items() if name not in removed}
    if known.shuffle_partitions == partitions:
        manifest.shards = dict(kept)
    for name in [*kept, *sorted(wanted - kept.keys())]:
        vhost, lane = shard_named(name)
        manifest.shard_key(vhost, lane)
    return manifest


def _changed_detail(
    row: BatchRow,
    known: KnownManifest,
    new: Manifest,
    found: Mapping[ShardName, KnownShard],
    logs: Container[str],
) -> BatchDetail:
    """The detail of the last batch row with other figures by shard: every one is due at once.

    Args:
        logs: sequenced vhosts, which only their logs wake.
    """
    keys = {key: new.shards[name] for name, key in known.shards.items() if name in new.shards}
    resident = row.detail.resident
    return msgspec.structs.replace(
        row.detail,
        resident={keys[key]: pair for key, pair in resident.items() if key in keys},
        next_deadline_ms={
            new.shards[f"{lane} {vhost}"]: NEVER if vhost in logs else 0 for vhost, lane in found
        },
        clocks={
            new.shards[f"{lane} {vhost}"]: (shard.now_ms, shard.next_outbound)
            for (vhost, lane), shard in found.items()
        },
        manifest=new.known(),
    )


def _shard_plan(place: ShardName, known: KnownShard, *, stays: bool) -> ShardPlan:
    """What a shard will hold.

    Args:
        stays: nothing is requeued, closed or cancelled.
    """
    return ShardPlan(
        *place,
        queues=len(known.vhost.queues),
        ready=len(known.ready),
        unacked=0 if stays else len(known.unacked),
        held=len(known.held),
        channels=0 if stays else _channels(known),
        redrives=0 if stays else len(known.open_redrives),
    )


def _channels(known: KnownShard) -> int:
    return len({*known.channels, *(each.actor for each in known.unacked)})


def _notes(config: JobConfig, row: BatchRow, found: Mapping[ShardName, KnownShard]) -> Any:
    """Say what the tables do not know, as far as it matters here."""
    shards = found.values()
    if any(shard.unacked or shard.channels for shard in shards):
        yield (
            "the numbers of deliveries are not known: every channel is closed, what it held is "
            "requeued as redelivered, and its consumers are cancelled"
        )
    if any(shard.open_redrives for shard in shards):
        names = sorted({each.id for shard in shards for each in shard.open_redrives})
        yield (
            f"the letters that were still to move are not known: redrive {', '.join(names)} is "
            "cancelled; plan the rest again"
        )
    if any(shard.held for shard in shards):
        yield "held copies are tried again after vhosts' dead-letter retry interval"
    if any(
        shard.vhost.settings(queue).expires_ms is not None
        for shard in shards
        for queue in shard.vhost.queues.values()
    ):
        yield "when a queue was last used is not known: the expiry of unused queues starts again"
    wanted = outcome_hash(config, core_version=CORE_VERSION, wire_version=WIRE_VERSION)
    if row.detail.configuration != wanted:
        yield (
            "the configuration or the version of dlx differs from that of the last batch: the new "
            "one applies to the records after it"
        )


# -- a batch that only some tables have


def _half_written(place: Location, query_id: str, batch_id: int) -> tuple[dict[str, int], int]:
    """The rows of batches after the last one, by table; and the highest number of any batch."""
    found: dict[str, int] = {}
    last = batch_id
    for name in LEDGER:
        below = place / name
        table = load_table(below)
        last = max(last, table.transaction_version(query_id) or 0)
        active = table.get_add_actions(flatten=True)
        columns = active.column_names
        rows = 0
        if "min.batch_id" in columns:
            counts = zip(
                active.column("max.batch_id").to_pylist(),
                active.column("num_records").to_pylist(),
                strict=True,
            )
            rows = sum(count for most, count in counts if most is not None and most > batch_id)
        if rows:
            found[name] = rows
        for file in below.storage().files():
            parsed = DataFileName.parse(file.name)
            if parsed is not None and parsed.query_id == query_id:
                last = max(last, parsed.batch_id)
    return found, last
