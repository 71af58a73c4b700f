"""Rows of `messages`: every publish as it arrived, bodies included (D6)."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa

from streaming.broker.publishing import CONFIRM, IMMEDIATE, MANDATORY
from streaming.ledger.columns import Coded, Constant, build_table
from streaming.ledger.files import DataFile, DataFileName, write_data_file
from streaming.ledger.schemas import TABLES
from streaming.pipeline.quarantine_rows import instants, plain_concat
from streaming.pipeline.tasks import BatchContext, TaskSettings, TopicTask, body_file_number
from streaming.scenario.document import PROPERTIES
from streaming.wire import PublishHeaders
from topology.values import table_to_json

MAX_FILE_BYTES = 64 * 1024 * 1024
"""Bodies in memory before a file is written."""

_SPEC = TABLES["messages"]


class MessageRows:
    """Collects and writes the bodies of one task."""

    def __init__(self, settings: TaskSettings, context: BatchContext) -> None:
        self._settings = settings
        self._context = context
        self._tables: list[pa.Table] = []
        self._rows = 0
        self._bytes = 0
        self._index = 0
        self._files: list[DataFile] = []

    def add(
        self,
        rows: pa.RecordBatch,
        topic_name: str,
        topic: TopicTask,
        codes: Any,
        understood: list[PublishHeaders],
        lanes: Any,
        sizes: Any,
    ) -> tuple[Any, Any]:
        """Take publishes; returns the number of the file and the row in it, for each."""
        count = rows.num_rows
        files = np.full(
            count, body_file_number(self._context.batch_id, self._context.partition, self._index)
        )
        places = np.arange(self._rows, self._rows + count, dtype=np.int32)
        used, inverse = np.unique(codes, return_inverse=True)
        known = [understood[code] for code in used.tolist()]
        indices = inverse.astype(np.int32)
        columns: dict[str, Any] = {
            "query_id": Constant(self._context.query_id),
            "batch_id": Constant(self._context.batch_id),
            "vhost": Coded(indices, [one.vhost for one in known]),
            "lane": lanes,
            "topic_number": np.full(count, topic.number, np.int32),
            "partition": rows["partition"],
            "offset": rows["offset"],
            "origin.topic": Constant(topic_name),
            "origin.topic_number": np.full(count, topic.number, np.int32),
            "origin.partition": rows["partition"],
            "origin.offset": rows["offset"],
            "origin.timestamp": instants(rows["at_ms"]),
            "record_key": rows["key"],
            "user": Constant(topic.user),
            "channel": Coded(indices, [one.channel for one in known]),
            "exchange": Coded(indices, [one.publication.exchange for one in known]),
            "routing_key": Coded(indices, [one.publication.routing_key for one in known]),
            "mandatory": np.array([bool(one.flags & MANDATORY) for one in known])[indices],
            "immediate": np.array([bool(one.flags & IMMEDIATE) for one in known])[indices],
            "confirm": np.array([bool(one.flags & CONFIRM) for one in known])[indices],
            "headers": Coded(indices, [headers_json(one.publication.headers) for one in known]),
            "body_bytes": sizes,
            "body": rows["value"],
        }
        columns.update(properties_columns([one.publication.properties for one in known], indices))
        if rows["foreign"].null_count < count:
            columns["kafka_headers"] = rows["foreign"]
        self._tables.append(build_table(_SPEC.schema, columns, count))
        self._rows += count
        self._bytes += int(sizes.sum())
        if self._bytes >= MAX_FILE_BYTES:
            self._write()
        return files, places

    def _write(self) -> None:
        if not self._tables:
            return
        context = self._context
        name = DataFileName(
            context.query_id, context.batch_id, "messages", context.partition, self._index
        )
        storage = self._settings.tables.below(_SPEC.name).storage()
        file = write_data_file(storage, _SPEC, name, plain_concat(self._tables))
        if file is not None:
            self._files.append(file)
        self._index += 1
        self._tables, self._rows, self._bytes = [], 0, 0

    def close(self) -> list[DataFile]:
        """Write what is left; the descriptions of all files."""
        self._write()
        return self._files


def headers_json(headers: dict[str, Any] | None) -> str | None:
    """AMQP headers as typed JSON text."""
    if headers is None:
        return None
    return json.dumps(table_to_json(headers), ensure_ascii=False, separators=(",", ":"))


def properties_columns(distinct: list[dict[str, Any]], indices: Any) -> dict[str, Any]:
    """The columns of the `properties` struct, from distinct properties and an index a row."""
    return {
        f"properties.{name}": Coded(indices, [properties.get(name) for properties in distinct])
        for name in PROPERTIES
        if any(name in properties for properties in distinct)
    }
