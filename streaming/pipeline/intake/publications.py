"""Publishes by what the broker sees of them: those that are alike share a code.

Columns are dictionary-encoded, and each distinct combination of values is read once. Properties and
headers are columns of their own (`attributes`). Records of mapped topics are handled row by row.
"""

from collections.abc import Collection, Iterable, Sequence
from itertools import repeat
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streaming.broker.message import Publication
from streaming.pipeline.intake.attributes import Attributes, attributes_of
from streaming.pipeline.intake.command_records import sequenced_vhost, unlisted_vhost
from streaming.pipeline.intake.header_columns import FOREIGN, HEADER_COLUMNS
from streaming.pipeline.rows.amqp_columns import properties_array
from streaming.pipeline.rows.bounds import HEADER_BYTES
from streaming.pipeline.rows.messages import HEADERS, PROPERTIES, Publish
from streaming.pipeline.task import TaskSettings, TopicTask
from streaming.protocol import amqp_properties
from streaming.protocol.copied_records import is_copied_version
from streaming.protocol.defaults import DEFAULT_VHOST
from streaming.protocol.record_headers import (
    CHANNEL,
    DEFAULT_CHANNEL,
    EXCHANGE,
    ROUTING_KEY,
    VHOST,
    MalformedRecordError,
    flags_of,
    publish_headers,
    text,
)
from streaming.topic_mapping import (
    ForeignHeaders,
    MappedPublish,
    MappedRecord,
    TopicMapper,
    body_document,
)
from topology.values import table_from_json

MALFORMED: Final = -1
"""The code of a record that is not a valid publish."""

COPIED: Final = -2
"""The code of a record that a front copies into the log of its vhost."""

_TO_LOG: Final = -3
"""The code of a publish for a sequenced vhost: of a mapped topic, it is copied."""

_VERSION_TO_LOG: Final = -4
"""The code of a version of a letter there: it is copied from topics of commands, too."""

MAX_KNOWN: Final = 50_000
"""Publishes that a worker remembers."""

_ABSENT: Final = -1
_FIRST_SIZE: Final = 64
_SEEN: Final = ("dlx_vhost", "dlx_exchange", "dlx_routing_key", "dlx_flags", "dlx_channel")
_MAX_COMBINED: Final = 1 << 62


_published: dict[tuple[Any, ...], Publish] = {}  # of this worker process, by what was read


def _values(column: pa.Array, rows: pa.Array) -> Iterable[Any]:
    """Return the values of some rows."""
    if column.null_count == len(column):
        return repeat(None, len(rows))
    chosen = column.take(rows)
    is_text = not pa.types.is_integer(chosen.type)
    values: Iterable[Any] = chosen.to_numpy(zero_copy_only=False) if is_text else chosen.to_pylist()
    return values


def _other_users(user_ids: pa.Array, user: str) -> pa.Array:
    """The property `user_id` where the broker has to check it: it names another user (R-USER-1)."""
    if user_ids.null_count == len(user_ids):
        return user_ids
    return pc.if_else(pc.equal(user_ids, user), pa.scalar(None, user_ids.type), user_ids)


class CodeMap:
    """A growing map from codes (0, 1, 2, ...) to numbers (0 and above), for whole columns."""

    def __init__(self) -> None:
        self._values = np.full(_FIRST_SIZE, _ABSENT, np.int32)

    def add(self, codes: Sequence[int], numbers: Sequence[int]) -> None:
        """Set the numbers of codes, which ascend."""
        if codes:
            self._grow(codes[-1])
            self._values[codes] = numbers

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


class DistinctPublishes:
    """The distinct publishes that one task has seen, but for what the broker does not look at.

    Attributes:
        distinct: publishes by code.
        flags: flags by code.
        vhosts: number of the vhost by code; `vhost_numbers` names the vhosts.
    """

    def __init__(self, settings: TaskSettings) -> None:
        self._vhosts: Collection[str] = settings.vhosts
        self._sequenced: Collection[str] = [
            name for name, keys in settings.vhosts.items() if keys[0] in settings.terms
        ]
        self._max_header_bytes = settings.max_header_bytes
        self._trusts_x_death = any(one.compat == "3.10" for one in settings.shards.values())
        self._mappers: dict[int, TopicMapper] = {}
        self._known: dict[tuple[Any, ...], int] = {}
        self.distinct: list[Publish] = []
        self.flags = CodeMap()
        self.vhosts = CodeMap()
        self.vhost_numbers: dict[str, int] = {}

    def read(self, rows: pa.RecordBatch, topic: TopicTask) -> tuple[pa.RecordBatch, Any]:
        """Return records with the columns PROPERTIES and HEADERS, and the code of each."""
        if topic.mapping is not None:
            seen, attributes = self._mapped(rows, topic)
        else:
            seen = [rows[name] for name in _SEEN]
            attributes = attributes_of(
                rows["dlx_properties"], rows["dlx_headers"], trusts_x_death=self._trusts_x_death
            )
        properties = attributes.properties
        columns = [
            *seen,
            properties.field("expiration"),
            properties.field("priority"),
            _other_users(properties.field("user_id"), topic.user),
            attributes.seen,
        ]
        codes = self._codes(columns, rows.num_rows)
        codes[codes == _TO_LOG] = MALFORMED if topic.mapping is None else COPIED
        codes[codes == _VERSION_TO_LOG] = COPIED if topic.copied else MALFORMED
        codes[attributes.malformed] = MALFORMED
        names = [*rows.schema.names, PROPERTIES, HEADERS]
        arrays = [*rows.columns, properties, attributes.headers]
        return pa.record_batch(arrays, names=names), codes

    def fault(self, row: pa.RecordBatch, topic: TopicTask) -> MalformedRecordError:
        """Return what is wrong with a record whose code is MALFORMED."""
        if topic.mapping is not None:
            [fault] = _outcomes(row, self._mapper(row, topic))
            assert isinstance(fault, MalformedRecordError)
            return fault
        try:
            publish = publish_headers([row[name][0].as_py() for name in HEADER_COLUMNS])
        except MalformedRecordError as error:
            return error
        known = publish.vhost in self._vhosts
        return sequenced_vhost(publish.vhost) if known else unlisted_vhost(publish.vhost)

    def _codes(self, columns: list[pa.Array], rows: int) -> Any:
        """Return the code of each row's combination of values, or MALFORMED."""
        combined, size = np.zeros(rows, np.int64), 1
        for column in columns:
            if column.null_count == rows:
                continue
            encoded = column.dictionary_encode()
            values = len(encoded.dictionary) + 1
            if size * values > _MAX_COMBINED:
                combined, size = np.unique(combined, return_inverse=True)[1], rows
            indices = pc.fill_null(encoded.indices, -1).to_numpy().astype(np.int64)
            combined, size = combined * values + (indices + 1), size * values
        encoded = pa.array(combined).dictionary_encode()
        inverse = encoded.indices.to_numpy()
        first = np.zeros(len(encoded.dictionary), np.int64)
        first[inverse[::-1]] = np.arange(rows - 1, -1, -1)  # the last assignment stays
        rows_of_each = pa.array(first)
        values_of_each = zip(*(_values(one, rows_of_each) for one in columns), strict=True)
        known = len(self.distinct)
        codes = np.array([self._code(each) for each in values_of_each], np.int32)
        new = self.distinct[known:]
        new_codes = range(known, known + len(new))
        self.flags.add(new_codes, [publish.flags for publish in new])
        numbers = self.vhost_numbers
        vhosts = [numbers.setdefault(publish.vhost, len(numbers)) for publish in new]
        self.vhosts.add(new_codes, vhosts)
        return codes[inverse]

    def _code(self, values: tuple[Any, ...]) -> int:
        code = self._known.get(values)
        if code is None:
            try:
                publish = _published.get(values) or self._publish(*values)
            except MalformedRecordError:
                publish = None
            if publish is None or publish.vhost not in self._vhosts:
                code = MALFORMED
            elif publish.vhost in self._sequenced:
                code = _VERSION_TO_LOG if is_copied_version(publish.publication) else _TO_LOG
            else:
                code = len(self.distinct)
                self.distinct.append(publish)
            self._known[values] = code
        return code

    def _publish(
        self,
        vhost_value: bytes | None,
        exchange: bytes | None,
        routing_key: bytes | None,
        flags: bytes | None,
        channel: bytes | None,
        expiration: str | None,
        priority: int | None,
        user_id: str | None,
        seen: bytes | None,
    ) -> Publish:
        publish = Publish(
            text(VHOST, vhost_value, DEFAULT_VHOST),
            Publication(
                text(EXCHANGE, exchange, ""),
                text(ROUTING_KEY, routing_key, ""),
                expiration,
                priority,
                None if seen is None else table_from_json(msgspec.json.decode(seen)),
                user_id,
            ),
            flags_of(flags),
            text(CHANNEL, channel, DEFAULT_CHANNEL),
        )
        if seen is None:
            if len(_published) >= MAX_KNOWN:
                _published.clear()
            values = (vhost_value, exchange, routing_key, flags, channel)
            _published[*values, expiration, priority, user_id, seen] = publish
        return publish

    # -- mapped topics

    def _mapper(self, rows: pa.RecordBatch, topic: TopicTask) -> TopicMapper:
        assert topic.mapping is not None
        mapper = self._mappers.get(topic.number)
        if mapper is None:
            mapper = self._mappers[topic.number] = TopicMapper(
                rows["topic"][0].as_py(), topic.mapping, self._vhosts, self._max_header_bytes
            )
        return mapper

    def _mapped(self, rows: pa.RecordBatch, topic: TopicTask) -> tuple[list[pa.Array], Attributes]:
        """Return the columns _SEEN and the attributes that a mapping makes."""
        mapper, count = self._mapper(rows, topic), rows.num_rows
        outcomes = _outcomes(rows, mapper)
        malformed = np.array([isinstance(one, MalformedRecordError) for one in outcomes], bool)
        made = [_NOTHING if isinstance(one, MalformedRecordError) else one for one in outcomes]
        nothing = pa.nulls(count, pa.binary())
        seen = [
            *(
                pa.array([getattr(one, name) for one in made], pa.string()).cast(pa.binary())
                for name in ("vhost", "exchange", "routing_key")
            ),
            nothing,
            nothing,
        ]
        headers = pa.array([one.headers for one in made], pa.binary())
        attributes = attributes_of(nothing, headers, trusts_x_death=self._trusts_x_death)
        members = [dict(one.properties) for one in made] if mapper.properties else []
        properties = properties_array(
            {
                name: [each.get(name) for each in members]
                for name in amqp_properties.PROPERTIES
                if name in mapper.properties
            },
            count,
        )
        malformed |= attributes.malformed
        return seen, attributes._replace(properties=properties, malformed=malformed)


_NOTHING: Final = MappedPublish(DEFAULT_VHOST, "", "", (), None)


def _outcomes(
    rows: pa.RecordBatch, mapper: TopicMapper
) -> list[MappedPublish | MalformedRecordError]:
    """Return what a mapping makes of each row, or why it makes nothing."""
    count = rows.num_rows
    nothing = [None] * count
    headers: list[ForeignHeaders] = [()] * count
    if mapper.header_names:
        headers = _header_tuples(rows[FOREIGN], mapper.header_names)
    records = map(
        MappedRecord,
        rows["key"].to_pylist() if mapper.needs_key else nothing,
        headers,
        map(body_document, rows["value"].to_pylist()) if mapper.needs_body else nothing,
        *(
            rows[name].to_pylist() if mapper.needs_place else nothing
            for name in ("partition", "offset", "at_ms")
        ),
    )
    publish, found = mapper.publish, []
    known: dict[Any, MappedPublish | MalformedRecordError] = {}
    is_alike = not (mapper.needs_body or mapper.needs_place)
    for record, size in zip(records, rows[HEADER_BYTES].to_pylist(), strict=True):
        outcome = known.get((record, size)) if is_alike else None
        if outcome is None:
            try:
                outcome = publish(record, size)
            except MalformedRecordError as fault:
                outcome = fault
            if is_alike:
                known[record, size] = outcome
        found.append(outcome)
    return found


def _header_tuples(lists: pa.Array, names: Collection[str]) -> list[ForeignHeaders]:
    """Return the headers of these names of each row."""
    keys, values = lists.flatten().flatten()
    encoded = keys.dictionary_encode()
    wanted = np.array([name in names for name in encoded.dictionary.to_pylist()], bool)
    chosen = wanted[encoded.indices.to_numpy()] if len(keys) else np.zeros(0, bool)
    mask = pa.array(chosen)
    pairs = list(zip(keys.filter(mask).to_pylist(), values.filter(mask).to_pylist(), strict=True))
    lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy()
    row_of = np.repeat(np.arange(len(lists)), lengths)[chosen]
    ends = np.cumsum(np.bincount(row_of, minlength=len(lists))).tolist()
    return [tuple(pairs[start:end]) for start, end in zip([0, *ends[:-1]], ends, strict=True)]
