"""Publishes by their headers: equal headers are parsed once and share a code.

Header columns are dictionary-encoded, and each distinct combination of values is parsed by
`record_headers`. Records with foreign headers, and those of mapped topics, are handled row by row.
"""

from collections.abc import Collection
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streaming.pipeline.intake.command_records import unlisted_vhost
from streaming.pipeline.intake.header_columns import FOREIGN, HEADER_BYTES, HEADER_COLUMNS
from streaming.pipeline.intake.mapping import (
    ForeignHeaders,
    MappedPublish,
    MappedRecord,
    TopicMapper,
    body_document,
    publish_of,
)
from streaming.pipeline.task import TopicTask
from streaming.protocol.record_headers import (
    MalformedRecordError,
    PublishHeaders,
    kafka_headers_table,
    publish_headers,
)

Combination = tuple[Any, ...] | MalformedRecordError
"""The header values of a record, what its mapping makes of it, or why it makes nothing."""

MALFORMED: Final = -1
"""The code of headers that could not be parsed."""

_ABSENT: Final = -1
_FIRST_SIZE: Final = 64


class CodeMap:
    """A growing map from codes (0, 1, 2, ...) to numbers (0 and above), for whole columns."""

    def __init__(self) -> None:
        self._values = np.full(_FIRST_SIZE, _ABSENT, np.int32)

    def __setitem__(self, code: int, number: int) -> None:
        """Set the number of a code."""
        self._grow(code)
        self._values[code] = number

    def of(self, codes: Any) -> Any:
        """Return the numbers of an array of codes, as int32; each code must have one."""
        return self._values[codes]

    def missing(self, codes: Any) -> list[int]:
        """Return the codes without a number: each once, ascending."""
        self._grow(int(codes.max()))
        found: list[int] = np.unique(codes[self._values[codes] == _ABSENT]).tolist()
        return found

    def _grow(self, code: int) -> None:
        size = len(self._values)
        if code >= size:
            more = np.full(max(code + 1 - size, size), _ABSENT, np.int32)
            self._values = np.concatenate((self._values, more))


class DistinctHeaders:
    """The distinct headers that one task has seen.

    Args:
        vhosts: the vhosts of the job.
        max_header_bytes: the most bytes of a record's headers.

    Attributes:
        parsed: headers by code.
        flags: flags by code.
        vhosts: number of the vhost by code; `vhost_numbers` names the vhosts.
    """

    def __init__(self, vhosts: Collection[str], max_header_bytes: int) -> None:
        self._listed = vhosts
        self._max_header_bytes = max_header_bytes
        self._mappers: dict[int, TopicMapper] = {}
        self._known: dict[Combination, int] = {}
        self.parsed: list[PublishHeaders] = []
        self.flags = CodeMap()
        self.vhosts = CodeMap()
        self.vhost_numbers: dict[str, int] = {}

    def codes(self, rows: pa.RecordBatch, topic: TopicTask) -> Any:
        """Return the code of each record's headers, or MALFORMED."""
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

    def fault(self, row: pa.RecordBatch, topic: TopicTask) -> MalformedRecordError:
        """Return what is wrong with the headers of a record whose code is MALFORMED."""
        [combination] = self._row_combinations(row, topic)
        fault = (
            combination
            if isinstance(combination, MalformedRecordError)
            else self._parse(combination)
        )
        assert isinstance(fault, MalformedRecordError)
        return fault

    def _row_combinations(self, rows: pa.RecordBatch, topic: TopicTask) -> list[Combination]:
        """Return our header values and the foreign headers of each row."""
        foreign = _header_tuples(rows[FOREIGN])
        if topic.mapping is not None:
            mapper = self._mappers.get(topic.number)
            if mapper is None:
                mapper = self._mappers[topic.number] = TopicMapper(
                    rows["topic"][0].as_py(), topic.mapping, self._listed, self._max_header_bytes
                )
            return _mapped(rows, mapper, foreign)
        columns = [rows[name].to_pylist() for name in HEADER_COLUMNS]
        return [(*values, headers) for *values, headers in zip(*columns, foreign, strict=True)]

    def _code(self, combination: Combination) -> int:
        if isinstance(combination, MalformedRecordError):
            return MALFORMED
        code = self._known.get(combination)
        if code is None:
            parsed = self._parse(combination)
            code = MALFORMED
            if not isinstance(parsed, MalformedRecordError):
                code = len(self.parsed)
                self.parsed.append(parsed)
                self.flags[code] = parsed.flags
                self.vhosts[code] = self.vhost_numbers.setdefault(
                    parsed.vhost, len(self.vhost_numbers)
                )
            self._known[combination] = code
        return code

    def _parse(self, combination: tuple[Any, ...]) -> PublishHeaders | MalformedRecordError:
        if isinstance(combination, MappedPublish):
            return publish_of(combination)
        *values, foreign = combination
        try:
            parsed = publish_headers(values, kafka_headers_table(foreign) if foreign else None)
        except MalformedRecordError as error:
            return error
        return parsed if parsed.vhost in self._listed else unlisted_vhost(parsed.vhost)


def _header_tuples(lists: pa.Array) -> list[ForeignHeaders | None]:
    """Return the headers of each row; None for a row without a list."""
    keys, values = lists.flatten().flatten()
    pairs = list(zip(keys.to_pylist(), values.to_pylist(), strict=True))
    lengths = pc.list_value_length(lists)
    ends = np.cumsum(pc.fill_null(lengths, 0).to_numpy()).tolist()
    return [
        None if length is None else tuple(pairs[end - length : end])
        for length, end in zip(lengths.to_pylist(), ends, strict=True)
    ]


def _mapped(
    rows: pa.RecordBatch, mapper: TopicMapper, foreign: list[ForeignHeaders | None]
) -> list[Combination]:
    """Return what a mapping makes of each row, or why it makes nothing."""
    nothing = [None] * rows.num_rows
    records = map(
        MappedRecord,
        rows["key"].to_pylist() if mapper.needs_key else nothing,
        [headers or () for headers in foreign],
        map(body_document, rows["value"].to_pylist()) if mapper.needs_body else nothing,
        *(
            rows[name].to_pylist() if mapper.needs_place else nothing
            for name in ("partition", "offset", "at_ms")
        ),
    )
    publish, found = mapper.publish, []
    known: dict[MappedRecord, Combination] = {}
    is_alike = not (mapper.needs_body or mapper.needs_place)
    for record, size in zip(records, rows[HEADER_BYTES].to_pylist(), strict=True):
        combination = known.get(record) if is_alike else None
        if combination is None:
            try:
                combination = publish(record, size)
            except MalformedRecordError as fault:
                combination = fault
            if is_alike:
                known[record] = combination
        found.append(combination)
    return found
