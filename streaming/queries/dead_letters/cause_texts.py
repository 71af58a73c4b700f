"""Why a consumer gave a message up, as text that is equal for equal mistakes.

    "timeout after 312 ms calling 10.0.4.7:8080"  -->  "timeout after # ms calling #"

The text is the reason that a consumer gave with its reject or nack. Without one it comes from a
header that consumers or other systems set; or from an SQL expression. Then numbers, ids and
addresses are stripped, since they make each text unique.
"""

from typing import Final

import msgspec

from streaming.queries.duckdb_tables import text

AMQP_HEADERS: Final = ("x-exception", "x-exception-message", "x-error", "exception", "error")
"""The headers that are tried, in this order, if no reason was given and no header is chosen."""

KAFKA_HEADERS: Final = (
    "__connect.errors.exception.message",
    "kafka_dlt-exception-message",
    "__dlq.errors.message",
    "__streams.errors.message",
)
"""The same for Kafka headers, which follow."""

MAX_CHARACTERS: Final = 200
"""A cause is cut here."""

_PATTERNS: Final = (
    r"[0-9A-Fa-f]{8}-(?:[0-9A-Fa-f]{4}-){3}[0-9A-Fa-f]{12}",  # a UUID
    r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+",  # a mail address
    r"\b0[xX][0-9A-Fa-f]+\b",  # a number in hex, such as an address in memory
    r"\b[0-9A-Fa-f]*[0-9][0-9A-Fa-f]{15,}\b",  # a hash that begins with a digit early
    r"\b[0-9A-Fa-f]{15,}[0-9][0-9A-Fa-f]*\b",  # and one whose digits are late
    r"[0-9]+(?:[.,:][0-9]+)*",  # a number, a time, an address with its port
)
"""What is stripped. Together they are one pattern, which RE2 matches in linear time."""


class CauseSource(msgspec.Struct, frozen=True):
    """Where the text of a cause is: in a header, or in what an SQL expression gives.

    Attributes:
        header: the name of an AMQP or Kafka header; None: the reason that the consumer gave, then
            the usual headers.
        sql: an expression of text on the columns of `dead_letters`, instead of a header.
    """

    header: str | None = None
    sql: str | None = None

    def expression(self) -> str:
        """The text as an SQL expression; null if a dead letter has none."""
        if self.sql is not None:
            return f"CAST((\n{self.sql}\n) AS VARCHAR)"
        if self.header is not None:
            return _found((self.header,), (self.header,))
        return f"coalesce(cause, {_found(AMQP_HEADERS, KAFKA_HEADERS)})"


def stripped(expression: str) -> str:
    """The SQL expression of a text's first line without numbers, ids and addresses."""
    return f"list_transform([{expression}], lambda one: {stripped_column('one')})[1]"


def stripped_column(one: str) -> str:
    """The same for a text that is in a column, which DuckDB computes once."""
    line = f"left(trim(split_part({one}, chr(10), 1)), {MAX_CHARACTERS})"
    must_be_cut = (  # most texts are short lines, and this is cheaper than cutting each of them
        f"strlen({one}) > {MAX_CHARACTERS} OR contains({one}, chr(10)) "
        f"OR starts_with({one}, ' ') OR ends_with({one}, ' ')"
    )
    cut = f"CASE WHEN {must_be_cut} THEN {line} ELSE {one} END"
    return f"regexp_replace({cut}, {text('|'.join(_PATTERNS))}, '#', 'g')"


def _found(amqp: tuple[str, ...], kafka: tuple[str, ...]) -> str:
    """The first of these headers that a dead letter has.

    JSON is parsed only for a header whose name is in it, and only until one is found.
    """
    known = ", ".join(map(text, kafka))
    found = f"list_filter(kafka_headers, lambda one: one.key IN ({known}))"
    parts = [
        f"CASE WHEN contains(headers, {text(_as_member(name))}) "
        f"THEN json_extract_string(headers, {text(json_pointer(name))}) END"
        for name in amqp
    ]
    return f"coalesce({', '.join(parts)}, try(decode({found}[1].value)))"


def _as_member(name: str) -> str:
    """The name of a member as the headers' JSON has it."""
    return f"{msgspec.json.encode(name).decode()}:"


def json_pointer(name: str) -> str:
    """The JSON pointer of a member of an object."""
    return f"/{name.replace('~', '~0').replace('/', '~1')}"
