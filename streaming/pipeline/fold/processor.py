"""The stateful stage: a shard's blobs in, the fold, data files and outbound records out.

Spark calls it once a batch and shard (transformWithState, timeMode None). It decides nothing about
queueing: it unpacks, calls `streaming.broker.shard`, writes what came of it, and reports.

Replay: the same blobs and state give the same events, the same files (found there and kept) and the
same outbound records with the same numbers, which readers drop.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import msgspec
import pyarrow as pa
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from streaming.broker.config import ShardConfig
from streaming.broker.events import Kind
from streaming.broker.message import Message
from streaming.broker.shard import Batch, Shard
from streaming.broker.vhost import VhostCache
from streaming.ledger.read.body_reader import BodyReader
from streaming.ledger.schema.schemas import TABLES
from streaming.ledger.write.data_file import DataFile, DataFileName, write_data_file
from streaming.pipeline import shard_block as packing
from streaming.pipeline.fold.state_store import KEY_SCHEMA, VALUE_SCHEMA, SparkStateStore
from streaming.pipeline.outbound.producer import OutboundWriter
from streaming.pipeline.outbound.records import STORED
from streaming.pipeline.outbound.truncation import CutRecord
from streaming.pipeline.rows.dead_letters import dead_letter_tables
from streaming.pipeline.rows.events import event_tables
from streaming.pipeline.task.context import FILES_KEY, BatchContext, TaskSettings, batch_context
from streaming.pipeline.task.gc_pause import without_collector
from streaming.protocol.bounded_json import read_json
from streaming.protocol.commands import parse_command

OUTPUT = "shard int, report binary"

STATE_BYTES_PER_COPY = 64
"""What a resident copy takes in the state; 35 to 60 bytes without headers (`dlx bench core`)."""

_cache = VhostCache()  # of this worker process
_encoder = msgspec.msgpack.Encoder()


class ShardReport(msgspec.Struct, frozen=True):
    """What a shard tells the driver of a batch.

    Attributes:
        publishes, published_bytes: records that were published, and their bodies.
        resident_bytes: bodies of resident copies; state_bytes: about what their entries take.
        seconds: spent unpacking, folding, writing rows, writing outbound records, saving state.
        cut: outbound records that went out with something left out.
    """

    shard: int
    vhost: str
    lane: int
    files: list[DataFile]
    records: int
    publishes: int
    published_bytes: int
    events: int
    deaths: dict[str, int]
    resident_messages: int
    resident_bytes: int
    state_bytes: int
    state_bytes_read: int
    state_bytes_written: int
    now_ms: int
    next_deadline_ms: int
    outbound: int
    seconds: dict[str, float]
    cut: list[CutRecord]


class BrokerProcessor(StatefulProcessor):
    """Runs the broker for whichever shard Spark calls it with."""

    def __init__(self, settings: TaskSettings) -> None:
        self._settings = settings

    def init(self, handle: StatefulProcessorHandle) -> None:
        """See `StatefulProcessor`."""
        self._state = handle.getMapState("shard", KEY_SCHEMA, VALUE_SCHEMA)

    def handleInputRows(  # noqa: N802 - Spark's name
        self,
        key: Any,
        rows: Iterator[Row],
        timerValues: Any,  # noqa: ARG002, N803 - Spark's signature
    ) -> Iterator[Row]:
        """See `StatefulProcessor`."""
        shard = key[0]
        blobs = [bytes(row["blob"]) for row in rows]
        if shard == FILES_KEY:
            for blob in blobs:
                yield Row(shard=shard, report=blob)
            return
        report = self._run(shard, blobs)
        yield Row(shard=shard, report=_encoder.encode(report))

    def close(self) -> None:
        """See `StatefulProcessor`."""

    def _run(self, shard_key: int, blobs: list[bytes]) -> ShardReport:
        config = self._settings.shards[shard_key]
        context = batch_context()
        store = SparkStateStore(self._state)
        started = time.perf_counter()
        seconds: dict[str, float] = {}

        def lap(name: str) -> None:
            nonlocal started
            now = time.perf_counter()
            seconds[name] = round(now - started, 6)
            started = now

        with without_collector():
            records = packing.unpack(blobs)
            lap("unpack")
            batch = fold(config, store, records)
            lap("fold")
            files = self._write(shard_key, config, context, batch)
            lap("rows")
            writer = OutboundWriter(self._settings, config, context)
            with closing(BodyReader(self._settings.tables, STORED)) as bodies:
                outbound = writer.write(batch, bodies)
            lap("outbound")
            store.flush()
            lap("state")
        deaths: dict[str, int] = {}
        for outcome in batch.events.death_outcomes:
            deaths[outcome.reason] = deaths.get(outcome.reason, 0) + 1
        return ShardReport(
            shard_key,
            config.vhost,
            config.lane,
            files,
            len(records.columns["offset"]),
            int((records.columns["publication"] >= 0).sum()),
            int(records.columns["size"].sum()),
            len(batch.events),
            deaths,
            batch.resident_messages,
            batch.resident_bytes,
            batch.resident_messages * STATE_BYTES_PER_COPY,
            store.bytes_read,
            store.bytes_written,
            batch.now_ms,
            batch.next_deadline_ms,
            outbound,
            seconds,
            writer.cut,
        )

    def _write(
        self, shard_key: int, config: ShardConfig, context: BatchContext, batch: Batch
    ) -> list[DataFile]:
        """Write the shard's rows of `events` and `dead_letters`."""
        if not len(batch.events):
            return []
        events = batch.events
        ids = (context.query_id, context.batch_id, config.vhost, config.lane)
        files = []

        def write(name: str, first: int, table: pa.Table) -> None:
            file_name = DataFileName(context.query_id, context.batch_id, name, shard_key, first)
            storage = self._settings.tables.below(name).storage()
            file = write_data_file(storage, TABLES[name], file_name, table)
            if file is not None:
                files.append(file)

        for first, table in event_tables(events, *ids):
            write("events", first, table)
        columns = ("body", "kafka_headers", "origin")
        with closing(BodyReader(self._settings.tables, columns)) as bodies:
            most = self._settings.max_header_bytes
            for first, table in dead_letter_tables(events, *ids, bodies, most):
                write("dead_letters", first, table)
        return files


def fold(config: ShardConfig, store: SparkStateStore, records: packing.Records) -> Batch:
    """Run the broker over the records of a batch."""
    shard = Shard(config, store, now_ms=records.now_ms, cache=_cache)
    columns = records.columns
    publications, actors = records.publications, records.actors
    publish = shard.publish
    rows = zip(
        columns["at_ms"].tolist(),
        columns["topic_number"].tolist(),
        columns["partition"].tolist(),
        columns["offset"].tolist(),
        columns["body_file"].tolist(),
        columns["body_row"].tolist(),
        columns["size"].tolist(),
        columns["publication"].tolist(),
        columns["flags"].tolist(),
        columns["actor"].tolist(),
        strict=True,
    )
    commands = columns["command"]
    for row, (at_ms, topic, partition, offset, file, place, size, code, flags, actor) in enumerate(
        rows
    ):
        if code >= 0:
            message = Message(topic, partition, offset, file, place, size)
            publish(at_ms, message, publications[code], flags, actors[actor])
        else:
            document = read_json(commands[row].as_py())
            shard.command(at_ms, parse_command(document), actors[actor])
    return shard.finish()


__all__ = ["OUTPUT", "BrokerProcessor", "Kind", "ShardReport", "fold"]
