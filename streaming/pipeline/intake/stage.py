"""The first stage: Kafka records in; bodies written to `messages`; metadata out (D6, D7).

It runs as `mapInArrow` over Kafka's partitions and returns rows of (grouping key, blob): one blob
per shard (`shard_block`), and one with the task's report (key FILES_KEY). Records that cannot be
understood go to `quarantine`; no record makes this stage fail.

Replay: file names, their contents and the places of bodies follow from the batch and its records,
not from the task (D18). A second run finds its files, however Spark numbers and fills its tasks.
"""

import time
from collections.abc import Callable, Iterator
from operator import itemgetter
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streaming.broker.events import Actor
from streaming.broker.lanes import BY_HEADER, HOME, ROUTING_KEY, lane_of_key
from streaming.broker.message import AWAY
from streaming.broker.redrives.version_keys import VERSION_KEY
from streaming.ledger.write.data_file import DataFile
from streaming.pipeline.intake.command_records import (
    CommandRow,
    read_commands,
    unreadable_name,
)
from streaming.pipeline.intake.header_columns import unreadable_names, with_header_columns
from streaming.pipeline.intake.log_records import LogRecords
from streaming.pipeline.intake.publications import (
    COPIED,
    MALFORMED,
    CodeMap,
    DistinctPublishes,
)
from streaming.pipeline.reports import FaultCount, IntakeReport, encode_report
from streaming.pipeline.rows.bounds import HEADER_BYTES
from streaming.pipeline.rows.messages import HEADERS, MessageRows
from streaming.pipeline.rows.quarantine import Faults, QuarantineRows
from streaming.pipeline.shard_block import FILES_KEY, pack, record_table
from streaming.pipeline.task import BatchContext, TaskSettings, TopicTask, batch_context, paused_gc
from streaming.protocol.record_headers import MAX_TIME_MS, MalformedRecordError, too_late
from streaming.spark.executor_facts import check_here
from topology.values import table_from_json

OUTPUT = "shard int, blob binary"

ARRIVAL_CLASSES = 32
"""The most instants that a task reports; earlier and later records are counted with them."""

_OUTPUT_SCHEMA = pa.schema([("shard", pa.int32()), ("blob", pa.binary())])


class _ShardRows:
    """The records of one shard so far."""

    def __init__(self) -> None:
        self.tables: list[pa.Table] = []
        self.publications: list[int] = []  # the task's codes, in the order of the blob's codes
        self.publication_of = CodeMap()  # the task's code -> the blob's code
        self.actor_of: dict[str, CodeMap] = {}  # by user: the task's code -> the blob's actor
        self.actors: dict[Actor, int] = {}


class Intake:
    """Collects the records of one task.

    Publishes are handled as whole columns, and those that are alike are read once (`publications`).
    Only commands, mapped topics and malformed records cost work per row.
    """

    def __init__(self, settings: TaskSettings, context: BatchContext) -> None:
        self._settings = settings
        self._publishes = DistinctPublishes(settings)
        self._shards: dict[int, _ShardRows] = {}
        self._now_ms = context.now_ms
        self._messages = MessageRows(settings, context)
        self._quarantine = QuarantineRows(settings, context)
        self._logs: dict[str, LogRecords] = {}
        self._arrived_ms: list[Any] = []
        self.commands = self.command_bytes = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Add the records of one Arrow batch, all from one source."""
        self._arrived_ms.append(batch["at_ms"].to_numpy())
        topics = batch["topic"].dictionary_encode()
        for code, name in enumerate(topics.dictionary.to_pylist()):
            topic = self._settings.topics[name]
            rows = batch
            if len(topics.dictionary) > 1:
                rows = batch.filter(pc.equal(topics.indices, code))
            for part in _by_partition(rows):
                self._add_rows(part, name, topic)

    def _add_rows(self, rows: pa.RecordBatch, topic_name: str, topic: TopicTask) -> None:
        """Add records of one Kafka partition."""
        if topic.log_of:
            log = self._logs.setdefault(topic.log_of, LogRecords(topic.log_of, self._messages))
            rows, strangers = log.add(rows, topic_name, topic)
            if strangers:
                self._quarantine.add(_in_time(rows), topic_name, topic, strangers)
            return
        rows = with_header_columns(rows, is_mapped=topic.mapping is not None)
        faults: Faults = []
        publishes, numbers = rows, np.arange(rows.num_rows)
        late = rows["at_ms"].to_numpy() > MAX_TIME_MS
        if late.any():
            rows = _in_time(rows)
            faults += [(index, too_late()) for index in np.flatnonzero(late).tolist()]
            publishes, numbers = rows.filter(pa.array(~late)), np.flatnonzero(~late)
        is_command = pc.is_valid(publishes["dlx_op"])
        if pc.any(is_command).as_py():
            found = self._add_commands(publishes.filter(is_command), topic)
            faults += _renumbered(found, numbers[np.flatnonzero(is_command)])
            is_publish = pc.invert(is_command)
            publishes, numbers = publishes.filter(is_publish), numbers[np.flatnonzero(is_publish)]
        if publishes.num_rows:
            faults += _renumbered(self._add_publishes(publishes, topic_name, topic), numbers)
        if faults:
            faults.sort(key=itemgetter(0))
            self._quarantine.add(rows, topic_name, topic, faults)

    def close(self) -> list[DataFile]:
        """Write the remaining rows; return the descriptions of all files written."""
        return [*self._messages.close(), *self._quarantine.close()]

    def faults(self) -> list[FaultCount]:
        """Return the quarantined records by topic and cause."""
        return self._quarantine.faults()

    def arrivals(self) -> dict[int, int]:
        """Return when the records arrived in Kafka: instant -> how many, in few classes."""
        instants = np.concatenate(self._arrived_ms) if self._arrived_ms else np.array([], np.int64)
        if not len(instants):
            return {}
        first = int(instants.min())
        width = (int(instants.max()) - first) // ARRIVAL_CLASSES + 1
        counts = np.bincount((instants - first) // width).tolist()
        return {first + index * width: count for index, count in enumerate(counts) if count}

    def blobs(self) -> list[tuple[int, bytes]]:
        """Return (grouping key, blob) of each shard that has records."""
        logs = [
            (self._settings.vhosts[vhost][0], log.blob(self._now_ms))
            for vhost, log in sorted(self._logs.items())
        ]
        return [
            *((key, blob) for key, blob in logs if blob is not None),
            *self._blobs_of_inputs(),
        ]

    def _blobs_of_inputs(self) -> list[tuple[int, bytes]]:
        return [
            (
                key,
                pack(
                    pa.concat_tables(shard.tables),
                    [self._publishes.distinct[code].publication for code in shard.publications],
                    list(shard.actors),
                    self._now_ms,
                ),
            )
            for key, shard in sorted(self._shards.items())
        ]

    # -- publishes

    def _add_publishes(self, rows: pa.RecordBatch, topic_name: str, topic: TopicTask) -> Faults:
        rows, codes = self._publishes.read(rows, topic)
        sizes = pc.fill_null(pc.binary_length(rows["value"]), -1).to_numpy()
        header_bytes = rows[HEADER_BYTES].to_numpy()
        to_log = codes == COPIED
        suspects = np.flatnonzero(
            (codes == MALFORMED)
            | (to_log & unreadable_names(rows) if to_log.any() else to_log)
            | (sizes < 0)
            | (sizes > self._settings.max_body_bytes)
            | (header_bytes > self._settings.max_header_bytes)
        ).tolist()
        faults: Faults = []
        if suspects:
            faults = [
                (index, self._fault(rows.slice(index, 1), codes[index], sizes[index], topic))
                for index in suspects
            ]
            keep = np.ones(rows.num_rows, bool)
            keep[suspects] = False
            rows = rows.filter(pa.array(keep))
            codes, sizes = codes[keep], sizes[keep]
        if (codes == COPIED).any():
            keep = codes != COPIED
            rows = rows.filter(pa.array(keep))
            codes, sizes = codes[keep], sizes[keep]
        if not rows.num_rows:
            return faults
        partitions = rows["partition"].to_numpy()
        lanes, keys, homes = self._lanes_and_keys(rows, codes, partitions)
        used, indices = np.unique(codes, return_inverse=True)
        distinct = [self._publishes.distinct[code] for code in used.tolist()]
        body_files, body_rows = self._messages.add(
            rows, topic_name, topic, distinct, indices.astype(np.int32), lanes, sizes
        )
        columns = {
            "topic_number": np.full(rows.num_rows, topic.number, np.int32),
            "partition": partitions,
            "offset": rows["offset"].to_numpy(),
            "at_ms": rows["at_ms"].to_numpy(),
            "publication": codes,
            "size": sizes,
            "body_file": body_files,
            "body_row": body_rows,
        }
        for key in np.unique(keys):
            chosen = keys == key
            part = {name: column[chosen] for name, column in columns.items()}
            self._add_to_shard(int(key), part, topic)
        is_away = lanes != HOME
        for key in np.unique(homes[is_away]):
            chosen = is_away & (homes == key)
            part = {name: column[chosen] for name, column in columns.items()}
            self._add_to_shard(int(key), part, topic, AWAY)
        return faults

    def _add_to_shard(
        self, key: int, columns: dict[str, Any], topic: TopicTask, more_flags: int = 0
    ) -> None:
        """Add publishes to a shard, with the blob's own codes for publications and actors.

        A home lane also gets the publishes of the other lanes, with the flag AWAY (`lanes`).
        """
        shard = self._shards.setdefault(key, _ShardRows())
        actor_of = shard.actor_of.setdefault(topic.user, CodeMap())
        codes = columns["publication"]
        missing = shard.publication_of.missing(codes)
        first = len(shard.publications)
        shard.publication_of.add(missing, range(first, first + len(missing)))
        shard.publications.extend(missing)
        distinct = self._publishes.distinct
        missing = actor_of.missing(codes)
        channels = [distinct[code].channel for code in missing]
        numbers = {
            channel: shard.actors.setdefault(Actor(topic.user, channel), len(shard.actors))
            for channel in dict.fromkeys(channels)
        }
        actor_of.add(missing, [numbers[channel] for channel in channels])
        columns["publication"] = shard.publication_of.of(codes)
        columns["actor"] = actor_of.of(codes)
        columns["flags"] = (self._publishes.flags.of(codes) | more_flags).astype(np.int8)
        shard.tables.append(record_table(columns))

    def _lanes_and_keys(
        self, rows: pa.RecordBatch, codes: Any, partitions: Any
    ) -> tuple[Any, Any, Any]:
        """Return the lane of each record, its grouping key and that of the home lane (D2)."""
        vhost_of = self._publishes.vhosts.of(codes)
        lanes = np.zeros(len(codes), np.int32)
        keys = np.zeros(len(codes), np.int32)
        homes = np.zeros(len(codes), np.int32)
        for name, number in self._publishes.vhost_numbers.items():
            lane_keys = self._settings.vhosts[name]
            chosen = vhost_of == number
            lanes[chosen] = partitions[chosen] % len(lane_keys)
            lane_by = self._settings.lane_by.get(name)
            if lane_by is not None and chosen.any():
                by_key = self._lanes_by_key(lane_by, rows, codes, len(lane_keys))
                chosen_by_key = chosen & (by_key >= 0)
                lanes[chosen_by_key] = by_key[chosen_by_key]
            keys[chosen] = np.array(lane_keys, np.int32)[lanes[chosen]]
            homes[chosen] = lane_keys[HOME]
        return lanes, keys, homes

    def _lanes_by_key(self, lane_by: str, rows: pa.RecordBatch, codes: Any, lanes: int) -> Any:
        """Return the lane of each record's routing key or header; -1: it goes by its partition."""
        distinct = self._publishes.distinct
        used, indices = np.unique(codes, return_inverse=True)
        keys = [distinct[code].publication.routing_key for code in used.tolist()]
        # a version of an edited letter is written to the partition of the letter's lane
        is_version = np.array([key.startswith(VERSION_KEY) for key in keys])[indices]
        if lane_by == ROUTING_KEY:
            found = np.array([lane_of_key(key, lanes) for key in keys], np.int32)[indices]
        else:
            name = lane_by.removeprefix(BY_HEADER)
            tables = rows[HEADERS].dictionary_encode()
            by_table = [_header_lane(text, name, lanes) for text in tables.dictionary.to_pylist()]
            found = np.array([*by_table, -1], np.int32)[pc.fill_null(tables.indices, -1).to_numpy()]
        return np.where(is_version, -1, found)

    def _fault(
        self, row: pa.RecordBatch, code: int, size: int, topic: TopicTask
    ) -> MalformedRecordError:
        """Return what is wrong with a publish."""
        settings = self._settings
        header_bytes = row[HEADER_BYTES][0].as_py()
        if header_bytes > settings.max_header_bytes:
            return MalformedRecordError(
                "headers_too_large",
                f"the headers have {header_bytes} bytes, more than {settings.max_header_bytes}",
            )
        if size < 0:
            return MalformedRecordError(
                "null_body", "a publish needs a value; it may be empty, but not null"
            )
        if code == MALFORMED:
            return self._publishes.fault(row, topic)
        if size <= settings.max_body_bytes:
            return unreadable_name()
        return MalformedRecordError(
            "body_too_large", f"the body has {size} bytes, more than {settings.max_body_bytes}"
        )

    # -- commands

    def _add_commands(self, rows: pa.RecordBatch, topic: TopicTask) -> Faults:
        settings = self._settings
        unreadable = unreadable_names(rows) if settings.terms else ()
        commands, faults = read_commands(
            rows, settings.vhosts, settings.terms, copied=topic.copied, unreadable=unreadable
        )
        self.commands += rows.num_rows - len(faults)
        self.command_bytes += sum(len(one.value) for one in commands)
        by_shard: dict[int, list[CommandRow]] = {}
        for command in commands:
            by_shard.setdefault(command.key, []).append(command)
        for key, chosen in by_shard.items():
            shard = self._shards.setdefault(key, _ShardRows())
            actors = [Actor(topic.user, one.channel) for one in chosen]
            columns = {
                "topic_number": [topic.number] * len(chosen),
                "partition": [one.partition for one in chosen],
                "offset": [one.offset for one in chosen],
                "at_ms": [one.at_ms for one in chosen],
                "actor": [shard.actors.setdefault(one, len(shard.actors)) for one in actors],
                "command": [one.value for one in chosen],
                "flags": np.array([one.answering for one in chosen], np.int8),
            }
            shard.tables.append(record_table(columns))
        return faults


def _in_time(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Return records with the last instant that a table may have for those behind it."""
    place = rows.schema.get_field_index("at_ms")
    at_ms = pc.min_element_wise(rows["at_ms"], MAX_TIME_MS)
    return rows.set_column(place, "at_ms", at_ms)


def _renumbered(faults: Faults, numbers: Any) -> Faults:
    """Return faults of some rows as those of all rows, given their numbers there."""
    return [(int(numbers[index]), fault) for index, fault in faults]


def _by_partition(rows: pa.RecordBatch) -> list[pa.RecordBatch]:
    """Return records by Kafka partition; Spark reads one partition with a task."""
    partitions = rows["partition"].to_numpy()
    if (partitions == partitions[0]).all():
        return [rows]
    return [rows.filter(pa.array(partitions == one)) for one in np.unique(partitions)]


def _header_lane(table: Any, name: str, lanes: int) -> int:
    """Return the lane of a header's value; -1 without the header."""
    headers = {} if table is None else table_from_json(msgspec.json.decode(table))
    return lane_of_key(str(headers[name]), lanes) if name in headers else -1


def run_intake(
    settings: TaskSettings,
    batches: Iterator[pa.RecordBatch],
    context: Callable[[], BatchContext] = batch_context,
) -> Iterator[pa.RecordBatch]:
    """Run the first stage on one task's records; `query.COLUMNS` lists the input columns."""
    check_here(settings.driver)
    started = time.perf_counter()
    understanding = 0.0
    intake = Intake(settings, context())
    with paused_gc():
        for batch in batches:
            began = time.perf_counter()
            if batch.num_rows:
                intake.add(batch)
            understanding += time.perf_counter() - began
        read = time.perf_counter()
        rows = intake.blobs()
        packed = time.perf_counter()
        files = intake.close()
    if files or intake.commands or rows:
        seconds = {
            "read": read - started - understanding,
            "understand": understanding + packed - read,
            "write": time.perf_counter() - packed,
        }
        report = IntakeReport(
            files,
            seconds,
            intake.faults(),
            intake.arrivals(),
            intake.commands,
            intake.command_bytes,
        )
        rows.append((FILES_KEY, encode_report(report)))
    if rows:
        keys, blobs = zip(*rows, strict=True)
        yield pa.record_batch(
            [pa.array(keys, pa.int32()), pa.array(blobs, pa.binary())], schema=_OUTPUT_SCHEMA
        )
