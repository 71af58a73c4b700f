"""Rows of `messages`: every publish as it arrived, bodies included (D6)."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa

from streaming.broker.publishing import CONFIRM, IMMEDIATE, MANDATORY
from streaming.ledger.schema.schemas import TABLES
from streaming.ledger.write.arrow_columns import Coded, Constant, build_table
from streaming.ledger.write.data_file import DataFile
from streaming.pipeline.rows.quarantine import instants
from streaming.pipeline.rows.rolling_files import TaskFiles
from streaming.pipeline.task.context import BatchContext, TaskSettings, TopicTask, body_file_number
from streaming.protocol.headers import PublishHeaders
from streaming.protocol.properties import PROPERTIES
from topology.values import table_to_json

_SPEC = TABLES["messages"]

NAMES_BYTES = 64
"""Of a row, for its names and properties."""


class MessageRows:
    """Collects and writes the bodies of one task."""

    def __init__(self, settings: TaskSettings, context: BatchContext) -> None:
        self._context = context
        self._files = TaskFiles(_SPEC, settings, context)

    def add(
        self,
        rows: pa.RecordBatch,
        topic_name: str,
        topic: TopicTask,
        known: list[PublishHeaders],
        indices: Any,
        lanes: Any,
        sizes: Any,
    ) -> tuple[Any, Any]:
        """Take publishes; returns the number of the file and the row in it, for each.

        Args:
            known, indices: the distinct headers, and which of them each row has.
        """
        count = rows.num_rows
        context, index = self._context, self._files.index
        files = np.full(count, body_file_number(context.batch_id, context.partition, index))
        places = np.arange(self._files.rows, self._files.rows + count, dtype=np.int32)
        headers = [headers_json(one.publication.headers) for one in known]
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
            "headers": Coded(indices, headers),
            "body_bytes": sizes,
            "body": rows["value"],
        }
        columns.update(properties_columns([one.publication.properties for one in known], indices))
        if rows["foreign"].null_count < count:
            columns["kafka_headers"] = rows["foreign"]
        texts = np.array([NAMES_BYTES + len(text or "") for text in headers], np.int64)
        size = int(sizes.sum() + texts[indices].sum())
        size += rows["key"].nbytes + rows["foreign"].nbytes
        self._files.add(build_table(_SPEC.schema, columns, count), size)
        return files, places

    def close(self) -> list[DataFile]:
        """Write what is left; the descriptions of all files."""
        return self._files.close()


def headers_json(headers: dict[str, Any] | None) -> str | None:
    """AMQP headers as typed JSON text."""
    if headers is None:
        return None
    return json.dumps(table_to_json(headers), ensure_ascii=False, separators=(",", ":"))


def properties_columns(distinct: list[dict[str, Any]], indices: Any) -> dict[str, Any]:
    """The columns of the `properties` struct, from distinct properties and an index a row."""
    present = set().union(*distinct)
    return {
        f"properties.{name}": Coded(indices, [properties.get(name) for properties in distinct])
        for name in PROPERTIES
        if name in present
    }
