"""The history of one message: where it came from, what happened to it, where it is now."""

from typing import Final, Literal

import msgspec

from streaming.broker.redrives.version_keys import VERSION_KEY
from streaming.queries.as_of.snapshots import opening_snapshot, removals, snapshot_contents
from streaming.queries.dead_letters.filters import NAME as DEAD_LETTERS
from streaming.queries.dead_letters.letters import plain_row
from streaming.queries.duckdb_tables import QueryError, Row, Tables, iso, quoted
from streaming.queries.message_attributes import (
    ENCODED,
    RECORD,
    MessageId,
    as_json,
    decoded,
    document,
    plain_attributes,
)
from streaming.queries.read_rights import CONTENT, ReadRights
from streaming.queries.result import plain
from topology.sentences import say, to_say

_EVENT_COLUMNS: Final = (
    *("batch_id", "vhost", "lane", "seq", "at", "kind", "copy_id", "parent_copy_id", "queue"),
    *("reason", "number", "position", "expires_at", "exchange", "routing_key", "user", "channel"),
    "detail",
)
_PLACE: Final = ("partition", "offset")
_MAX_AMBIGUOUS: Final = 10
_NOTHING: Final[Row] = {"properties": {}, "kafka_headers": []}
_ABOUT: Final = (
    'message_id.topic_number = ? AND message_id."partition" = ? AND message_id."offset" = ?'
)
"""A condition for the rows that are about one message."""

_OPENING: Final = "* EXCLUDE (envelope, delivered_seq, delivered_at, accepted, cause)"


LOSSES: Final = {
    "no_exchange": to_say("the dead-letter exchange does not exist or is not set"),
    "no_route": to_say("no queue is bound for it"),
    "cycle": to_say("it would enter a cycle"),
    "refused": to_say("its targets are full"),
    "cascade_limit": to_say("it has too many descendants"),
    "strategy_changed": to_say("its queue stopped dead-lettering at least once while it was held"),
    "rerouted_before": to_say("it was rerouted before"),
}
"""Outcome of a death -> why the letter reached no queue, in words."""


class Forgotten(msgspec.Struct, frozen=True):
    """What the tables no longer know of a message.

    Attributes:
        body: `removed` by retention, or `erased`; None: it is stored.
        body_at: when that was; None: unknown.
        events_at: the last event of the snapshot up to which retention removed events; None: none
            of its events can be missing.
    """

    body: Literal["removed", "erased"] | None = None
    body_at: str | None = None
    events_at: str | None = None


class MessageHistory(msgspec.Struct, frozen=True):
    """Everything known about a message; rows as in the tables, with plain values.

    Attributes:
        message: its row of `messages`; None if it is missing.
        deaths: its rows of `dead_letters`, by the seq of the event, the earliest first.
        now: the state of each remaining copy: copy_id -> ready, unacked or held.
        forgotten: what retention or an erasure removed of it. If its events, those of kind `died`
            whose deaths are still known are there with what the deaths say.
        opening: the copies that it had where the events begin, as rows of `snapshot_contents`.
        version_of: the letter that an edit made this message of; None: it was published.
        hidden: why its body, headers and properties are hidden from the user of the tables; None:
            they are not.
        hidden_in: the queues that the user may not read, if that is why.
    """

    message_id: str
    message: Row | None
    events: list[Row]
    deaths: dict[int, Row]
    now: dict[int, str]
    forgotten: Forgotten = Forgotten()
    opening: list[Row] = []
    version_of: str | None = None
    hidden: str | None = None
    hidden_in: list[str] = []


def history_of(tables: Tables, name: str) -> MessageHistory:
    """Look up the history of a message.

    Args:
        name: topic/partition/offset, where the topic is a number or a name, or the AMQP property
            message_id.

    Raises:
        QueryError: no message or several messages have that name, or a table is missing.
    """
    tables.table("events")
    key = message_named(tables, name)
    message = _message(tables, key)
    least = -1 if message is None else message["batch_id"] - 1
    events = _events(tables, key, least)
    deaths = _deaths(tables, key, least)
    batches = [row["batch_id"] for row in (message, *events, *deaths.values()) if row is not None]
    opening = _opening(tables, key, min(batches, default=-1))
    if not batches and not opening:
        raise QueryError(
            say(
                "there is no message %(name)s: partition %(partition)s of topic number %(topic)s "
                "has none at offset %(offset)s%(perhaps)s; `dlx dead-letters list` shows ids",
                name=repr(name),
                partition=str(key.partition),
                topic=str(key.topic_number),
                offset=str(key.offset),
                perhaps=_perhaps_removed(tables),
            )
        )
    forgotten = _forgotten(tables, message, min(batches, default=-1))
    if forgotten.events_at is not None:
        events = _with_deaths(events, deaths)
    now = _now(events, opening)
    is_version = any(event["kind"] == "edited" for event in events)
    original = _original(tables, key) if is_version else None
    hidden_in = _hidden_in(tables.rights, [*opening, *events], deaths)
    hidden = None if hidden_in is None else _why_hidden(hidden_in)
    if hidden is not None and message is not None:
        message |= {**dict.fromkeys((*CONTENT, "record_key")), **_NOTHING}
    return MessageHistory(
        *(str(key), message, events, deaths, now, forgotten, opening, original, hidden),
        hidden_in or [],
    )


def message_named(tables: Tables, name: str) -> MessageId:
    """The message of a name as `history_of` takes it; an id is not looked up.

    Raises:
        QueryError: no message or several messages have that name, or a table is missing.
    """
    return MessageId.parse(name) or _by_topic(tables, name) or _by_property(tables, name)


def _hidden_in(
    rights: ReadRights | None, rows: list[Row], deaths: dict[int, Row]
) -> list[str] | None:
    """The queues that hide a message, if any is known; None: the user may read it."""
    places = {(row["vhost"], row["queue"]) for row in rows if row["vhost"] and row["queue"]}
    if rights is None or rights.may_read_message(places, deaths.values()):
        return None
    if not deaths:
        return sorted({queue for _vhost, queue in places})
    hidden = [
        queue
        for death in deaths.values()
        if not rights.may_read_death(death)
        for queue in death["targets"] or [death["queue"]]
    ]
    return sorted(set(hidden))


def _why_hidden(queues: list[str]) -> str:
    if queues:
        return say("You may not read %(queues)s", queues=", ".join(queues))
    return say("No queue is known that had it, and only the right to read one would show it")


def _original(tables: Tables, key: MessageId) -> str | None:
    """The first letter that a redrive edited to this message; None if it has moved none yet."""
    tables.view("events", columns=["seq", "kind", "message_id", "detail"], view="edits")
    found = tables.rows(
        """
        SELECT message_id FROM edits WHERE kind IN ('redriven', 'republished')
        AND CAST(detail -> '$.edit.message' AS INTEGER[]) = ? ORDER BY seq LIMIT 1
        """,
        [list(key)],
    )
    return str(MessageId.of(found[0]["message_id"])) if found else None


def _opening(tables: Tables, key: MessageId, first: int) -> list[Row]:
    """The copies of a message in the snapshot where the events begin, if it is older."""
    snapshot = opening_snapshot(tables, "events")
    if snapshot is None or first > snapshot.batch_id:
        return []
    view = snapshot_contents(tables, snapshot, held=True)
    found = tables.rows(f"SELECT {_OPENING} FROM {view} WHERE {_ABOUT} ORDER BY copy_id", key)
    for row in found:
        row["snapshot_at"] = None if snapshot.at is None else plain(snapshot.at)
        row["snapshot"] = snapshot.batch_id
        for name in ("enqueued_at", "expires_at", "held_at"):
            row[name] = iso(row[name])
    return found


def _forgotten(tables: Tables, message: Row | None, first: int) -> Forgotten:
    snapshot = opening_snapshot(tables, "events")
    events_at = None
    if snapshot is not None and first <= snapshot.batch_id:
        events_at = None if snapshot.at is None else plain(snapshot.at)
    if message is None:
        runs = (one.at for one in removals(tables, "messages") if one.batch_id >= first)
        removed = next(runs, None)
        return Forgotten(None if removed is None else "removed", removed, events_at)
    if message["body"] is None and message["body_bytes"]:
        return Forgotten("erased", _erased_at(tables), events_at)
    return Forgotten(events_at=events_at)


def _with_deaths(events: list[Row], deaths: dict[int, Row]) -> list[Row]:
    """The events, with those of deaths that are known from `dead_letters` alone."""
    known = {event["seq"] for event in events}
    found = [
        {name: death.get(name) for name in _EVENT_COLUMNS}
        | {"kind": "died", "number": None, "position": None, "expires_at": None}
        | {"detail": None if death.get("cause") is None else {"cause": death["cause"]}}
        for seq, death in deaths.items()
        if seq not in known
    ]
    return sorted([*events, *found], key=lambda row: (row["vhost"], row["lane"], row["seq"]))


def _erased_at(tables: Tables) -> str | None:
    """When the only erasure was; None if there were several, of which one erased it."""
    tables.view("events", columns=["kind", "at"])
    found = tables.rows("SELECT \"at\" FROM events WHERE kind = 'erased' LIMIT 2")
    return iso(found[0]["at"]) if len(found) == 1 else None


def _perhaps_removed(tables: Tables) -> str:
    """What to add if retention may have removed every row of a message."""
    runs = removals(tables, "messages", "events", "dead_letters")
    if not runs:
        return ""
    last = max(runs, key=lambda one: one.batch_id)
    return say(
        ", or tables.retention removed it (rows up to batch %(batch)s, at %(at)s)",
        batch=str(last.batch_id),
        at=str(last.at),
    )


def _by_topic(tables: Tables, name: str) -> MessageId | None:
    """The message at `topic/partition/offset`; None if the text is no such place, or has none."""
    place = RECORD.fullmatch(name)
    if place is None:
        return None
    offset = int(place["offset"])
    files = tables.files("messages", {"offset": offset}, inclusive=True)
    tables.view("messages", files=files, columns=["topic_number", *_PLACE, "origin"])
    found = tables.values(
        "SELECT topic_number FROM messages "
        'WHERE origin.topic = ? AND "partition" = ? AND "offset" = ?',
        [place["topic"], int(place["partition"]), offset],
    )
    return MessageId(found[0][0], int(place["partition"]), offset) if found else None


def _by_property(tables: Tables, name: str) -> MessageId:
    columns = ["topic_number", "partition", "offset", "routing_key", "properties"]
    tables.view("messages", columns=columns)
    keys = [
        MessageId(*row)
        for row in tables.values(
            'SELECT topic_number, "partition", "offset" FROM messages '
            "WHERE properties.message_id = ? AND NOT starts_with(routing_key, ?) "
            f"ORDER BY ALL LIMIT {_MAX_AMBIGUOUS + 1}",
            [name, VERSION_KEY],
        )
    ]
    if not keys and removals(tables, "messages"):
        tables.view(DEAD_LETTERS, columns=["message_id", "properties"])
        keys = [
            MessageId(*row)
            for row in tables.values(
                'SELECT DISTINCT message_id.topic_number, message_id."partition", '
                f'message_id."offset" FROM {DEAD_LETTERS} WHERE properties.message_id = ? '
                f"ORDER BY ALL LIMIT {_MAX_AMBIGUOUS + 1}",
                [name],
            )
        ]
    match keys:
        case [key]:
            return key
        case []:
            raise QueryError(
                say(
                    "there is no message %(name)s: no message has that message_id, and it is not "
                    "an id such as 1/0/42; `dlx dead-letters list` shows ids, and its "
                    "--where %(example)s searches bodies",
                    name=repr(name),
                    example="\"decode(body) LIKE '%17%'\"",
                )
            )
        case _:
            more = ", ..." if len(keys) > _MAX_AMBIGUOUS else ""
            names = ", ".join(str(key) for key in keys[:_MAX_AMBIGUOUS])
            what = say(
                "several messages have message_id %(name)s: %(ids)s",
                name=repr(name),
                ids=names + more,
            )
            raise QueryError(what)


def _message(tables: Tables, key: MessageId) -> Row | None:
    tables.view("messages")
    found = tables.rows(
        f"""
        SELECT * REPLACE (base64(record_key) AS record_key, {ENCODED}) FROM messages
        WHERE topic_number = ? AND "partition" = ? AND "offset" = ?
        """,
        key,
    )
    if not found:
        return None
    row = found[0]
    record_key = as_json(decoded(row["record_key"]))
    return {**row, "record_key": record_key, **plain_attributes(row)}


def _events(tables: Tables, key: MessageId, least: int) -> list[Row]:
    tables.view("events", files=tables.files("events", {"batch_id": least}))
    found = tables.rows(
        f"""
        SELECT {", ".join(map(quoted, _EVENT_COLUMNS))} FROM events WHERE {_ABOUT}
        ORDER BY vhost, lane, seq
        """,
        key,
    )
    for row in found:
        row["at"], row["expires_at"] = iso(row["at"]), iso(row["expires_at"])
        row["detail"] = document(row["detail"])
    return found


def _deaths(tables: Tables, key: MessageId, least: int) -> dict[int, Row]:
    tables.view(DEAD_LETTERS, files=tables.files(DEAD_LETTERS, {"batch_id": least}))
    sql = (
        f"SELECT * REPLACE ({ENCODED}) FROM {DEAD_LETTERS} WHERE {_ABOUT} ORDER BY vhost, lane, seq"
    )
    found = tables.rows(sql, key)
    return {row["seq"]: plain_row(row) for row in found}


def _now(events: list[Row], opening: list[Row]) -> dict[int, str]:
    states = {"enqueued": "ready", "requeued": "ready", "delivered": "unacked", "held": "held"}
    now: dict[int, str] = {row["copy_id"]: row["state"] for row in opening}
    since = max((row["snapshot"] for row in opening), default=-1)
    for event in events:
        copy_id = event["copy_id"]
        if copy_id is None or event["batch_id"] <= since:
            continue
        state = states.get(event["kind"])
        if state is None:
            now.pop(copy_id, None)
        else:
            now[copy_id] = state
    return now
