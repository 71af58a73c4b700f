"""Publishes by their headers: alike ones are understood once and share a code.

The header columns are dictionary-encoded, and each distinct combination of values is read by
`wire.py`. Foreign headers and mapped topics are looked at row by row.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streaming.pipeline.intake.code_map import CodeMap
from streaming.pipeline.intake.header_columns import FOREIGN, HEADER_COLUMNS
from streaming.pipeline.intake.mapping import mapped_headers
from streaming.pipeline.task.context import TopicTask
from streaming.protocol.headers import (
    MalformedRecordError,
    PublishHeaders,
    foreign_table,
    publish_headers,
)

Combination = tuple[Any, ...]

NOT_UNDERSTOOD = -1


class DistinctHeaders:
    """The headers that one task has seen.

    Args:
        vhosts: those of the job.

    Attributes:
        understood: by code.
        flags: by code; vhosts: a number by code, vhost_numbers: which is which.
    """

    def __init__(self, vhosts: Collection[str]) -> None:
        self._listed = vhosts
        self._known: dict[Combination, int] = {}
        self.understood: list[PublishHeaders] = []
        self.flags = CodeMap()
        self.vhosts = CodeMap()
        self.vhost_numbers: dict[str, int] = {}

    def codes(self, rows: pa.RecordBatch, topic: TopicTask) -> Any:
        """The code of each record's headers, or NOT_UNDERSTOOD."""
        foreign = rows[FOREIGN]
        if topic.mapping is not None or foreign.null_count < rows.num_rows:
            combinations = self._row_combinations(rows, topic)
            return np.array([self._code(one) for one in combinations], np.int32)
        combined = np.zeros(rows.num_rows, np.int64)
        columns = [rows[name] for name in HEADER_COLUMNS]
        for column in [one.dictionary_encode() for one in columns if one.null_count < len(one)]:
            indices = pc.fill_null(column.indices, -1).to_numpy().astype(np.int64) + 1
            combined = (
                np.unique(combined, return_inverse=True)[1] * (len(column.dictionary) + 1) + indices
            )
        _values, first, inverse = np.unique(combined, return_index=True, return_inverse=True)
        rows_of_each = pa.array(first)
        nothing = [None] * len(first)
        values = zip(
            *(
                nothing if one.null_count == len(one) else one.take(rows_of_each).to_pylist()
                for one in columns
            ),
            nothing,  # no foreign headers
            strict=True,
        )
        codes = [self._code(each) for each in values]
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
        code = self._known.get(combination)
        if code is None:
            understood = self._understand(combination)
            code = NOT_UNDERSTOOD
            if not isinstance(understood, MalformedRecordError):
                code = len(self.understood)
                self.understood.append(understood)
                self.flags[code] = understood.flags
                self.vhosts[code] = self.vhost_numbers.setdefault(
                    understood.vhost, len(self.vhost_numbers)
                )
            self._known[combination] = code
        return code

    def _understand(self, combination: Combination) -> PublishHeaders | MalformedRecordError:
        *values, foreign = combination
        try:
            if isinstance(foreign, MalformedRecordError):
                return foreign
            understood = publish_headers(values, foreign_table(foreign) if foreign else None)
        except MalformedRecordError as error:
            return error
        if understood.vhost not in self._listed:
            detail = f"vhost {understood.vhost!r} is not one of this job's"
            return MalformedRecordError("unlisted_vhost", detail)
        return understood

    def fault(self, row: pa.RecordBatch, topic: TopicTask) -> MalformedRecordError:
        """What is wrong with the headers of a record that got NOT_UNDERSTOOD."""
        [combination] = self._row_combinations(row, topic)
        fault = self._understand(combination)
        assert isinstance(fault, MalformedRecordError)
        return fault
