"""Find dead letters by what people know: an id, or an order number in a header or body.

17        -->  message_id, correlation_id, then a word of the headers, then a word of the body
order=17  -->  a property, a header, or a member of a body in JSON, at any depth

What a user may not read is null in the view of the table, so it is never found.
"""

from typing import Final

import msgspec

from streaming.queries.dead_letters.filters import NAME
from streaming.queries.duckdb_tables import Tables, iso, text
from streaming.queries.message_attributes import MessageId

MAX_SEARCHED_BODY_BYTES: Final = 65_536
"""Larger bodies are not searched."""

PLACES: Final = ("message_id", "correlation_id", "headers", "body")
"""Where a text is looked for, the most telling place first."""

_COLUMNS: Final = (
    *("seq", "at", "vhost", "queue", "reason", "message_id", "targets"),
    *("outcome", "exchange", "routing_key", "origin"),
    *("properties", "headers", "kafka_headers", "body", "body_bytes"),
)


class FoundLetter(msgspec.Struct, frozen=True):
    """A message that died, and the place of `PLACES` where the text is; its latest death.

    Attributes:
        deaths: how often it died.
        first_queue, first_reason: of its first death.
        name: the id that its publisher gave it.
        published_at, exchange, routing_key: of its publish.
        outcome, targets: what became of its letter; see `dead_letters`.
    """

    message_id: str
    place: str
    vhost: str
    queue: str
    reason: str
    at: str
    deaths: int
    first_queue: str
    first_reason: str
    name: str | None
    published_at: str | None
    exchange: str | None
    routing_key: str | None
    outcome: str | None
    targets: tuple[str, ...]


def find_letters(
    tables: Tables, wanted: str, count: int, *, vhost: str | None = None, named: str | None = None
) -> list[FoundLetter]:
    """List the messages that died and have a text as an id, or as a word of headers or body.

    A word ends where letters, digits and underscores end: 17 is found in `{"order": 17}` and in
    `shop-17`, and not in 170.

    Args:
        count: the most messages that are listed, the most telling place and latest death first.
        vhost: look at its letters only.
        named: the text must be the whole value of a property, header or member of this name.
    """
    if not wanted or not tables.has(NAME):
        return []
    view = tables.view(NAME, columns=list(_COLUMNS), view=tables.new_name(NAME))
    cases = " ".join(
        f"WHEN {condition} THEN {place}"
        for place, condition in enumerate(_conditions(wanted, named))
    )
    found = tables.rows(
        f"""
        WITH placed AS (
            SELECT message_id, vhost, queue, reason, "at", seq, outcome, targets, exchange,
                   routing_key, properties.message_id AS name,
                   origin.timestamp AS published_at, CASE {cases} END AS place
            FROM {view} WHERE message_id IS NOT NULL
        )
        SELECT message_id, min(place) AS place, vhost, max("at") AS "at",
               arg_max(queue, ("at", seq)) AS queue, arg_max(reason, ("at", seq)) AS reason,
               count(*) AS deaths, arg_min(queue, ("at", seq)) AS first_queue,
               arg_min(reason, ("at", seq)) AS first_reason, any_value(name) AS name,
               any_value(published_at) AS published_at,
               arg_min(exchange, ("at", seq)) AS exchange,
               arg_min(routing_key, ("at", seq)) AS routing_key,
               arg_max({{'outcome': outcome, 'targets': targets}}, ("at", seq)) AS ended
        FROM placed WHERE place IS NOT NULL AND (? IS NULL OR vhost = ?)
        GROUP BY message_id, vhost ORDER BY place, "at" DESC, message_id LIMIT {count}
        """,
        [vhost, vhost],
    )
    return [
        FoundLetter(
            str(MessageId.of(row["message_id"])),
            PLACES[row["place"]],
            row["vhost"],
            row["queue"],
            row["reason"],
            iso(row["at"]) or "",
            row["deaths"],
            row["first_queue"],
            row["first_reason"],
            row["name"],
            iso(row["published_at"]),
            row["exchange"],
            row["routing_key"],
            row["ended"]["outcome"],
            tuple(row["ended"]["targets"] or ()),
        )
        for row in found
    ]


def _conditions(wanted: str, named: str | None) -> tuple[str, ...]:
    """A condition for each of `PLACES`."""
    word = text(wanted)
    if named is not None:
        member = text(f'"{named}"')
        value = f"'\\s*:\\s*(\"' || regexp_escape({word}) || '\"|' || regexp_escape({word}) || ')'"
        pattern = f"regexp_escape({member}) || {value} || '\\s*[,}}\\]]'"
        is_searched = f"body_bytes <= {MAX_SEARCHED_BODY_BYTES}"
        is_of_kafka = f"one.key = {text(named)} AND one.value = encode({word})"
        of_kafka = f"len(list_filter(kafka_headers, lambda one: {is_of_kafka})) > 0"
        return (
            *(f"properties.{name} = {word}" if named == name else "false" for name in PLACES[:2]),
            f"(regexp_matches(headers, {pattern}) OR {of_kafka})",
            f"({is_searched} AND regexp_matches(TRY(decode(body)), {pattern}))",
        )
    pattern = f"'(^|[^\\pL\\pN_])' || regexp_escape({word}) || '($|[^\\pL\\pN_])'"
    is_searched = f"body_bytes <= {MAX_SEARCHED_BODY_BYTES}"
    return (
        f"properties.message_id = {word}",
        f"properties.correlation_id = {word}",
        f"regexp_matches(headers, {pattern})",
        f"({is_searched} AND regexp_matches(TRY(decode(body)), {pattern}))",
    )
