"""Records on their way from the first stage to a shard: one Arrow blob per task and shard.

A publish has topic_number, partition, offset, at_ms, publication, actor, flags, size, file and row
of its body. A command has its JSON in `command`, `lanes.Answering` in `flags` and no publication.
Publications and actors repeat often, so a blob's metadata holds each of them once, and rows refer
to them by index.

The records of a log (`protocol.log_records`) are of one partition. Their actors have epochs, and a
row that is no publish has its `LogKind` in `flags` and its value in `command`.
"""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa

from streaming.broker.events import Actor
from streaming.broker.message import AWAY, Publication, Routed
from streaming.broker.state.encoding import decode_table, encode_table

FILES_KEY = 0
"""Grouping key of rows that carry a task's report and belong to no shard."""

NOW = b"now_ms"
PUBLICATIONS = b"publications"
ACTORS = b"actors"
EPOCHS = b"epochs"

NO_PUBLICATION = -1
"""The publication of a command."""

SCHEMA = pa.schema(
    [
        ("topic_number", pa.int32()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("at_ms", pa.int64()),
        ("publication", pa.int32()),
        ("actor", pa.int32()),
        ("flags", pa.int8()),
        ("size", pa.int32()),
        ("body_file", pa.int64()),
        ("body_row", pa.int32()),
        ("command", pa.binary()),
    ]
)

MAX_KNOWN: Final = 50_000
"""Publications that a worker remembers, so that later batches find the plans made for them."""

_PublicationRecord = tuple[str, str, str | None, int | None, bytes, str | None, Routed | None]
_NO_HEADERS: Final = encode_table(None)
_known: dict[_PublicationRecord, Publication] = {}  # of this worker process
_encoder = msgspec.msgpack.Encoder()
_publications = msgspec.msgpack.Decoder(list[_PublicationRecord])
_actors = msgspec.msgpack.Decoder(list[tuple[str | None, str]])
_epochs = msgspec.msgpack.Decoder(list[int])


class Records(NamedTuple):
    """The records of one or more blobs as columns, in the order in which they take effect.

    Attributes:
        epochs: of a log, the epoch in which each actor did it.
    """

    now_ms: int
    columns: dict[str, Any]
    publications: list[Publication]
    actors: list[Actor]
    epochs: list[int]

    def publishes(self) -> Any:
        """Return which records are publishes of this shard, not those of other lanes."""
        columns = self.columns
        return (columns["publication"] >= 0) & ((columns["flags"] & AWAY) == 0)


def record_table(columns: dict[str, Any]) -> pa.Table:
    """Arrange columns as SCHEMA; a missing column is 0, -1 (publication, body_file) or null."""
    rows = len(columns["offset"])
    arrays = []
    for field in SCHEMA:
        if field.name in columns:
            array = pa.array(columns[field.name], field.type)
        elif pa.types.is_binary(field.type):
            array = pa.nulls(rows, field.type)
        else:
            missing = -1 if field.name in {"publication", "body_file"} else 0
            array = pa.array(np.full(rows, missing), field.type)
        arrays.append(array)
    return pa.table(arrays, schema=SCHEMA)


def pack(
    records: pa.Table,
    publications: list[Publication],
    actors: list[Actor],
    now_ms: int,
    epochs: Sequence[int] = (),
) -> bytes:
    """Write one blob.

    Args:
        records: rows with the columns of SCHEMA.
        epochs: of a log, one for each actor.
    """
    written = [
        (
            publication.exchange,
            publication.routing_key,
            publication.expiration,
            publication.priority,
            _NO_HEADERS if publication.headers is None else encode_table(publication.headers),
            publication.user_id,
            publication.routed,
        )
        for publication in publications
    ]
    metadata = {
        NOW: str(now_ms).encode(),
        PUBLICATIONS: _encoder.encode(written),
        ACTORS: _encoder.encode([tuple(actor) for actor in actors]),
        EPOCHS: _encoder.encode(epochs),
    }
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, SCHEMA.with_metadata(metadata)) as writer:
        writer.write_table(records)
    packed: bytes = sink.getvalue().to_pybytes()
    return packed


def unpack(blobs: list[bytes]) -> Records:
    """Read all blobs of a shard and merge their records in the order of D4.

    Partitions are merged by the running maximum of their timestamps, then by topic, partition and
    offset. So no partition is reordered, and the order does not depend on the blobs' order.
    """
    tables = []
    codes: dict[_PublicationRecord, int] = {}  # equal ones of several blobs become one
    actors: list[Actor] = []
    epochs: list[int] = []
    now_ms = 0
    for blob in blobs:
        table = pa.ipc.open_stream(blob).read_all()
        metadata = table.schema.metadata
        now_ms = max(now_ms, int(metadata[NOW]))
        records = _publications.decode(metadata[PUBLICATIONS])
        code_of = [codes.setdefault(record, len(codes)) for record in records]
        # the code of a command is -1 and selects the last one
        merged = np.array([*code_of, NO_PUBLICATION], np.int32)[table["publication"].to_numpy()]
        table = table.set_column(4, "publication", pa.array(merged))
        actor_codes = table["actor"].to_numpy() + len(actors)
        table = table.set_column(5, "actor", pa.array(actor_codes, pa.int32()))
        tables.append(table.replace_schema_metadata(None))
        actors.extend(Actor(user, channel) for user, channel in _actors.decode(metadata[ACTORS]))
        epochs.extend(_epochs.decode(metadata[EPOCHS]))
    publications = [_known.get(record) or _publication(record) for record in codes]
    table = pa.concat_tables(tables)
    order = effect_order(
        *(table[name].to_numpy() for name in ("topic_number", "partition", "offset", "at_ms"))
    )
    columns = {
        name: table[name].take(pa.array(order))
        if name == "command"
        else table[name].to_numpy()[order]
        for name in SCHEMA.names
    }
    return Records(now_ms, columns, publications, actors, epochs)


def _publication(record: _PublicationRecord) -> Publication:
    """Decode a publication; remember it unless it has headers, which are often unique."""
    exchange, routing_key, expiration, priority, headers, user_id, routed = record
    publication = Publication(
        exchange, routing_key, expiration, priority, decode_table(headers), user_id, routed
    )
    if headers == _NO_HEADERS:
        if len(_known) >= MAX_KNOWN:
            _known.clear()
        _known[record] = publication
    return publication


def effect_order(topic: Any, partition: Any, offset: Any, at_ms: Any) -> Any:
    """Return row numbers in the order in which the records take effect (D4)."""
    by_offset = np.lexsort((offset, partition, topic))
    if not len(by_offset):
        return by_offset
    topic, partition, at_ms = topic[by_offset], partition[by_offset], at_ms[by_offset]
    is_start = (topic[1:] != topic[:-1]) | (partition[1:] != partition[:-1])
    starts = np.flatnonzero(np.concatenate(([True], is_start)))
    if len(starts) == 1:
        return by_offset
    running = np.concatenate([np.maximum.accumulate(part) for part in np.split(at_ms, starts[1:])])
    return by_offset[np.argsort(running, kind="stable")]
