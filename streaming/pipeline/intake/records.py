"""The work of the first stage on one task's records, batch by batch of Arrow rows.

Publishes are taken by whole columns, alike ones understood once (`distinct_headers.py`). Only
commands, foreign headers and bad records cost work by the row.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streaming.broker.events import Actor
from streaming.broker.message import Publication
from streaming.ledger.write.data_file import DataFile
from streaming.pipeline import shard_block as packing
from streaming.pipeline.intake.code_map import CodeMap
from streaming.pipeline.intake.commands import read_commands
from streaming.pipeline.intake.header_columns import (
    HEADER_BYTES,
    with_header_columns,
)
from streaming.pipeline.intake.publications import NOT_UNDERSTOOD, DistinctHeaders
from streaming.pipeline.rows.messages import MessageRows
from streaming.pipeline.rows.quarantine import QuarantineRows
from streaming.pipeline.task.context import BatchContext, TaskSettings, TopicTask
from streaming.protocol.headers import (
    MalformedRecordError,
)


class _ShardRows:
    """The records of one shard so far, as pieces of columns."""

    def __init__(self) -> None:
        self.pieces: list[dict[str, Any]] = []
        self.publications: list[int] = []  # codes of the task, in the order of the blob's
        self.publication_of = CodeMap()  # code of the task -> code of the blob
        self.actor_of: dict[str | None, CodeMap] = {}  # by user
        self.actors: dict[Actor, int] = {}


class Intake:
    """One task's records.

    Attributes:
        files: descriptions of the data files written.
    """

    def __init__(self, settings: TaskSettings, context: BatchContext) -> None:
        self._settings = settings
        self._headers = DistinctHeaders(settings.vhosts)
        self._shards: dict[int, _ShardRows] = {}
        self._now_ms = context.now_ms
        self._messages = MessageRows(settings, context)
        self._quarantine = QuarantineRows(settings, context)

    @property
    def files(self) -> list[DataFile]:
        """What was written; writes what is left."""
        return [*self._messages.close(), *self._quarantine.close()]

    def take(self, batch: pa.RecordBatch) -> None:
        """Take the records of one Arrow batch, all of one source."""
        topics = batch["topic"].dictionary_encode()
        for code, name in enumerate(topics.dictionary.to_pylist()):
            topic = self._settings.topics[name]
            rows = batch
            if len(topics.dictionary) > 1:
                rows = batch.filter(pc.equal(topics.indices, code))
            rows = with_header_columns(rows, is_mapped=topic.mapping is not None)
            commands = pc.is_valid(rows["dlx_op"])
            if pc.any(commands).as_py():
                self._take_commands(rows.filter(commands), name, topic)
                rows = rows.filter(pc.invert(commands))
            if rows.num_rows:
                self._take_publishes(rows, name, topic)

    # -- publishes

    def _take_publishes(self, rows: pa.RecordBatch, topic_name: str, topic: TopicTask) -> None:
        codes = self._headers.codes(rows, topic)
        sizes = pc.fill_null(pc.binary_length(rows["value"]), -1).to_numpy()
        header_bytes = rows[HEADER_BYTES].to_numpy()
        suspects = np.flatnonzero(
            (codes == NOT_UNDERSTOOD)
            | (sizes < 0)
            | (sizes > self._settings.max_body_bytes)
            | (header_bytes > self._settings.max_header_bytes)
        ).tolist()
        bad = [
            (index, self._fault(rows, index, codes, sizes, header_bytes, topic))
            for index in suspects
        ]
        if bad:
            self._quarantine.add(rows, topic_name, topic, bad)
            keep = np.ones(rows.num_rows, bool)
            keep[[index for index, _fault in bad]] = False
            rows = rows.filter(pa.array(keep))
            codes, sizes = codes[keep], sizes[keep]
        if not rows.num_rows:
            return
        partitions = rows["partition"].to_numpy()
        lanes, keys = self._places(codes, partitions)
        used, indices = np.unique(codes, return_inverse=True)
        known = [self._headers.understood[code] for code in used.tolist()]
        body_files, body_rows = self._messages.add(
            rows, topic_name, topic, known, indices.astype(np.int32), lanes, sizes
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
            self._add(int(key), {name: column[chosen] for name, column in columns.items()}, topic)

    def _add(self, key: int, columns: dict[str, Any], topic: TopicTask) -> None:
        """Add publishes to a shard, with the shard's own codes for publications and actors."""
        shard = self._shards.setdefault(key, _ShardRows())
        actor_of = shard.actor_of.setdefault(topic.user, CodeMap())
        codes = columns["publication"]
        for code in shard.publication_of.missing(codes):
            shard.publication_of[code] = len(shard.publications)
            shard.publications.append(code)
        for code in actor_of.missing(codes):
            actor = Actor(topic.user, self._headers.understood[code].channel)
            actor_of[code] = shard.actors.setdefault(actor, len(shard.actors))
        columns["publication"] = shard.publication_of.of(codes)
        columns["actor"] = actor_of.of(codes)
        columns["flags"] = self._headers.flags.of(codes).astype(np.int8)
        shard.pieces.append(columns)

    def _places(self, codes: Any, partitions: Any) -> tuple[Any, Any]:
        """Lane and grouping key of each record (D2)."""
        vhost_of = self._headers.vhosts.of(codes)
        lanes = np.zeros(len(codes), np.int32)
        keys = np.zeros(len(codes), np.int32)
        for name, number in self._headers.vhost_numbers.items():
            vhost = self._settings.vhosts[name]
            chosen = vhost_of == number
            lanes[chosen] = partitions[chosen] % len(vhost.keys)
            keys[chosen] = np.array(vhost.keys, np.int32)[lanes[chosen]]
        return lanes, keys

    def _fault(
        self,
        rows: pa.RecordBatch,
        index: int,
        codes: Any,
        sizes: Any,
        header_bytes: Any,
        topic: TopicTask,
    ) -> MalformedRecordError:
        if header_bytes[index] > self._settings.max_header_bytes:
            most = self._settings.max_header_bytes
            return MalformedRecordError(
                "headers_too_large", f"{header_bytes[index]} bytes of headers, more than {most}"
            )
        if codes[index] == NOT_UNDERSTOOD:
            return self._headers.fault(rows.slice(index, 1), topic)
        if sizes[index] < 0:
            return MalformedRecordError(
                "null_body", "a publish needs a value; it may be empty, not null"
            )
        most = self._settings.max_body_bytes
        return MalformedRecordError("body_too_large", f"{sizes[index]} bytes, more than {most}")

    def _take_commands(self, rows: pa.RecordBatch, topic_name: str, topic: TopicTask) -> None:
        understood, bad = read_commands(rows, self._settings.vhosts)
        for one in understood:
            actor = Actor(topic.user, one.channel)
            for key in one.keys:
                shard = self._shards.setdefault(key, _ShardRows())
                shard.pieces.append(
                    {
                        "topic_number": [topic.number],
                        "partition": [one.partition],
                        "offset": [one.offset],
                        "at_ms": [one.at_ms],
                        "actor": [shard.actors.setdefault(actor, len(shard.actors))],
                        "command": [one.value],
                    }
                )
        if bad:
            self._quarantine.add(rows, topic_name, topic, bad)

    # -- out

    def blobs(self) -> list[tuple[int, bytes]]:
        """(grouping key, blob) of each shard that has records."""
        blobs = []
        for key, shard in sorted(self._shards.items()):
            publications: list[Publication] = [
                self._headers.understood[code].publication for code in shard.publications
            ]
            columns = _joined(shard.pieces)
            blobs.append(
                (key, packing.pack(columns, publications, list(shard.actors), self._now_ms))
            )
        return blobs


def _joined(pieces: list[dict[str, Any]]) -> dict[str, Any]:
    """The pieces of a shard as whole columns."""
    joined: dict[str, Any] = {}
    for field in packing.SCHEMA:
        if field.name == "command":
            joined[field.name] = [
                value
                for piece in pieces
                for value in piece.get("command", [None] * len(piece["offset"]))
            ]
            continue
        missing = -1 if field.name in {"publication", "body_file"} else 0
        joined[field.name] = np.concatenate(
            [
                np.asarray(piece.get(field.name, np.full(len(piece["offset"]), missing)))
                for piece in pieces
            ]
        )
    return joined
