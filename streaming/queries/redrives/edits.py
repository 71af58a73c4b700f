"""Edits of letters: the new content of each, by values, by expressions, or written by a person.

    content of a letter --EditWish--> new content; both have a hash, and a diff between them

An edit that changes nothing leaves the letter as it is.
"""

import difflib
from typing import Any, Final

import duckdb
import msgspec

from streaming.protocol.amqp_properties import property_fault
from streaming.protocol.letter_content import LetterContent, is_own_header
from streaming.queries.damage import one_line
from streaming.queries.dead_letters.filters import NAME
from streaming.queries.duckdb_tables import QueryError, Row, Tables, text
from streaming.queries.message_attributes import MessageId, decoded, present
from streaming.queries.sandbox import require_no_detour

MAX_BYTES: Final = 64 * 1024 * 1024
"""The most bytes of bodies that one plan edits: it holds every new version."""

_COLUMNS: Final = (
    *("vhost", "lane", "seq", "at", "message_id", "queue", "reason", "exchange", "routing_key"),
    *("routing_keys", "x_death", "properties", "headers", "body_bytes", "body"),
)


class EditWish(msgspec.Struct, frozen=True, kw_only=True):
    """What is to become of the content of every letter of a plan.

    Attributes:
        headers, properties: values to set, headers as typed JSON.
        without_headers, without_properties: names to remove.
        body_sql: an expression in DuckDB's SQL on the columns of `dead_letters`: the new body.
        headers_sql: the same for the headers; its value is a JSON object.
        content: the whole content of a plan's only letter.
    """

    headers: dict[str, Any] = {}
    properties: dict[str, Any] = {}
    without_headers: tuple[str, ...] = ()
    without_properties: tuple[str, ...] = ()
    body_sql: str | None = None
    headers_sql: str | None = None
    content: LetterContent | None = None


class LetterEdit(msgspec.Struct, frozen=True):
    """The edit of one letter.

    Attributes:
        message_id: the message of the letter as it is.
        original, version: the hashes of its content before and after.
        diff: what differs, as lines that begin with `-` and `+`.
    """

    message_id: str
    original: str
    version: str
    diff: list[str]


def contents_of(
    tables: Tables, rows: list[Row], wish: EditWish
) -> list[tuple[LetterContent, LetterContent]]:
    """The content of each letter, and its new content.

    Raises:
        QueryError: an expression or a new content is wrong, a body is not stored any more, or there
            are too many bytes.
    """
    size = sum(row["body_bytes"] or 0 for row in rows)
    if size > MAX_BYTES:
        raise QueryError(
            f"the letters to edit have {size:,} bytes, more than {MAX_BYTES:,}: narrow the filter"
        )
    if wish.content is not None and len(rows) != 1:
        raise QueryError(f"one letter can be edited, and {len(rows)} match: choose one by its id")
    _refuse_names(wish)
    found = _stored(tables, rows, wish) if rows else {}
    pairs = []
    for row in rows:
        stored = found[row["vhost"], row["lane"], row["death_seq"]]
        name = f"letter {MessageId.of(row['message_id'])}"
        original = _original(stored, name)
        version = _version(original, stored, wish, name)
        fault = version.fault()
        if fault:
            raise QueryError(f"{name}: the edit is not a valid message: {fault}")
        pairs.append((original, version))
    return pairs


def diff_of(original: LetterContent, version: LetterContent) -> list[str]:
    """The lines that differ."""
    lines = difflib.unified_diff(content_lines(original), content_lines(version), n=0, lineterm="")
    return [line for line in list(lines)[2:] if not line.startswith("@@")]


def content_lines(content: LetterContent) -> list[str]:
    """A content as lines: a property or header each, then the body, JSON indented."""
    parts = (("property", content.properties), ("header", content.headers or {}))
    lines = [
        f"{what} {name}: {msgspec.json.encode(value).decode()}"
        for what, members in parts
        for name, value in sorted(members.items())
    ]
    return [*lines, *(f"body: {line}" for line in body_lines(content.body))]


def body_lines(body: bytes) -> list[str]:
    """A body as lines, JSON indented."""
    try:
        document = msgspec.json.decode(body)
        text = msgspec.json.format(msgspec.json.encode(document), indent=2).decode()
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        text = body.decode("utf-8", "backslashreplace")
    return text.splitlines()


def _refuse_names(wish: EditWish) -> None:
    """Refuse headers that only the broker writes, and properties that do not exist.

    Raises:
        QueryError: there is such a name.
    """
    for name in (*wish.headers, *wish.without_headers):
        if is_own_header(name):
            raise QueryError(f"header {name!r} is the broker's own, an edit cannot change it")
    for name in wish.without_properties:
        fault = property_fault(name, "")
        if fault is not None and fault.cause == "unknown_property":
            raise QueryError(f"property {name!r} {fault.words}")


def _stored(tables: Tables, rows: list[Row], wish: EditWish) -> dict[tuple[Any, ...], Row]:
    """The content of the deaths of these letters, with the values of the expressions."""
    view = tables.view(NAME, columns=[*_COLUMNS, "kafka_headers", "origin"], view="edited_letters")
    tables.connection.execute(f"CREATE OR REPLACE TEMP VIEW {NAME} AS FROM {view}")
    wanted: dict[tuple[str, int], list[str]] = {}
    for row in rows:
        wanted.setdefault((row["vhost"], row["lane"]), []).append(str(row["death_seq"]))
    places = " OR ".join(
        f"(vhost = {text(vhost)} AND lane = {lane} AND seq IN ({', '.join(seqs)}))"
        for (vhost, lane), seqs in wanted.items()
    )
    body = _expression(tables, "the new body", wish.body_sql)
    headers = _expression(tables, "the new headers", wish.headers_sql)
    sql = f"""
        SELECT vhost, lane, seq, properties, headers, body_bytes, base64(body) AS body,
               base64({body}) AS new_body, {headers} AS new_headers
        FROM {NAME} WHERE {places}
    """
    try:
        found = tables.rows(sql)
    except duckdb.Error as error:
        given = [one for one in (wish.body_sql, wish.headers_sql) if one is not None]
        said = f"the edit {' and '.join(map(repr, given))}: {one_line(error)}"
        raise tables.damage(error) or QueryError(said) from None
    return {(row["vhost"], row["lane"], row["seq"]): row for row in found}


def _expression(tables: Tables, option: str, sql: str | None) -> str:
    """An expression of the user as a value: bytes of a body, or text of headers.

    Raises:
        QueryError: DuckDB does not understand it.
    """
    is_body = option == "the new body"
    if sql is None:
        return "NULL::BLOB" if is_body else "NULL"
    require_no_detour(tables, NAME, sql)
    try:
        bare, closed = (f"SELECT\n{part}\nAS value FROM {NAME}" for part in (sql, f"(\n{sql}\n)"))
        counts = {len(tables.connection.extract_statements(query)) for query in (bare, closed)}
        if counts != {1}:
            raise QueryError(f"{option}: {sql!r} is more than one expression")
        columns = tables.connection.execute(f"DESCRIBE {closed}").fetchall()
    except duckdb.Error as error:
        raise QueryError(f"{option} {sql!r}: {one_line(error)}") from None
    if not is_body:
        return f"CAST((\n{sql}\n) AS VARCHAR)"
    return f"(\n{sql}\n)" if columns[0][1] == "BLOB" else f"encode(CAST((\n{sql}\n) AS VARCHAR))"


def _original(stored: Row, name: str) -> LetterContent:
    """The content of a letter, without the marks of redrives.

    Raises:
        QueryError: its body is not stored.
    """
    body = decoded(stored["body"])
    if body is None and stored["body_bytes"]:
        raise QueryError(f"{name}: its body was removed or erased, so it cannot be edited")
    headers = None if stored["headers"] is None else msgspec.json.decode(stored["headers"])
    if headers is not None:
        headers = {
            name: value for name, value in headers.items() if not name.startswith("x-redrive-")
        }
    return LetterContent(body or b"", present(stored["properties"]), headers)


def _version(original: LetterContent, stored: Row, wish: EditWish, name: str) -> LetterContent:
    """The new content of a letter.

    Raises:
        QueryError: an expression has no value, or not an object for headers.
    """
    if wish.content is not None:
        _refuse_own_changes(original, wish.content, name)
        return wish.content
    body, headers = original.body, original.headers
    if wish.body_sql is not None:
        given = decoded(stored["new_body"])
        if given is None:
            raise QueryError(f"{name}: the new body {wish.body_sql!r} is NULL")
        body = given
    if wish.headers_sql is not None:
        try:
            headers = msgspec.json.decode(stored["new_headers"] or "null", type=dict[str, Any])
        except (msgspec.DecodeError, RecursionError):
            what = f"the new headers {wish.headers_sql!r} is not a JSON object"
            raise QueryError(f"{name}: {what}: {stored['new_headers']}") from None
    if wish.headers or wish.without_headers:
        kept = {
            key: value for key, value in (headers or {}).items() if key not in wish.without_headers
        }
        headers = {**kept, **wish.headers}
    properties = {
        key: value
        for key, value in original.properties.items()
        if key not in wish.without_properties
    }
    version = LetterContent(body, {**properties, **wish.properties}, headers)
    _refuse_own_changes(original, version, name)
    return version


def _refuse_own_changes(original: LetterContent, version: LetterContent, name: str) -> None:
    """Refuse a change of headers that only the broker writes.

    Raises:
        QueryError: there is one.
    """
    before, after = original.headers or {}, version.headers or {}
    for header in sorted({*before, *after}):
        if is_own_header(header) and before.get(header) != after.get(header):
            raise QueryError(f"{name}: header {header!r} is the broker's own: leave it as it is")
