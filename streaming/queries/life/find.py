"""Find messages by what people know, and say what was not looked at.

17        -->  an indexed value of any message; else an id or a word of a dead letter
order=17  -->  the same of this name: `body:$.order`, a header, a property; so does `order 17`

Indexed values answer at once. Only if there is none, all dead letters are read.
"""

import re
from typing import Any, Final

import msgspec

from streaming.queries.dead_letters.filters import NAME as DEAD_LETTERS
from streaming.queries.dead_letters.find import MAX_SEARCHED_BODY_BYTES, find_letters
from streaming.queries.duckdb_tables import Row, Tables, iso
from streaming.queries.life.publishes import publishes
from streaming.queries.message_attributes import MessageId
from streaming.queries.search_index import (
    SEARCH_KEYS,
    IndexedMessage,
    indexed_paths,
    messages_with,
)
from topology.sentences import say, say_count

_ID: Final = '(message_id.topic_number, message_id."partition", message_id."offset")'
_NAMED: Final = re.compile(
    r"""\s*["']?([A-Za-z_][\w.-]*)["']?"""
    r"""(?:\s*[=:]\s*|\s+\#?(?=\S*[0-9]\S*\s*$))["']?(.+?)["']?\s*"""
)
"""A name and a value: `order=17`, `"order": 17`, and `order 17`, whose value has a digit."""

_DEATH: Final = (
    *("seq", "at", "vhost", "queue", "reason", "targets", "message_id"),
    *("outcome", "exchange", "routing_key", "origin", "properties"),
)


class FoundMessage(msgspec.Struct, frozen=True):
    """A message, the place where the text is, and its latest death; None: it never died.

    Attributes:
        deaths: how often it died.
        first_queue, first_reason: of its first death.
        name: the id that its publisher gave it.
        published_at, exchange, routing_key: of its publish.
        outcome, targets: what became of the letter of its latest death.
    """

    message_id: str
    place: str
    vhost: str
    queue: str | None = None
    reason: str | None = None
    at: str | None = None
    deaths: int = 0
    first_queue: str | None = None
    first_reason: str | None = None
    name: str | None = None
    published_at: str | None = None
    exchange: str | None = None
    routing_key: str | None = None
    outcome: str | None = None
    targets: tuple[str, ...] = ()


class Found(msgspec.Struct, frozen=True):
    """The answer of a search.

    Attributes:
        has_more: whether there are more than were wanted.
        indexed: whether indexed values gave it; then dead letters were not read.
        unseen: what was not looked at, in sentences.
    """

    messages: list[FoundMessage]
    has_more: bool
    indexed: bool
    unseen: list[str]


def find_messages(
    tables: Tables, text: str, count: int, *, vhost: str | None = None, words: bool = False
) -> Found:
    """Find the messages that have a text as an indexed value, an id, or a word.

    Args:
        count: the most messages that are listed.
        vhost: look at its messages only.
        words: read dead letters, also if an indexed value is found.
    """
    messages, is_indexed = _found(tables, text, None, count, vhost, words=words)
    named = _NAMED.fullmatch(text)
    if not messages and named is not None:
        name, value = named.groups()
        messages, is_indexed = _found(tables, value, name, count, vhost, words=words)
    return Found(
        messages[:count],
        len(messages) > count,
        is_indexed,
        list(_unseen(tables, is_indexed=is_indexed)),
    )


def _found(
    tables: Tables, text: str, named: str | None, count: int, vhost: str | None, *, words: bool
) -> tuple[list[FoundMessage], bool]:
    """The messages with a text, or with a value of a name; and whether the index gave them."""
    hits = [] if words else messages_with(tables, text, count + 1, vhost=vhost)
    hits = [one for one in hits if named is None or _name_of(one.path) == named]
    if messages := readable(tables, hits):
        return messages, True
    letters = find_letters(tables, text, count + 1, vhost=vhost, named=named)
    return [FoundMessage(**msgspec.structs.asdict(one)) for one in letters], False


def _name_of(path: str) -> str:
    """What a path is called: `order` of `body:$.order`, `tenant` of `header:tenant`."""
    return path.partition(":")[2].rpartition(".")[2] or path


def readable(tables: Tables, hits: list[IndexedMessage]) -> list[FoundMessage]:
    """Those that the user of the tables may read; those that died come first."""
    if not hits:
        return []
    keys = [hit.message_id for hit in hits]
    deaths: dict[MessageId, list[Row]] = {}
    if tables.has(DEAD_LETTERS):
        for row in _rows(tables, DEAD_LETTERS, _DEATH, keys, "true"):
            deaths.setdefault(_id(row), []).append(row)
    places: dict[MessageId, set[tuple[str, str]]] = {}
    rights = tables.rights
    if rights is not None:
        columns = ("vhost", "queue", "message_id")
        for row in _rows(tables, "events", columns, keys, "queue IS NOT NULL"):
            places.setdefault(_id(row), set()).add((row["vhost"], row["queue"]))
    found = []
    alive = []
    for hit in hits:
        died = deaths.get(hit.message_id, [])
        if rights is not None and not rights.may_read_message(places.get(hit.message_id, ()), died):
            continue
        died.sort(key=lambda row: (row["at"], row["seq"]))
        one = FoundMessage(str(hit.message_id), hit.path, hit.vhost)
        if died:
            first, last = died[0], died[-1]
            one = msgspec.structs.replace(
                one,
                queue=last["queue"],
                reason=last["reason"],
                at=iso(last["at"]),
                deaths=len(died),
                first_queue=first["queue"],
                first_reason=first["reason"],
                outcome=last["outcome"],
                targets=tuple(last["targets"] or ()),
                **_publish(first, first["origin"]["timestamp"]),
            )
        else:
            alive.append(hit)
        found.append(one)
    published = publishes(tables, alive)
    for number, one in enumerate(found):
        key = MessageId.parse(one.message_id)
        publish = None if key is None else published.get(key)
        if publish is not None:
            at = publish["published_at"]
            found[number] = msgspec.structs.replace(one, **_publish(publish, at))
    found.sort(key=lambda one: one.at is None)  # why it died is what is asked
    return found


def _publish(row: Row, at: Any) -> dict[str, Any]:
    """What tells a message from others with the same value."""
    return {
        "name": (row["properties"] or {}).get("message_id"),
        "published_at": iso(at),
        "exchange": row["exchange"],
        "routing_key": row["routing_key"],
    }


def _rows(
    tables: Tables, name: str, columns: tuple[str, ...], keys: list[MessageId], condition: str
) -> list[Row]:
    view = tables.view(name, columns=list(columns), view=tables.new_name(name))
    listed = ", ".join(f"({key.topic_number}, {key.partition}, {key.offset})" for key in keys)
    return tables.rows(f"SELECT DISTINCT * FROM {view} WHERE {_ID} IN ({listed}) AND {condition}")


def _id(row: Row) -> MessageId:
    found = MessageId.of(row["message_id"])
    assert found is not None, "it was chosen by its id"
    return found


def _unseen(tables: Tables, *, is_indexed: bool) -> list[str]:
    said: list[str] = []
    size = MAX_SEARCHED_BODY_BYTES // 1024
    paths = indexed_paths(tables)
    if is_indexed:
        said.append(say("Words and ids of dead letters were not looked at."))
    elif paths:
        said.append(say("Bodies of more than %(size)s KiB were not searched.", size=size))
    else:
        said.append(
            say(
                "Only dead letters were searched, in bodies of at most %(size)s KiB: with "
                "tables.search, the job indexes values of all messages.",
                size=size,
            )
        )
    said += [
        say(
            "Values of %(path)s are indexed since %(since)s, not of messages before.",
            path=one.path,
            since=one.since,
        )
        for one in paths
        if one.since
    ]
    behind = _behind(tables) if paths else 0
    if behind:
        said.append(
            say_count(
                "The latest %(count)s batch is not indexed yet.",
                "The latest %(count)s batches are not indexed yet.",
                behind,
            )
        )
    rights = tables.rights
    if rights is not None and rights.hidden:  # their names may be none of the reader's
        said.append(say("What was in queues that you may not read was not searched."))
    return said


def _behind(tables: Tables) -> int:
    """How many batches are not indexed yet."""
    told = tables.of_files("events", "max.batch_id") or ()
    last = max((one for one in told if one is not None), default=-1)
    if not tables.has(SEARCH_KEYS):
        return int(last) + 1
    view = tables.view("events", columns=["batch_id", "query_id"], view=tables.new_name("events"))
    rows = tables.values(f"SELECT query_id FROM {view} WHERE batch_id = {last} LIMIT 1")
    done = tables.table(SEARCH_KEYS).transaction_version(rows[0][0]) if rows else None
    return max(int(last) - (-1 if done is None else done), 0)
