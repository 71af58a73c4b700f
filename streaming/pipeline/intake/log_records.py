"""Records of the log of a sequenced vhost in the first stage (`protocol.log_records`).

Only the AMQP front writes a log, and it has checked what clients sent. So its records are taken as
they are. One that cannot be read is somebody else's: it goes to `quarantine`, and changes nothing
in any fold of the log. A publish gets its row in `messages` whether it counts or not: that is known
in the stateful stage only.
"""

from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streaming.amqp.properties import Seen, names_keys, read_properties
from streaming.amqp.publications import publication_seen, see_logged
from streaming.broker.events import Actor
from streaming.broker.message import BROKER_HEADERS, Publication
from streaming.pipeline.intake.header_columns import FOREIGN, column_of, with_header_columns
from streaming.pipeline.rows.amqp_columns import properties_array, table_bytes
from streaming.pipeline.rows.messages import HEADERS, PROPERTIES, MessageRows, Publish
from streaming.pipeline.rows.quarantine import Faults
from streaming.pipeline.shard_block import pack, record_table
from streaming.pipeline.task import TopicTask
from streaming.protocol.amqp_properties import PROPERTIES as PROPERTY_NAMES
from streaming.protocol.amqp_properties import WHOLE_PROPERTIES
from streaming.protocol.log_records import (
    CONTENT,
    LOG,
    LogHeader,
    LogKind,
    UnknownRecordError,
    check_value,
    read_header,
)
from streaming.protocol.record_headers import MalformedRecordError
from topology.values import Table

CAUSE: Final = "not_of_the_log"
"""The cause of the quarantine of a record that is none of the log."""

_NAMES: Final = (LOG, CONTENT)
_UNREAD: Final = 0
"""The kind of a record that cannot be read."""


class _Content(NamedTuple):
    """Properties as they came, read.

    Attributes:
        look: stands for what the broker looks at; equal ones share it.
    """

    look: tuple[str | None, int | None, bytes | None]
    seen: Seen
    properties: dict[str, Any]
    headers: bytes | None


class LogRecords:
    """Collects the records of one log, as one task reads them."""

    def __init__(self, vhost: str, messages: MessageRows) -> None:
        self._vhost = vhost
        self._messages = messages
        self._headers: dict[bytes, LogHeader | UnknownRecordError] = {}
        self._publishes: list[Publish] = []
        self._publish_of: dict[tuple[LogHeader, Any], int] = {}
        self._actor_of_publish: list[int] = []
        self._writers: dict[tuple[str | None, str, int], int] = {}
        self._tables: list[pa.Table] = []

    def add(
        self, batch: pa.RecordBatch, topic_name: str, topic: TopicTask
    ) -> tuple[pa.RecordBatch, Faults]:
        """Add records of the log; return them with the columns of headers, and the faulty ones.

        Raises:
            NewerLogError: a newer version wrote them.
        """
        rows = with_header_columns(batch, is_mapped=False, names=_NAMES)
        encoded = rows[column_of(LOG)].dictionary_encode()
        found = [self._header(one) for one in encoded.dictionary.to_pylist()]
        if encoded.null_count:
            found.append(self._header(None))
        codes = pc.fill_null(encoded.indices, len(encoded.dictionary)).to_numpy()
        kinds = np.array(
            [one.kind if isinstance(one, LogHeader) else _UNREAD for one in found], np.int8
        )[codes]
        faults = [
            (row, _fault(found[codes[row]])) for row in np.flatnonzero(kinds == _UNREAD).tolist()
        ]
        publishes = np.flatnonzero(kinds == LogKind.PUBLISH)
        if len(publishes):
            faults += self._add_publishes(rows, publishes, found, codes, topic_name, topic)
        others = np.flatnonzero((kinds != LogKind.PUBLISH) & (kinds != _UNREAD))
        if len(others):
            faults += self._add_others(rows, others.tolist(), found, codes, topic)
        faults.sort(key=lambda one: one[0])
        return rows, faults

    def blob(self, now_ms: int) -> bytes | None:
        """The records for the vhost's shard; None if there are none."""
        if not self._tables:
            return None
        writers = list(self._writers)
        return pack(
            pa.concat_tables(self._tables),
            [one.publication for one in self._publishes],
            [Actor(user, channel) for user, channel, _epoch in writers],
            now_ms,
            [epoch for _user, _channel, epoch in writers],
        )

    def _header(self, data: bytes | None) -> LogHeader | UnknownRecordError:
        known = None if data is None else self._headers.get(data)
        if known is None:
            try:
                known = read_header(data)
            except UnknownRecordError as error:
                known = error
            if data is not None:
                self._headers[data] = known
        return known

    def _writer(self, header: LogHeader) -> int:
        key = (header.user, header.channel, header.epoch)
        return self._writers.setdefault(key, len(self._writers))

    def _columns(self, rows: pa.RecordBatch, topic: TopicTask) -> dict[str, Any]:
        columns = {name: rows[name].to_numpy() for name in ("partition", "offset", "at_ms")}
        columns["topic_number"] = np.full(rows.num_rows, topic.number, np.int32)
        return columns

    # -- publishes

    def _add_publishes(
        self,
        rows: pa.RecordBatch,
        chosen: Any,
        headers: list[Any],
        codes: Any,
        topic_name: str,
        topic: TopicTask,
    ) -> Faults:
        rows, codes = rows.take(pa.array(chosen)), codes[chosen]
        encoded = rows[column_of(CONTENT)].dictionary_encode()
        contents = [_content(one) for one in [*encoded.dictionary.to_pylist(), None]]
        content_codes = pc.fill_null(encoded.indices, len(encoded.dictionary)).to_numpy()
        is_bad = np.array([isinstance(one, UnknownRecordError) for one in contents])[content_codes]
        has_no_body = pc.is_null(rows["value"]).to_numpy(zero_copy_only=False)
        faults = []
        if is_bad.any() or has_no_body.any():
            no_body = UnknownRecordError("a publish has no value")
            bad = np.flatnonzero(is_bad | has_no_body)
            faults = [
                (int(chosen[row]), _fault(contents[content_codes[row]] if is_bad[row] else no_body))
                for row in bad.tolist()
            ]
            kept = ~(is_bad | has_no_body)
            rows = rows.filter(pa.array(kept))
            codes, content_codes = codes[kept], content_codes[kept]
        if not rows.num_rows:
            return faults
        used, content_codes = np.unique(content_codes, return_inverse=True)
        read = [contents[code] for code in used.tolist()]
        rows = _with_attributes(rows, read, content_codes)
        numbers = self._numbers(headers, codes, read, content_codes)
        sizes = pc.binary_length(rows["value"]).to_numpy()
        distinct, indices = np.unique(numbers, return_inverse=True)
        alike = [self._publishes[number] for number in distinct.tolist()]
        columns = self._columns(rows, topic)
        columns["body_file"], columns["body_row"] = self._messages.add(
            rows,
            topic_name,
            topic,
            alike,
            indices.astype(np.int32),
            np.zeros(rows.num_rows, np.int32),
            sizes,
        )
        columns["size"] = sizes
        columns["publication"] = numbers
        columns["flags"] = np.array([one.flags for one in alike], np.int8)[indices]
        columns["actor"] = np.array(self._actor_of_publish, np.int32)[numbers]
        self._tables.append(record_table(columns))
        return faults

    def _numbers(
        self, headers: list[Any], codes: Any, read: list[_Content], content_codes: Any
    ) -> Any:
        """Return the number of what each publish asks for; equal ones have the same."""
        looks: dict[Any, int] = {}
        look_of = np.array([looks.setdefault(one.look, len(looks)) for one in read])
        seen_of = {look_of[index]: one.seen for index, one in enumerate(read)}
        by_number = list(looks)
        pairs, indices = np.unique(
            codes.astype(np.int64) * len(looks) + look_of[content_codes], return_inverse=True
        )
        numbers = []
        for pair in pairs.tolist():
            code, look = divmod(pair, len(looks))
            key = headers[code], by_number[look]
            number = self._publish_of.get(key)
            if number is None:
                number = self._publish_of[key] = len(self._publishes)
                self._add_publish(headers[code], seen_of[look])
            numbers.append(number)
        return np.array(numbers, np.int32)[indices]

    def _add_publish(self, header: LogHeader, seen: Seen) -> None:
        publication: Publication = publication_seen(
            header.exchange, header.routing_key, seen, header.user_id, header.routed
        )
        self._publishes.append(
            Publish(self._vhost, publication, header.flags, header.channel, header.user)
        )
        self._actor_of_publish.append(self._writer(header))

    # -- everything else

    def _add_others(
        self,
        rows: pa.RecordBatch,
        chosen: list[int],
        headers: list[Any],
        codes: Any,
        topic: TopicTask,
    ) -> Faults:
        faults: Faults = []
        kept, values, kinds, actors = [], [], [], []
        for row, value in zip(
            chosen, rows["value"].take(pa.array(chosen)).to_pylist(), strict=True
        ):
            header = headers[codes[row]]
            try:
                check_value(header.kind, value or b"")
            except UnknownRecordError as error:
                faults.append((row, _fault(error)))
                continue
            kept.append(row)
            values.append(value or b"")
            kinds.append(header.kind)
            actors.append(self._writer(header))
        if kept:
            columns = self._columns(rows.take(pa.array(kept)), topic)
            columns.update(command=values, flags=np.array(kinds, np.int8), actor=actors)
            self._tables.append(record_table(columns))
        return faults


def _fault(error: Any) -> MalformedRecordError:
    return MalformedRecordError(CAUSE, str(error))


def _content(data: bytes | None) -> _Content | UnknownRecordError:
    try:
        seen = see_logged(data)
    except UnknownRecordError as error:
        return error
    named = read_properties(data or b"")
    headers: Table | None = named.pop("headers", None)
    looked_at = None
    if headers is not None and names_keys(headers):
        looked_at = table_bytes({name: headers[name] for name in BROKER_HEADERS if name in headers})
    return _Content(
        (seen.expiration, seen.priority, looked_at),
        seen,
        named,
        None if headers is None else table_bytes(headers),
    )


def _with_attributes(rows: pa.RecordBatch, read: list[_Content], codes: Any) -> pa.RecordBatch:
    """Return publishes with the columns PROPERTIES and HEADERS; they have no foreign headers."""
    indices = pa.array(codes)
    columns = {}
    for name in PROPERTY_NAMES:
        values = [one.properties.get(name) for one in read]
        if values.count(None) == len(values):
            continue
        columns[name] = (
            pa.array([_bounded(name, one) for one in values]).take(indices)
            if name in WHOLE_PROPERTIES
            else pa.array(values, pa.string()).take(indices)
        )
    headers = pa.array([one.headers for one in read], pa.binary()).take(indices)
    arrays = dict(zip(rows.schema.names, rows.columns, strict=True))
    arrays[FOREIGN] = pa.nulls(rows.num_rows, rows.schema.field("headers").type)
    arrays[PROPERTIES] = properties_array(columns, rows.num_rows)
    arrays[HEADERS] = headers.view(pa.string())
    return pa.record_batch(arrays)


def _bounded(name: str, value: int | None) -> int | None:
    return None if value is None else min(value, WHOLE_PROPERTIES[name][1])
