"""The stateful stage: a shard's blobs in; the fold; data files and outbound records out.

Spark calls it once per batch and shard (transformWithState, timeMode None). It decides nothing
about queueing: it unpacks, runs `streaming.broker.shard`, writes the results, and reports.

Replay: the same blobs and state give the same events, the same files (kept if they exist) and the
same outbound records with the same numbers, which readers drop.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import (
    MapState,
    StatefulProcessor,
    StatefulProcessorHandle,
)

from streaming.broker.config import ShardConfig
from streaming.broker.events import Events, Kind
from streaming.broker.lanes import Answering
from streaming.broker.message import NEVER, Message, PublishedPort
from streaming.broker.shard import Batch, Shard
from streaming.broker.state.store import StateStore
from streaming.broker.state.vhost_codec import VhostCache
from streaming.contents.net_changes import encode, net_changes
from streaming.contents.revived_keys import revived_keys
from streaming.ledger.read.body_reader import BodyReader
from streaming.ledger.schema.schemas import TABLES
from streaming.ledger.write.data_file import (
    DataFile,
    DataFileName,
    source_of_shard,
    write_data_file,
)
from streaming.pipeline.outbound import dead_letters
from streaming.pipeline.outbound.producer import OutboundWriter
from streaming.pipeline.reports import (
    FaultCount,
    FaultCounter,
    FaultKind,
    ShardReport,
    encode_report,
)
from streaming.pipeline.rows.copies import CopyColumns
from streaming.pipeline.rows.dead_letters import dead_letter_tables
from streaming.pipeline.rows.events import event_table, event_tables
from streaming.pipeline.rows.stored import published_rows, stored_rows
from streaming.pipeline.rows.traffic import EventCounter, traffic_of
from streaming.pipeline.sequenced_fold import FOLDED, copied_out, fold_log
from streaming.pipeline.shard_block import FILES_KEY, Records, unpack
from streaming.pipeline.task import BatchContext, TaskSettings, batch_context, paused_gc
from streaming.protocol.command_codec import decode_command
from streaming.spark.executor_facts import check_here

OUTPUT = "shard int, report binary"

STATE_BYTES_PER_COPY = 64
"""Estimated state of a resident copy; measured: 35 to 60 bytes, whatever its headers."""

MAX_WARNINGS = 100
"""The most warnings that a shard reports per batch; the table `events` has all of them."""

FAULTS: dict[int, FaultKind] = {
    Kind.UNROUTABLE: "unroutable",
    Kind.RETURNED: "returned",
    Kind.PUBLISH_ERROR: "publish_errors",
}
"""The kinds of events that report a fault of a publish."""

_cache = VhostCache()  # of this worker process

STATE_NAME = "shard"
KEY_SCHEMA = "key string"
VALUE_SCHEMA = "value binary"


class SparkStateStore:
    """A `StateStore` over Spark's map state of the current grouping key: bytes by key (D6b).

    Values that were written stay here until `flush`, so a key that changes often costs one call.
    """

    def __init__(self, state: MapState) -> None:
        self._state = state
        self._changed: dict[str, bytes | None] = {}
        self.bytes_read = 0
        self.bytes_written = 0

    def read(self, key: str) -> bytes | None:
        """The value of a key, or None."""
        if key in self._changed:
            return self._changed[key]
        found = self._state.getValue((key,))
        if found is None:
            return None
        value = bytes(found[0])
        self.bytes_read += len(value)
        return value

    def write(self, key: str, value: bytes) -> None:
        """Set the value of a key."""
        self._changed[key] = value

    def delete(self, key: str) -> None:
        """Delete a key; a missing one is not an error."""
        self._changed[key] = None

    def flush(self) -> None:
        """Write all changes to Spark."""
        for key, value in self._changed.items():
            if value is None:
                if self._state.containsKey((key,)):
                    self._state.removeKey((key,))
            else:
                self._state.updateValue((key,), (value,))
                self.bytes_written += len(value)
        self._changed = {}


class BrokerProcessor(StatefulProcessor):
    """Runs the broker for the shard that Spark calls it with."""

    def __init__(
        self, settings: TaskSettings, context: Callable[[], BatchContext] = batch_context
    ) -> None:
        self._settings = settings
        self._context = context

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Check the executor, and get the state of the shards."""
        check_here(self._settings.driver)
        self._state = handle.getMapState(STATE_NAME, KEY_SCHEMA, VALUE_SCHEMA)

    def handleInputRows(  # noqa: N802 - Spark's name
        self,
        key: Any,
        rows: Iterator[Row],
        timerValues: Any,  # noqa: ARG002, N803 - Spark's signature
    ) -> Iterator[Row]:
        """Fold a batch of one shard, and yield its report."""
        shard = key[0]
        blobs = [bytes(row["blob"]) for row in rows]
        if shard == FILES_KEY:
            for blob in blobs:
                yield Row(shard=shard, report=blob)
            return
        yield Row(shard=shard, report=encode_report(self._run(shard, blobs)))

    def close(self) -> None:
        """Do nothing: what a batch opens, it closes itself."""

    def _run(self, shard_key: int, blobs: list[bytes]) -> ShardReport:
        config = self._settings.shards[shard_key]
        terms = self._settings.terms.get(shard_key)
        context = self._context()
        store = SparkStateStore(self._state)
        started = time.perf_counter()
        seconds: dict[str, float] = {}

        def lap(name: str) -> None:
            nonlocal started
            now = time.perf_counter()
            seconds[name] = round(now - started, 6)
            started = now

        with paused_gc():
            records = unpack(blobs)
            lap("unpack")
            ids = (context.query_id, context.batch_id, source_of_shard(shard_key))
            with published_rows(self._settings.tables, *ids) as published:
                if terms is None:
                    batch, compared = fold(config, store, records, published), None
                else:
                    batch, compared = fold_log(config, terms, store, records, published, _cache)
                found_in = published.found_in
            lap("fold")
            counter = EventCounter()
            writer = OutboundWriter(self._settings, config, context)
            with stored_rows(self._settings.tables) as stored:
                if found_in is not None:  # rows that left the table since are still in its files
                    stored.look_in(found_in.files)
                files, net = self._write(shard_key, config, context, batch.events, stored, counter)
                lap("rows")
                outbound = writer.write(batch if terms is None else copied_out(batch), stored)
            lap("outbound")
            store.flush()
            lap("state")
        publishes = records.publishes()
        return ShardReport(
            shard=shard_key,
            vhost=config.vhost,
            lane=config.lane,
            files=files,
            records=len(records.columns["offset"]),
            publishes=int(publishes.sum()),
            published_bytes=int(records.columns["size"][publishes].sum()),
            events=len(batch.events),
            deaths=Counter(outcome.reason for outcome in batch.events.death_outcomes),
            resident_messages=batch.resident_messages,
            resident_bytes=batch.resident_bytes,
            state_bytes=batch.resident_messages * STATE_BYTES_PER_COPY,
            now_ms=batch.now_ms,
            next_deadline_ms=batch.next_deadline_ms if terms is None else NEVER,
            outbound=outbound,
            next_outbound=batch.first_outbound + len(batch.outbound),
            seconds=seconds,
            truncated=writer.truncated,
            warnings=warnings_of(batch.events),
            faults=faults_of(batch.events, config.vhost),
            net=net,
            traffic=traffic_of(
                batch,
                records,
                counter,
                (store.bytes_read, store.bytes_written),
                config.lane,
            ),
            parts=writer.parts,
            revived=revived_keys(batch.events),
            revived_from=None if found_in is None else found_in.version,
            redrives=batch.redrives,
            compared=compared,
        )

    def _write(
        self,
        shard_key: int,
        config: ShardConfig,
        context: BatchContext,
        events: Events,
        stored: BodyReader,
        counter: EventCounter,
    ) -> tuple[list[DataFile], bytes | None]:
        """Write the shard's rows of `events` and `dead_letters`; return also the net changes."""
        if not len(events):
            return [], b""
        ids = (context.query_id, context.batch_id, config.vhost, config.lane)
        files = []
        source = source_of_shard(shard_key)

        def write(name: str, tables: Iterator[tuple[int, pa.Table]]) -> None:
            storage = (self._settings.tables / name).storage()
            for first, table in tables:
                file_name = DataFileName(context.query_id, context.batch_id, name, source, first)
                file = write_data_file(storage, TABLES[name], file_name, table)
                if file is not None:
                    files.append(file)

        copies = CopyColumns(events)
        table = event_table(events, *ids, copies)
        write("events", counter.passing(event_tables(table, events.first_seq)))
        most = self._settings.max_header_bytes
        letters = dead_letter_tables(events, *ids, stored, most, copies)
        if self._settings.outbound.dead_letters:
            letters = dead_letters.sent(letters, self._settings.outbound)
        write("dead_letters", letters)
        return files, encode(net_changes(table))


def fold(
    config: ShardConfig, store: StateStore, records: Records, published: PublishedPort
) -> Batch:
    """Run the broker over the records of a batch; `published` reads headers of messages."""
    shard = Shard(config, store, now_ms=records.now_ms, cache=_cache, published=published)
    columns = records.columns
    publications, actors = records.publications, records.actors
    publish = shard.publish
    rows = zip(*(columns[name].tolist() for name in FOLDED), strict=True)
    commands = columns["command"]
    for row, (at_ms, topic, partition, offset, file, place, size, code, flags, actor) in enumerate(
        rows
    ):
        if code >= 0:
            message = Message(topic, partition, offset, file, place, size)
            publish(at_ms, message, publications[code], flags, actors[actor])
        else:
            command = decode_command(commands[row].as_py(), config.lanes)
            if config.lanes == 1:
                shard.command(at_ms, command, actors[actor])
            else:
                record = (topic, partition, offset)
                shard.command(at_ms, command, actors[actor], Answering(flags), record)
    return shard.finish()


def faults_of(events: Events, vhost: str) -> list[FaultCount]:
    """Return the publishes that no queue took, or that were refused."""
    counter = FaultCounter()
    kinds = events.kinds
    for row, (message, envelope) in events.messages.items():
        kind = FAULTS.get(kinds[row])
        if kind is None:
            continue
        exchange, key = (
            ("", "") if envelope is None else (envelope.exchange, envelope.routing_keys[0])
        )
        cause = events.details[row]["text"] if kind == "publish_errors" else exchange
        counter.add(
            kind,
            vhost,
            cause,
            partial(
                "message {}/{}/{} with the routing key {!r}".format,
                *(message.topic_number, message.partition, message.offset, key),
            ),
        )
    return counter.counts()


def warnings_of(events: Events) -> list[dict[str, Any]]:
    """Return the details of the WARNING events, limited to MAX_WARNINGS."""
    rows = [row for row in events.details if events.kinds[row] == Kind.WARNING]
    return [events.details[row] for row in rows[:MAX_WARNINGS]]
