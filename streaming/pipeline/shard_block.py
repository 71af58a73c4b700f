"""Records on their way from the first stage to their shard: one Arrow blob a task and shard.

    row: topic_number, partition, offset, at_ms | publication, actor, flags | size, file and row
    or:  topic_number, partition, offset, at_ms | command (JSON), actor

Publications and actors are few and stand once, in the blob's metadata.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa

from streaming.broker.events import Actor
from streaming.broker.message import Publication
from streaming.broker.state.encoding import decode_table, encode_table

NOW = b"now_ms"
PUBLICATIONS = b"publications"
ACTORS = b"actors"

SCHEMA = pa.schema(
    [
        ("topic_number", pa.int32()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("at_ms", pa.int64()),
        ("publication", pa.int32()),  # -1: a command
        ("actor", pa.int32()),
        ("flags", pa.int8()),
        ("size", pa.int32()),
        ("body_file", pa.int64()),
        ("body_row", pa.int32()),
        ("command", pa.binary()),
    ]
)

_PublicationRecord = tuple[str, str, msgspec.Raw, msgspec.Raw, msgspec.Raw]
_encoder = msgspec.msgpack.Encoder()
_publications = msgspec.msgpack.Decoder(list[_PublicationRecord])
_actors = msgspec.msgpack.Decoder(list[tuple[str | None, str]])


class Records(NamedTuple):
    """The records of one or more blobs, merged: columns in the order in which they take effect."""

    now_ms: int
    columns: dict[str, Any]
    publications: list[Publication]
    actors: list[Actor]


def pack(
    columns: dict[str, Any], publications: list[Publication], actors: list[Actor], now_ms: int
) -> bytes:
    """One blob.

    Args:
        columns: by name as in SCHEMA; missing ones are null or -1.
    """
    written = [
        (
            publication.exchange,
            publication.routing_key,
            msgspec.Raw(encode_table(publication.properties)),
            msgspec.Raw(encode_table(publication.headers)),
            msgspec.Raw(encode_table(publication.kafka_headers)),
        )
        for publication in publications
    ]
    metadata = {
        NOW: str(now_ms).encode(),
        PUBLICATIONS: _encoder.encode(written),
        ACTORS: _encoder.encode([tuple(actor) for actor in actors]),
    }
    rows = len(columns["offset"])
    arrays = [
        pa.array(columns[field.name], field.type)
        if field.name in columns
        else _missing(field, rows)
        for field in SCHEMA
    ]
    batch = pa.record_batch(arrays, schema=SCHEMA.with_metadata(metadata))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    packed: bytes = sink.getvalue().to_pybytes()
    return packed


def _missing(field: pa.Field, rows: int) -> pa.Array:
    if pa.types.is_binary(field.type):
        return pa.nulls(rows, field.type)
    return pa.array(
        np.full(rows, -1 if field.name in {"publication", "body_file"} else 0), field.type
    )


def unpack(blobs: list[bytes]) -> Records:
    """The records of all blobs of a shard, in the order of D4.

    The partitions are merged by the running maximum of their timestamps, then by topic, partition
    and offset; so no partition is reordered, and the order does not depend on how they came in
    blobs.
    """
    tables = []
    publications: list[Publication] = []
    actors: list[Actor] = []
    now_ms = 0
    for blob in blobs:
        table = pa.ipc.open_stream(blob).read_all()
        metadata = table.schema.metadata
        now_ms = max(now_ms, int(metadata[NOW]))
        publication_codes = table["publication"].to_numpy()
        shifted = np.where(publication_codes < 0, -1, publication_codes + len(publications))
        table = table.set_column(4, "publication", pa.array(shifted, pa.int32()))
        actor_codes = table["actor"].to_numpy() + len(actors)
        table = table.set_column(5, "actor", pa.array(actor_codes, pa.int32()))
        tables.append(table.replace_schema_metadata(None))
        publications.extend(
            Publication(
                exchange,
                routing_key,
                decode_table(properties) or {},
                decode_table(headers),
                decode_table(foreign),
            )
            for exchange, routing_key, properties, headers, foreign in _publications.decode(
                metadata[PUBLICATIONS]
            )
        )
        actors.extend(Actor(user, channel) for user, channel in _actors.decode(metadata[ACTORS]))
    table = pa.concat_tables(tables)
    order = effect_order(
        table["topic_number"].to_numpy(),
        table["partition"].to_numpy(),
        table["offset"].to_numpy(),
        table["at_ms"].to_numpy(),
    )
    columns = {
        name: table[name].take(pa.array(order))
        if name == "command"
        else table[name].to_numpy()[order]
        for name in SCHEMA.names
    }
    return Records(now_ms, columns, publications, actors)


def effect_order(topic: Any, partition: Any, offset: Any, at_ms: Any) -> Any:
    """Row numbers in the order in which records take effect (D4)."""
    by_offset = np.lexsort((offset, partition, topic))
    if not len(by_offset):
        return by_offset
    topic, partition, at_ms = topic[by_offset], partition[by_offset], at_ms[by_offset]
    starts = np.flatnonzero(
        np.concatenate(([True], (topic[1:] != topic[:-1]) | (partition[1:] != partition[:-1])))
    )
    if len(starts) == 1:
        return by_offset
    running = np.concatenate([np.maximum.accumulate(part) for part in np.split(at_ms, starts[1:])])
    merged = np.argsort(running, kind="stable")
    return by_offset[merged]
