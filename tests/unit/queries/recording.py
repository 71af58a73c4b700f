"""The tables of a `tests.builders.Broker`, written like the job writes them."""

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from streaming.broker.events import Events
from streaming.broker.message import (
    IMMEDIATE,
    MANDATORY,
    Envelope,
    Message,
    PublishedHeaders,
)
from streaming.broker.shard import Batch
from streaming.contents.net_changes import encode, net_changes
from streaming.contents.pending_nets import ShardNet
from streaming.contents.revived import put_back
from streaming.contents.revived_keys import revived_keys
from streaming.ledger.batch_detail import BatchDetail, BatchRow
from streaming.ledger.read.body_reader import BodyReader
from streaming.ledger.schema.schemas import MESSAGES, TABLES
from streaming.ledger.write.arrow_columns import Constant, build_table
from streaming.ledger.write.batch_row import totals
from streaming.ledger.write.data_file import (
    DataFile,
    DataFileName,
    source_of_partition,
    source_of_shard,
    write_data_file,
)
from streaming.ledger.write.ledger import Ledger
from streaming.pipeline.rows.amqp_columns import headers_json, properties_array
from streaming.pipeline.rows.dead_letters import dead_letter_tables
from streaming.pipeline.rows.events import event_table
from streaming.pipeline.rows.messages import body_file_number
from streaming.pipeline.rows.stored import STORED
from streaming.protocol.amqp_properties import PROPERTIES
from streaming.queries.duckdb_tables import Tables
from streaming.storage.location import Location
from tests.builders import START_MS, Broker
from tests.unit.queries.random_play import RandomPlay

QUERY_ID = "6f0e9bd2-0000-4000-8000-000000000001"
TOPIC = "dlx.publishes"
UNSEEN = Envelope("", ("",))


class Recording:
    """Tables below a folder, and the brokers that write to them, one per shard.

    Args:
        brokers: if they are several, their messages must not have the same offsets: see `apart`.
        with_totals: whether batch rows say how many rows a batch has.
    """

    def __init__(
        self,
        root: Any,
        *brokers: Broker,
        with_totals: bool = True,
        options: Mapping[str, str] | None = None,
    ) -> None:
        self.root = str(root)
        self.place = Location(self.root, options or {})
        self.brokers = brokers
        self.batch_id = -1
        self.nets: list[ShardNet] = []  # of the last batch, as tasks report them
        self._with_totals = with_totals
        self._recorded = [len(broker.bodies) for broker in brokers]
        self._resident: dict[int, tuple[int, int]] = {}
        self.detail: dict[str, Any] = {}  # more members of the next batch rows
        self._ledger = Ledger(self.place)

    def commit(self) -> int:
        """End the batch of every broker and commit it; returns its number."""
        self.batch_id += 1
        self.nets = []
        files: list[DataFile] = []
        revived: list[tuple[int, int, int]] = []
        for shard, broker in enumerate(self.brokers):
            batch = broker.finish()
            revived += revived_keys(batch.events)
            files += self._messages(shard, broker, batch.events)
            if len(batch.events):
                files += self._events(shard, broker, batch)
            self._resident[shard + 1] = (batch.resident_messages, batch.resident_bytes)
        counted = totals(files) if self._with_totals else BatchDetail()
        more = {"resident": dict(self._resident), **self.detail}
        detail = msgspec.structs.replace(counted, **more)
        now_ms = max(broker.time_ms for broker in self.brokers)
        row = BatchRow(QUERY_ID, self.batch_id, now_ms, detail)
        self._ledger.commit(files, row, needs_messages=bool(revived))
        if revived:
            put_back(self.place, revived, None)
        return self.batch_id

    def close(self) -> None:
        """Close the tables."""
        self._ledger.close()

    def _messages(self, shard: int, broker: Broker, events: Events) -> Iterator[DataFile]:
        first = self._recorded[shard]
        self._recorded[shard] = len(broker.bodies)
        offsets = list(range(first, len(broker.bodies)))
        if not offsets:
            return
        seen = dict(_arrivals(events))
        for row, offset in enumerate(offsets):  # the places of the bodies that this batch needs
            if offset in seen:
                seen[offset][0].body_file = body_file_number(self.batch_id, 0)
                seen[offset][0].body_row = row
        sent = [seen.get(offset, (None, UNSEEN, "", START_MS)) for offset in offsets]
        bodies = [broker.bodies[offset].encode() for offset in offsets]
        envelopes = [envelope for _message, envelope, _channel, _at_ms in sent]
        at = pa.array([at_ms * 1000 for *_, at_ms in sent], pa.timestamp("us", tz="UTC"))
        rows = len(offsets)
        columns: dict[str, Any] = {
            "query_id": Constant(QUERY_ID),
            "batch_id": Constant(self.batch_id),
            "vhost": Constant(broker.config.vhost),
            "lane": np.full(rows, broker.config.lane, np.int32),
            "topic_number": np.zeros(rows, np.int32),
            "partition": np.zeros(rows, np.int32),
            "offset": offsets,
            "origin.topic": Constant(TOPIC),
            "origin.topic_number": np.zeros(rows, np.int32),
            "origin.partition": np.zeros(rows, np.int32),
            "origin.offset": offsets,
            "origin.timestamp": at,
            "user": Constant("guest"),
            "channel": [channel for _message, _envelope, channel, _at_ms in sent],
            "exchange": [envelope.exchange for envelope in envelopes],
            "routing_key": [envelope.routing_keys[0] for envelope in envelopes],
            "mandatory": [bool(broker.flags[offset] & MANDATORY) for offset in offsets],
            "immediate": [bool(broker.flags[offset] & IMMEDIATE) for offset in offsets],
            "confirm": np.zeros(rows, bool),
            "properties": properties_array(
                {
                    name: [broker.properties[offset].get(name) for offset in offsets]
                    for name in PROPERTIES
                },
                rows,
            ),
            "headers": [headers_json(broker.headers[offset].headers) for offset in offsets],
            "body_bytes": [len(body) for body in bodies],
            "body": bodies,
        }
        yield self._file(
            "messages", source_of_partition(0, 0), first, build_table(MESSAGES, columns, rows)
        )

    def _events(self, shard: int, broker: Broker, batch: Batch) -> Iterator[DataFile]:
        events = batch.events
        where = (QUERY_ID, self.batch_id, broker.config.vhost, broker.config.lane)
        table = event_table(events, *where)
        yield self._file("events", source_of_shard(shard), events.first_seq, table)
        net = encode(net_changes(table))
        assert net is not None
        self.nets.append(ShardNet(broker.config.vhost, broker.config.lane, net))
        if events.death_rows:
            with closing(BodyReader(self.place, STORED)) as bodies:
                for first, dead in dead_letter_tables(events, *where, bodies, 16_384):
                    yield self._file("dead_letters", source_of_shard(shard), first, dead)

    def _file(self, name: str, source: str, first: int, table: pa.Table) -> DataFile:
        storage = (self.place / name).storage()
        file_name = DataFileName(QUERY_ID, self.batch_id, name, source, first)
        file = write_data_file(storage, TABLES[name], file_name, table)
        assert file is not None
        return file


def apart(broker: Broker, first_offset: int) -> Broker:
    """Let the messages of a new broker start at an offset."""
    broker.bodies.extend([""] * first_offset)
    broker.headers.extend([PublishedHeaders(None)] * first_offset)
    broker.properties.extend([{}] * first_offset)
    broker.flags.extend([0] * first_offset)
    return broker


def _arrivals(events: Events) -> Iterator[tuple[int, tuple[Message, Envelope, str, int]]]:
    """The publication of each message in the events, by offset; from its first event."""
    known: set[int] = set()
    for row, event in enumerate(events.rows()):
        if event.copy is not None:
            message, envelope = event.copy.message, event.copy.envelope
        elif row in events.messages:
            message, found = events.messages[row]
            envelope = found or UNSEEN
        else:
            continue
        if message.offset not in known and not envelope.deaths:
            known.add(message.offset)
            yield message.offset, (message, envelope, event.channel, event.at_ms)


def recording_of_one_order(root: Any) -> Recording:
    """Tables with one batch: the queue `work` has one message."""
    broker = Broker()
    broker.queue("work")
    broker.publish("", "work", "order")
    recording = Recording(root, broker)
    recording.commit()
    return recording


@contextmanager
def random_tables(root: Path, seed: int) -> Iterator[Tables]:
    """The tables of 200 random steps in five batches."""
    play = RandomPlay(seed)
    recording = Recording(root, play.broker)
    for _ in range(5):
        play.steps(40)
        recording.commit()
    recording.close()
    with Tables(recording.root) as tables:
        yield tables
