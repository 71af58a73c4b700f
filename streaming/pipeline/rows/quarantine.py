"""Rows of `quarantine`: records that could not be understood, complete."""

from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streaming.ledger.schema.schemas import TABLES
from streaming.ledger.write.arrow_columns import Constant, build_table
from streaming.ledger.write.data_file import DataFile
from streaming.pipeline.reports import FaultCount, FaultCounter
from streaming.pipeline.rows.amqp_columns import instants
from streaming.pipeline.rows.bounds import HEADER_BYTES, RollingFiles
from streaming.pipeline.task import BatchContext, TaskSettings, TopicTask
from streaming.protocol.record_headers import MalformedRecordError

_SPEC = TABLES["quarantine"]

Faults = list[tuple[int, MalformedRecordError]]
"""Row numbers of malformed records, and the fault of each."""


class QuarantineRows:
    """Collects and writes the malformed records of one task."""

    def __init__(self, settings: TaskSettings, context: BatchContext) -> None:
        self._context = context
        self._files = RollingFiles(_SPEC, settings, context)
        self._faults: dict[tuple[int, int], FaultCounter] = {}

    def add(self, rows: pa.RecordBatch, topic_name: str, topic: TopicTask, faults: Faults) -> None:
        """Add the faulty ones among some rows of one Kafka partition; `faults` in order of rows."""
        bad = rows.take(pa.array([index for index, _fault in faults], pa.int64()))
        count = bad.num_rows
        partition, offsets = bad["partition"][0].as_py(), bad["offset"].to_numpy()
        counter = self._faults.setdefault((topic.number, partition), FaultCounter())
        for (_index, fault), offset in zip(faults, offsets.tolist(), strict=True):
            counter.add(
                "quarantined",
                topic_name,
                fault.cause,
                partial("partition {}, offset {}: {}".format, partition, offset, fault.detail),
            )
        columns = {
            "query_id": Constant(self._context.query_id),
            "batch_id": Constant(self._context.batch_id),
            "topic_number": np.full(count, topic.number, np.int32),
            "partition": bad["partition"],
            "offset": bad["offset"],
            "origin.topic": Constant(topic_name),
            "origin.topic_number": np.full(count, topic.number, np.int32),
            "origin.partition": bad["partition"],
            "origin.offset": bad["offset"],
            "origin.timestamp": instants(bad["at_ms"]),
            "cause": [fault.cause for _index, fault in faults],
            "detail": [fault.detail for _index, fault in faults],
            "record_key": bad["key"],
            "record_value": bad["value"],
            "kafka_headers": bad["headers"],
        }
        sizes = bad[HEADER_BYTES].to_numpy()
        for name in ("key", "value"):
            sizes = sizes + pc.fill_null(pc.binary_length(bad[name]), 0).to_numpy()
        table = build_table(_SPEC.schema, columns, count)
        self._files.add(topic.number, partition, table, offsets, sizes)

    def faults(self) -> list[FaultCount]:
        """Return the records by topic and cause, for each Kafka partition."""
        return [one for _key, found in sorted(self._faults.items()) for one in found.counts()]

    def close(self) -> list[DataFile]:
        """Write the remaining rows; return the descriptions of all files."""
        return self._files.close()
