"""The tables: their columns and keys, and the columns that Delta keeps statistics of.

The rest of this package is written against these definitions: to add a column, add it here. It must
be nullable, since existing rows have no value for it.

Names are snake_case. Instants are UTC microseconds. Text columns that hold JSON use the typed form
of the wire format (`{"$bytes": ...}`, `{"$timestamp": ...}`, `{"$decimal": ...}`).
"""

from dataclasses import dataclass
from typing import Final

import pyarrow as pa

COMMENT: Final = b"comment"
"""Metadata key under which Arrow and Delta keep the description of a column."""

TEXT: Final = pa.string()
LONG: Final = pa.int64()
INT: Final = pa.int32()
BINARY: Final = pa.binary()
BOOL: Final = pa.bool_()
INSTANT: Final = pa.timestamp("us", tz="UTC")
TEXTS: Final = pa.list_(pa.field("element", TEXT))

MESSAGE_ID: Final = pa.struct(
    [pa.field("topic_number", INT), pa.field("partition", INT), pa.field("offset", LONG)]
)
ORIGIN: Final = pa.struct(
    [
        pa.field("topic", TEXT),
        pa.field("topic_number", INT),
        pa.field("partition", INT),
        pa.field("offset", LONG),
        pa.field("timestamp", INSTANT),
    ]
)
PROPERTIES: Final = pa.struct(
    [
        pa.field("content_type", TEXT),
        pa.field("content_encoding", TEXT),
        pa.field("delivery_mode", INT),
        pa.field("priority", INT),
        pa.field("correlation_id", TEXT),
        pa.field("reply_to", TEXT),
        pa.field("expiration", TEXT),
        pa.field("message_id", TEXT),
        pa.field("timestamp", LONG),  # epoch seconds, as AMQP has it: a client may send any number
        pa.field("type", TEXT),
        pa.field("user_id", TEXT),
        pa.field("app_id", TEXT),
        pa.field("cluster_id", TEXT),
    ]
)
KAFKA_HEADERS: Final = pa.list_(
    pa.field("element", pa.struct([pa.field("key", TEXT), pa.field("value", BINARY)]))
)
X_DEATH: Final = pa.list_(
    pa.field(
        "element",
        pa.struct(
            [
                pa.field("count", LONG),
                pa.field("reason", TEXT),
                pa.field("queue", TEXT),
                pa.field("time", INSTANT),
                pa.field("exchange", TEXT),
                pa.field("routing_keys", TEXTS),
                pa.field("original_expiration", TEXT),
            ]
        ),
    )
)
DEATH_NOTE: Final = pa.struct(
    [pa.field("reason", TEXT), pa.field("queue", TEXT), pa.field("exchange", TEXT)]
)


def _column(name: str, kind: pa.DataType, comment: str, *, required: bool = False) -> pa.Field:
    return pa.field(name, kind, nullable=not required, metadata={COMMENT: comment.encode()})


_BATCH: Final = [
    _column("query_id", TEXT, "the checkpoint's Spark query id", required=True),
    _column("batch_id", LONG, "the micro-batch that wrote the row", required=True),
]
_RECORD: Final = [
    _column("topic_number", INT, "number of the Kafka topic, see origin.topic", required=True),
    _column("partition", INT, "Kafka partition", required=True),
    _column("offset", LONG, "Kafka offset", required=True),
]
_MESSAGE_ID: Final = _column("message_id", MESSAGE_ID, "the message: its key in `messages`")
_ORIGIN: Final = _column("origin", ORIGIN, "the Kafka record it came from")
_KAFKA_HEADERS: Final = _column(
    "kafka_headers",
    KAFKA_HEADERS,
    "other headers of the Kafka record, in order, repeated names included",
)
_COPY: Final = [
    _column(
        "copy_id", LONG, "seq of the event that enqueued the copy: its id within vhost and lane"
    ),
    _column("parent_copy_id", LONG, "the copy whose death made this one; null for a publish"),
]


def _shard(*, required: bool = True) -> list[pa.Field]:
    return [
        _column("vhost", TEXT, "virtual host", required=required),
        _column("lane", INT, "lane of the virtual host", required=required),
    ]


def _position(*, required: bool) -> list[pa.Field]:
    return [
        *_shard(required=required),
        _column("seq", LONG, "place in the total order of (vhost, lane)", required=required),
        _column("at", INSTANT, "when it took effect, by the shard's clock", required=required),
    ]


MESSAGES: Final = pa.schema(
    [
        *_BATCH,
        *_shard(),
        *_RECORD,
        _ORIGIN,
        _column("record_key", BINARY, "key of the Kafka record"),
        _column("user", TEXT, "RabbitMQ user of the input"),
        _column("channel", TEXT, "channel of the publisher"),
        _column("exchange", TEXT, "exchange it was published to"),
        _column("routing_key", TEXT, "routing key it was published with"),
        _column("mandatory", BOOL, "return it if no queue takes it"),
        _column("immediate", BOOL, "return it if no consumer can take it at once"),
        _column("confirm", BOOL, "whether the publisher asked for a confirm"),
        _column("properties", PROPERTIES, "AMQP basic properties"),
        _column(
            "headers", TEXT, "AMQP headers as typed JSON; null: the message had no headers table"
        ),
        _KAFKA_HEADERS,
        _column("body_bytes", LONG, "length of the body"),
        _column("body", BINARY, "the body, as it arrived"),
    ]
)

EVENTS: Final = pa.schema(
    [
        *_BATCH,
        *_position(required=False),  # the row of kind batch belongs to no shard
        _column("kind", TEXT, "what happened", required=True),
        _MESSAGE_ID,
        *_COPY,
        _column("queue", TEXT, "the queue it happened in"),
        _column("reason", TEXT, "why, if the kind alone does not say"),
        _column("number", LONG, "a count or position, by kind"),
        _column("position", LONG, "sort key of the copy in its queue"),
        _column("expires_at", INSTANT, "when the copy expires; null: never"),
        _column("body_bytes", LONG, "length of the body"),
        _column("exchange", TEXT, "exchange last published or dead-lettered to"),
        _column("routing_key", TEXT, "first routing key"),
        _column("user", TEXT, "RabbitMQ user who caused it; null: the operator, or a timer"),
        _column("channel", TEXT, "the channel that caused it"),
        _column("detail", TEXT, "the rest, as JSON"),
        _column(
            "envelope",
            BINARY,
            "of an enqueued copy that a death or redrive made: keys, expiration and deaths, as the "
            "broker stores them; `dlx checkpoint rebuild` needs it",
        ),
    ]
)

DEAD_LETTERS: Final = pa.schema(
    [
        *_BATCH,
        *_position(required=True),
        _MESSAGE_ID,
        *_COPY,
        _column("queue", TEXT, "queue in which it died"),
        _column(
            "reason",
            TEXT,
            "rejected, expired, maxlen or delivery_limit; orphaned: its queue was deleted and had "
            "an alternate exchange of its own",
        ),
        _column("cause", TEXT, "why, in the words of the consumer that gave it up; null: none"),
        _column(
            "count", LONG, "deaths of the message for this queue and reason, this one included"
        ),
        _column("exchange", TEXT, "exchange last published or dead-lettered to before this death"),
        _column("routing_key", TEXT, "first routing key before this death"),
        _column("routing_keys", TEXTS, "routing keys before this death, without BCC"),
        _column(
            "dead_letter_exchange", TEXT, "exchange it was sent to; null: the queue names none"
        ),
        _column("dead_letter_routing_key", TEXT, "first routing key it was sent with"),
        _column("targets", TEXTS, "queues that took it"),
        _column("outcome", TEXT, "why targets are missing; null: every target took it"),
        _column("x_death", X_DEATH, "the death records after this death, most recent first"),
        _column("first_death", DEATH_NOTE, "x-first-death-*"),
        _column("last_death", DEATH_NOTE, "x-last-death-*"),
        _column("properties", PROPERTIES, "AMQP basic properties"),
        _column("headers", TEXT, "AMQP headers as typed JSON, without the death records"),
        _KAFKA_HEADERS,
        _ORIGIN,
        _column("body_bytes", LONG, "length of the body"),
        _column("body", BINARY, "the body, as it arrived"),
    ]
)

QUEUE_CONTENTS: Final = pa.schema(
    [
        *_BATCH,
        *_shard(),
        _column("copy_id", LONG, "id of the copy within its vhost and lane", required=True),
        _column("parent_copy_id", LONG, "the copy whose death made this one"),
        _MESSAGE_ID,
        _column("queue", TEXT, "the queue it is in", required=True),
        _column("state", TEXT, "ready or unacked", required=True),
        _column("position", LONG, "sort key in its queue, never renumbered"),
        _column("enqueued_at", INSTANT, "when it entered the queue"),
        _column("expires_at", INSTANT, "when it expires; null: never"),
        _column("exchange", TEXT, "exchange last published or dead-lettered to"),
        _column("routing_key", TEXT, "first routing key"),
        _column("returns", LONG, "how often it was requeued"),
        _column("body_bytes", LONG, "length of the body"),
        _column("user", TEXT, "user who holds it unacked"),
        _column("channel", TEXT, "channel that holds it unacked"),
    ]
)

SNAPSHOTS: Final = pa.schema(
    [
        *_BATCH,
        _column(
            "kind", TEXT, "snapshot, total, topology, channel, retention or search", required=True
        ),
        _column(
            "at",
            INSTANT,
            "the latest event in it; of a retention run, when it ran; of the paths of a search, "
            "from when on they are indexed",
        ),
        _column("vhost", TEXT, "virtual host"),
        _column("lane", INT, "lane of the virtual host"),
        _column("queue", TEXT, "the queue of a total"),
        _column(
            "fate",
            TEXT,
            "what a total counts, as `dlx balance` names it; for the metrics: events/KIND, "
            "deaths/REASON/OUTCOME",
        ),
        _column("number", LONG, "the total so far"),
        _column("detail", TEXT, "the rest, as JSON"),
    ]
)

SNAPSHOT_CONTENTS: Final = pa.schema(
    [
        *QUEUE_CONTENTS,
        _column("snapshot", LONG, "the last batch of the snapshot", required=True),
        _column("reason", TEXT, "why a held copy died"),
        _column("cause", TEXT, "of a held copy: as in `dead_letters`"),
        _column("held_at", INSTANT, "when a held copy died"),
        _column("envelope", BINARY, "as in `events`; null: the copy came from a publish"),
        _column(
            "delivered_seq",
            LONG,
            "of an unacked copy: seq of its delivery; of a held one: of the event that says so",
        ),
        _column("delivered_at", INSTANT, "of an unacked copy: when it was delivered"),
        _column("accepted", TEXTS, "of a held copy: the targets that have its dead letter"),
    ]
)

QUARANTINE: Final = pa.schema(
    [
        *_BATCH,
        *_RECORD,
        _column(
            "end_offset",
            LONG,
            "end (exclusive) of a range lost in Kafka; null: one record, or the rest of a topic",
        ),
        _ORIGIN,
        _column("cause", TEXT, "what is wrong with the record, as a fixed word", required=True),
        _column("detail", TEXT, "explanation of the cause"),
        _column("record_key", BINARY, "key of the Kafka record"),
        _column("record_value", BINARY, "value of the Kafka record"),
        _column("kafka_headers", KAFKA_HEADERS, "all headers of the record, repeats included"),
    ]
)


SEARCH_KEYS: Final = pa.schema(
    [
        *_BATCH,
        _column("vhost", TEXT, "virtual host", required=True),
        *_RECORD,
        _column("path", TEXT, "the path of `tables.search` where the value is", required=True),
        _column("key", LONG, "64 bits of the value's hash", required=True),
    ]
)


@dataclass(frozen=True)
class TableSpec:
    """One table.

    Attributes:
        row: describes a row, for people.
        stats_columns: the top-level columns whose smallest and largest value Delta keeps for each
            file. Nested columns have none: rewriting a file would lose their statistics.
        order: the columns that order the files when small ones are compacted.
        append_only: rows are never changed or removed, not even by retention or an erasure.
        sort: the column that orders the rows of each file, so that row groups tell a query apart;
            None: rows keep the order in which they were written.
    """

    name: str
    row: str
    key: tuple[str, ...]
    schema: pa.Schema
    stats_columns: tuple[str, ...]
    order: tuple[str, ...]
    append_only: bool = True
    sort: str | None = None


_RECORD_KEY: Final = ("topic_number", "partition", "offset")
_SHARD_KEY: Final = ("vhost", "lane", "seq")

TABLES: Final = {
    spec.name: spec
    for spec in (
        TableSpec(
            "messages",
            "a message as it arrived: body, properties, headers, Kafka origin",
            _RECORD_KEY,
            MESSAGES,
            ("batch_id", "vhost", "lane", *_RECORD_KEY),
            _RECORD_KEY,
            append_only=False,
        ),
        TableSpec(
            "quarantine",
            "a Kafka record that could not be understood: bytes, headers, cause",
            _RECORD_KEY,
            QUARANTINE,
            ("batch_id", *_RECORD_KEY),
            _RECORD_KEY,
        ),
        TableSpec(
            "dead_letters",
            "one death: body, properties, `x_death`, `targets`, `outcome`, origin",
            _SHARD_KEY,
            DEAD_LETTERS,
            ("batch_id", *_SHARD_KEY, "at"),
            ("batch_id", "lane", "seq"),
            append_only=False,
        ),
        TableSpec(
            "events",
            "something that happened to a copy, a queue, a channel or the topology; one row of "
            "kind `batch` per batch",
            _SHARD_KEY,
            EVENTS,
            ("batch_id", *_SHARD_KEY, "at", "kind"),
            ("batch_id", "lane", "seq"),
            append_only=False,
        ),
        TableSpec(
            "queue_contents",
            "a copy now in a queue, ready or unacked; at most a few seconds behind",
            ("vhost", "lane", "copy_id"),
            QUEUE_CONTENTS,
            ("vhost", "lane", "copy_id", "queue"),
            ("lane", "copy_id"),
            append_only=False,
        ),
        TableSpec(
            "snapshots",
            "a snapshot: totals of every fate by vhost, lane and queue, and the "
            "topology; or a retention run, or the paths of `tables.search`",
            ("query_id", "batch_id"),
            SNAPSHOTS,
            ("batch_id", "kind"),
            ("batch_id",),
            append_only=False,
        ),
        TableSpec(
            "snapshot_contents",
            "a copy that was in a queue, or held, at a snapshot",
            ("snapshot", "vhost", "lane", "copy_id"),
            SNAPSHOT_CONTENTS,
            ("snapshot", "lane", "copy_id"),
            ("snapshot", "lane", "copy_id"),
            append_only=False,
        ),
        TableSpec(
            "search_keys",
            "a value of a message, as a hash, at a path of `tables.search`; a few seconds behind",
            (*_RECORD_KEY, "path"),
            SEARCH_KEYS,
            ("batch_id", "key"),
            ("batch_id",),
            append_only=False,
            sort="key",
        ),
    )
}
"""Table specs by name. The first four are the ledger, in the order of a batch's commits."""

LEDGER: Final = ("messages", "quarantine", "dead_letters", "events")
"""The order of a batch's commits. The batch has happened once `events` is committed."""
