"""What becomes of the records of inputs in the log of one vhost.

    unmapped input --command for this vhost--------------> Ask
    unmapped input --version of an edited letter for it--> Publish
    mapped input ----record for this vhost---------------> Publish
    everything else -------------------------------------> None

What becomes nothing is for others, or the job quarantines it.
"""

import logging
from collections.abc import Collection, Iterable
from typing import Final, NamedTuple

import msgspec

from streaming.amqp.entries import Ask, Publish
from streaming.amqp.outgoing import Confirms
from streaming.amqp.properties import see, write_properties
from streaming.amqp.publications import Publications, publication_seen, stored_seen
from streaming.broker.events import COPIED_CHANNEL, Actor
from streaming.broker.message import BROKER_HEADERS
from streaming.config.inputs import InputSettings
from streaming.kafka_headers import are_readable
from streaming.protocol.command_codec import encode_command
from streaming.protocol.copied_records import (
    Source,
    channel_of,
    copied_command,
    is_copied_version,
    not_copied,
)
from streaming.protocol.defaults import DEFAULT_VHOST
from streaming.protocol.record_headers import (
    DEFAULT_CHANNEL,
    INBOUND,
    MAX_TIME_MS,
    OP,
    OURS,
    VHOST,
    MalformedRecordError,
    command_record,
    kafka_headers_table,
    publish_headers,
)
from streaming.topic_mapping import (
    ForeignHeaders,
    MappedPublish,
    MappedRecord,
    TopicMapper,
    body_document,
)
from topology.declarations import MAX_NAME_BYTES
from topology.values import Table, table_from_json

Named = dict[str, bytes | None]

logger = logging.getLogger(__name__)

_CHANNEL: Final = COPIED_CHANNEL + DEFAULT_CHANNEL
_NO_CONFIRMS: Final = Confirms()


class InputRecord(NamedTuple):
    """A record of an input, as Kafka has it."""

    source: Source
    at_ms: int
    key: bytes | None
    value: bytes | None
    headers: ForeignHeaders


class InputRecords:
    """Reads the records of inputs for one vhost.

    Args:
        vhosts: all of the job.
        max_body_bytes, max_header_bytes: the job quarantines mapped records that have more.
        max_record_bytes: a record of the log has no room for what takes more.
    """

    def __init__(
        self,
        vhost: str,
        inputs: Iterable[InputSettings],
        vhosts: Collection[str],
        max_body_bytes: int,
        max_header_bytes: int,
        max_record_bytes: int,
    ) -> None:
        self._vhost = vhost
        self._name = vhost.encode()
        self._max_body_bytes = max_body_bytes
        self._max_header_bytes = max_header_bytes
        self._max_record_bytes = max_record_bytes
        self._publications = Publications()
        self._users = {each.topic: each.user for each in inputs}
        self._mappers = {
            each.topic: TopicMapper(each.topic, each.mapping, vhosts, max_header_bytes)
            for each in inputs
            if each.mapping is not None
        }

    def entry(self, record: InputRecord) -> Ask | Publish | None:
        """What becomes of a record in the log; None: nothing."""
        topic = record.source.topic
        mapper = self._mappers.get(topic)
        user = self._users[topic]
        if not are_readable(record.headers) or record.at_ms > MAX_TIME_MS:
            return None
        try:
            if mapper is None:
                return self._unmapped(record, user)
            return self._publish(record, user, mapper)
        except MalformedRecordError:
            return None

    def _unmapped(self, record: InputRecord, user: str) -> Ask | Publish | None:
        named = dict(record.headers)
        if (named.get(VHOST) or DEFAULT_VHOST.encode()) != self._name:
            return None
        if OP in named:
            return self._command(record, named, user)
        return self._version(record, named, user)

    def _version(self, record: InputRecord, named: Named, user: str) -> Publish | None:
        """A new version of an edited letter."""
        publish = publish_headers([named.get(name) for name in INBOUND])
        body = record.value
        if body is None or self._is_too_large(record) or not is_copied_version(publish.publication):
            return None
        content = write_properties({**publish.properties, "headers": publish.headers})
        if not self._has_room(record, "version of a letter", len(body) + len(content)):
            return None
        key = publish.publication.routing_key
        return published_at(Actor(user, _CHANNEL), key, content, body, record.source)

    def _command(self, record: InputRecord, named: Named, user: str) -> Ask | None:
        command = command_record(named[OP] or b"", named.get(VHOST), record.value).command
        if not_copied(self._vhost, command) is not None:
            return None
        copied = copied_command(command)
        if not self._has_room(record, "command", len(encode_command(copied))):
            return None
        return Ask(Actor(user, channel_of(copied)), copied, record.source)

    def _publish(self, record: InputRecord, user: str, mapper: TopicMapper) -> Publish | None:
        body = record.value
        if body is None or self._is_too_large(record):
            return None
        mapped = mapper.publish(
            MappedRecord(
                record.key,
                record.headers,
                body_document(body) if mapper.needs_body else None,
                record.source.partition,
                record.source.offset,
                record.at_ms,
            ),
            _header_bytes(record),
        )
        if mapped.vhost != self._vhost:
            return None
        content = _content(mapped, record.headers)
        if not self._has_room(record, "record", len(body) + len(content)):
            return None
        seen = see(content)
        return Publish(
            Actor(user, _CHANNEL),
            self._publications.of(
                mapped.exchange, mapped.routing_key, seen, _other(seen.user_id, user)
            ),
            stored_seen(content, body, seen),
            0,
            0,
            _NO_CONFIRMS,
            record.source,
        )

    def _has_room(self, record: InputRecord, what: str, size: int) -> bool:
        """Whether a record of the log has room for what a record becomes; if not, say so.

        A number of one digit takes two bytes of JSON, and nine in AMQP's tables.
        """
        if size <= self._max_record_bytes:
            return True
        logger.error(
            "vhost %s: the %s at offset %s of %s, partition %s, is left out: it takes %s bytes, "
            "and a record of the log has room for %s (kafka.max_message_bytes)",
            *(self._vhost, what, record.source.offset, record.source.topic),
            *(record.source.partition, size, self._max_record_bytes),
        )
        return False

    def _is_too_large(self, record: InputRecord) -> bool:
        return (
            len(record.value or b"") > self._max_body_bytes
            or _header_bytes(record) > self._max_header_bytes
        )


def published_at(
    actor: Actor, routing_key: str, content: bytes, body: bytes, source: Source | None = None
) -> Publish:
    """A message for the default exchange that is a version of a letter.

    Args:
        content: its properties, as AMQP writes them.
    """
    seen = see(content)
    publication = publication_seen("", routing_key, seen, _other(seen.user_id, actor.user))
    stored = stored_seen(content, body, seen)
    return Publish(actor, publication, stored, 0, 0, _NO_CONFIRMS, source)


def _header_bytes(record: InputRecord) -> int:
    return sum(len(name.encode()) + len(value or b"") for name, value in record.headers)


def _other(user_id: str | None, user: str | None) -> str | None:
    """The user of a message that the broker has to check: another than who publishes."""
    return None if user_id == user else user_id


def _content(mapped: MappedPublish, kafka_headers: ForeignHeaders) -> bytes:
    """The properties as AMQP writes them; headers of the record become headers of the message."""
    table: Table = kafka_headers_table(
        (name, value) for name, value in kafka_headers if _is_kept(name)
    )
    if mapped.headers is not None:
        table |= table_from_json(msgspec.json.decode(mapped.headers))
    return write_properties({**dict(mapped.properties), "headers": table or None})


def _is_kept(name: str) -> bool:
    """Whether a header of a record becomes one of a message: none that brokers look at."""
    return (
        not name.startswith(OURS)
        and name not in BROKER_HEADERS
        and len(name.encode()) <= MAX_NAME_BYTES
    )
