"""The work of the first stage on one task's records, batch by batch of Arrow rows.

Alike publishes are understood once: the header columns are dictionary-encoded, and each distinct
combination is read by `wire.py`. Only commands, foreign headers and bad records cost work by the
row.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streaming.broker.events import Actor
from streaming.broker.message import Publication
from streaming.ledger.files import DataFile
from streaming.pipeline import packing
from streaming.pipeline.intake_commands import read_commands
from streaming.pipeline.kafka_headers import (
    FOREIGN,
    HEADER_BYTES,
    HEADER_COLUMNS,
    with_header_columns,
)
from streaming.pipeline.message_rows import MessageRows
from streaming.pipeline.quarantine_rows import QuarantineRows
from streaming.pipeline.selectors import mapped_headers
from streaming.pipeline.tasks import BatchContext, TaskSettings, TopicTask
from streaming.wire import (
    MalformedRecordError,
    PublishHeaders,
    foreign_table,
    publish_headers,
)

Combination = tuple[Any, ...]


class _ShardRows:
    """The records of one shard so far, as pieces of columns."""

    def __init__(self) -> None:
        self.pieces: list[dict[str, Any]] = []
        self.publications: dict[int, int] = {}  # code of the task -> code of the blob
        self.actors: dict[Actor, int] = {}


class Intake:
    """One task's records.

    Attributes:
        files: descriptions of the data files written.
    """

    def __init__(self, settings: TaskSettings, context: BatchContext) -> None:
        self._settings = settings
        self._known: dict[Combination, int | MalformedRecordError] = {}
        self._understood: list[PublishHeaders] = []
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
        codes = self._codes(rows, topic)
        sizes = pc.fill_null(pc.binary_length(rows["value"]), -1).to_numpy()
        header_bytes = rows[HEADER_BYTES].to_numpy()
        suspects = np.flatnonzero(
            (codes < 0)
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
        body_files, body_rows = self._messages.add(
            rows, topic_name, topic, codes, self._understood, lanes, sizes
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
        task_codes, inverse = np.unique(columns["publication"], return_inverse=True)
        codes, actors, flags = [], [], []
        for task_code in task_codes.tolist():
            understood = self._understood[task_code]
            codes.append(shard.publications.setdefault(task_code, len(shard.publications)))
            actor = Actor(topic.user, understood.channel)
            actors.append(shard.actors.setdefault(actor, len(shard.actors)))
            flags.append(understood.flags)
        columns["publication"] = np.array(codes, np.int32)[inverse]
        columns["actor"] = np.array(actors, np.int32)[inverse]
        columns["flags"] = np.array(flags, np.int8)[inverse]
        shard.pieces.append(columns)

    def _places(self, codes: Any, partitions: Any) -> tuple[Any, Any]:
        """Lane and grouping key of each record (D2)."""
        used, inverse = np.unique(codes, return_inverse=True)
        names = [self._understood[code].vhost for code in used.tolist()]
        numbers = {name: number for number, name in enumerate(dict.fromkeys(names))}
        vhost_of = np.array([numbers[name] for name in names], np.int32)[inverse]
        lanes = np.zeros(len(codes), np.int32)
        keys = np.zeros(len(codes), np.int32)
        for name, number in numbers.items():
            vhost = self._settings.vhosts[name]
            chosen = vhost_of == number
            lanes[chosen] = partitions[chosen] % len(vhost.keys)
            keys[chosen] = np.array(vhost.keys, np.int32)[lanes[chosen]]
        return lanes, keys

    def _codes(self, rows: pa.RecordBatch, topic: TopicTask) -> Any:
        """The code of each record's headers; -1 where they cannot be understood."""
        foreign = rows[FOREIGN]
        if topic.mapping is not None or foreign.null_count < rows.num_rows:
            combinations = self._row_combinations(rows, topic)
            return np.array([self._code(one) for one in combinations], np.int32)
        combined = np.zeros(rows.num_rows, np.int64)
        columns = [rows[name] for name in HEADER_COLUMNS]
        encoded = [column.dictionary_encode() for column in columns]
        for column in encoded:
            indices = pc.fill_null(column.indices, -1).to_numpy().astype(np.int64) + 1
            combined = (
                np.unique(combined, return_inverse=True)[1] * (len(column.dictionary) + 1) + indices
            )
        _values, first, inverse = np.unique(combined, return_index=True, return_inverse=True)
        rows_of_each = pa.array(first)
        values = zip(*(column.take(rows_of_each).to_pylist() for column in columns), strict=True)
        codes = [self._code((*each, None)) for each in values]
        return np.array(codes, np.int32)[inverse]

    def _row_combinations(self, rows: pa.RecordBatch, topic: TopicTask) -> list[Combination]:
        """Header values and foreign headers, row by row."""
        foreign = [
            None
            if headers is None
            else tuple((header["key"], header["value"]) for header in headers)
            for headers in rows[FOREIGN].to_pylist()
        ]
        if topic.mapping is not None:
            keys = rows["key"].to_pylist()
            return [
                mapped_headers(topic.mapping, key, headers or ())
                for key, headers in zip(keys, foreign, strict=True)
            ]
        columns = [rows[name].to_pylist() for name in HEADER_COLUMNS]
        return [(*values, headers) for *values, headers in zip(*columns, foreign, strict=True)]

    def _code(self, combination: Combination) -> int:
        known = self._known.get(combination)
        if known is None:
            known = self._understand(combination)
            self._known[combination] = known
        return -1 if isinstance(known, MalformedRecordError) else known

    def _understand(self, combination: Combination) -> int | MalformedRecordError:
        *values, foreign = combination
        try:
            if isinstance(foreign, MalformedRecordError):
                return foreign
            understood = publish_headers(values, foreign_table(foreign) if foreign else None)
        except MalformedRecordError as error:
            return error
        if understood.vhost not in self._settings.vhosts:
            detail = f"vhost {understood.vhost!r} is not one of this job's"
            return MalformedRecordError("unlisted_vhost", detail)
        self._understood.append(understood)
        return len(self._understood) - 1

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
        if codes[index] < 0:
            combination = self._row_combinations(rows.slice(index, 1), topic)[0]
            fault = self._understand(combination)
            assert isinstance(fault, MalformedRecordError)
            return fault
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
                self._understood[code].publication for code in shard.publications
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
