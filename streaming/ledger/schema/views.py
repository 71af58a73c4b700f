"""The views that come with the tables, in Spark's SQL and in DuckDB's.

Every column is qualified: bare `at` and `offset` are reserved words of newer DuckDB versions.
"""

from collections.abc import Collection, Iterator
from typing import Final, Literal

Dialect = Literal["duckdb", "spark"]

QUEUED_MESSAGES: Final = "queued_messages"
"""What is in the queues, with each message as it arrived.

A column of `queue_contents` keeps its name and meaning: `exchange` and `routing_key` are those of
the last publish or death.
"""

FOREIGN_DEAD_LETTERS: Final = "foreign_dead_letters"
"""The messages that came from a dead-letter topic of another system, with what its headers say."""

VIEWS: Final = {
    QUEUED_MESSAGES: frozenset({"queue_contents", "messages"}),
    FOREIGN_DEAD_LETTERS: frozenset({"messages"}),
}
"""The tables that each view needs."""

_QUERY: Final = """\
SELECT contents.*, messages.exchange AS published_exchange,
       messages.routing_key AS published_routing_key, messages.user AS published_by,
       messages.properties, messages.headers, messages.kafka_headers, messages.origin, messages.body
FROM queue_contents AS contents LEFT JOIN messages
ON messages.topic_number = contents.message_id.topic_number
AND messages.partition = contents.message_id.partition
AND messages.offset = contents.message_id.offset
"""


_SYSTEMS: Final = {
    "__connect.errors.": "kafka_connect",
    "kafka_dlt-": "spring_kafka",
    "__dlq.errors.": "share_group",
    "__streams.errors.": "kafka_streams",
}
"""Prefix of the Kafka headers of a system's dead letters -> the system."""

_TEXTS: Final = {
    "original_topic": (
        "__connect.errors.topic",
        "kafka_dlt-original-topic",
        "__dlq.errors.topic",
        "__streams.errors.topic",
    ),
    "consumer_group": ("kafka_dlt-original-consumer-group", "__dlq.errors.group"),
    "connector": ("__connect.errors.connector.name",),
    "stage": ("__connect.errors.stage",),
    "exception_class": (
        "__connect.errors.exception.class.name",
        "kafka_dlt-exception-fqcn",
        "__streams.errors.exception",
    ),
    "exception_message": (
        "__connect.errors.exception.message",
        "kafka_dlt-exception-message",
        "__dlq.errors.message",
        "__streams.errors.message",
    ),
    "exception_stacktrace": (
        "__connect.errors.exception.stacktrace",
        "kafka_dlt-exception-stacktrace",
        "__streams.errors.stacktrace",
    ),
}
"""Column of the view -> the headers that hold it as text."""

_NUMBERS: Final = {
    "original_partition": (
        ("__connect.errors.partition", "__dlq.errors.partition", "__streams.errors.partition"),
        ("kafka_dlt-original-partition",),
    ),
    "original_offset": (
        ("__connect.errors.offset", "__dlq.errors.offset", "__streams.errors.offset"),
        ("kafka_dlt-original-offset",),
    ),
    "original_timestamp_ms": ((), ("kafka_dlt-original-timestamp",)),
    "task_id": (("__connect.errors.task.id",), ()),
    "delivery_count": (("__dlq.errors.delivery.count",), ()),
}
"""Column -> the headers that hold it as decimal text, and those that hold it big-endian."""


def _header(dialect: Dialect, names: Collection[str]) -> str:
    """The value of the last Kafka header with one of these names; null without one."""
    known = ", ".join(f"'{name}'" for name in names)
    if dialect == "spark":
        return f"try_element_at(filter(messages.kafka_headers, h -> h.key IN ({known})), -1).value"
    return f"list_filter(messages.kafka_headers, lambda h: h.key IN ({known}))[-1].value"


def _text(dialect: Dialect, names: Collection[str]) -> str:
    value = _header(dialect, names)
    return f"CAST({value} AS STRING)" if dialect == "spark" else f"try(decode({value}))"


def _number(dialect: Dialect, decimal: Collection[str], binary: Collection[str]) -> str:
    parts = []
    if decimal:
        parts.append(f"try_cast({_text(dialect, decimal)} AS BIGINT)")
    if binary:
        digits = f"hex({_header(dialect, binary)})"
        number = f"conv({digits}, 16, 10)" if dialect == "spark" else f"concat('0x', {digits})"
        is_there = f"{digits} <> ''"
        parts.append(f"CASE WHEN {is_there} THEN try_cast({number} AS BIGINT) END")
    return f"coalesce({', '.join([*parts, 'NULL'])})"


def _foreign_dead_letters(dialect: Dialect) -> str:
    arrow = "h ->" if dialect == "spark" else "lambda h:"
    named = " OR ".join(
        f"h.key LIKE '{prefix.replace('_', '|_')}%' ESCAPE '|'" for prefix in _SYSTEMS
    )
    found = "filter" if dialect == "spark" else "list_filter"
    length = "size" if dialect == "spark" else "len"
    first = f"{found}(messages.kafka_headers, {arrow} {named})"
    key = f"try_element_at({first}, 1).key" if dialect == "spark" else f"{first}[1].key"
    systems = " ".join(
        f"WHEN {key} LIKE '{prefix.replace('_', '|_')}%' ESCAPE '|' THEN '{system}'"
        for prefix, system in _SYSTEMS.items()
    )
    columns = [f"CASE {systems} END AS system"]
    columns += [f"{_text(dialect, names)} AS {column}" for column, names in _TEXTS.items()]
    columns += [f"{_number(dialect, *headers)} AS {column}" for column, headers in _NUMBERS.items()]
    return f"SELECT {', '.join(columns)}, messages.*\nFROM messages WHERE {length}({first}) > 0\n"


def create_views(tables: Collection[str], dialect: Dialect = "duckdb") -> Iterator[str]:
    """The statements that create every view whose tables are among these, in the order of VIEWS."""
    queries = {QUEUED_MESSAGES: _QUERY, FOREIGN_DEAD_LETTERS: _foreign_dead_letters(dialect)}
    for name, needed in VIEWS.items():
        if needed <= set(tables):
            yield f"CREATE TEMPORARY VIEW {name} AS {queries[name]}"
