"""Query what is in the queues at the last batch."""

from operator import itemgetter
from typing import Final

import msgspec

from streaming.queries.as_of.contents import prepare_contents
from streaming.queries.as_of.snapshots import topology_events, topology_texts
from streaming.queries.duckdb_tables import QueryError, Row, Tables, iso
from streaming.queries.held_by_queue import held_by_queue
from streaming.queries.message_attributes import MessageId, as_json, decoded, document, present
from topology.suggestions import did_you_mean

_DECLARED: Final = "queue_declared"
_DELETED: Final = "queue_deleted"


class _Told(msgspec.Struct):
    """What a topology event says of a queue."""

    what: str | None = None
    name: str | None = None
    type: str | None = None


class QueueDepth(msgspec.Struct, frozen=True):
    """The depth of a queue.

    Attributes:
        type: classic or quorum; None if it was declared before the ledger began.
        bytes: size of the bodies, ready and unacked; `ready_bytes`: of those ready.
        oldest_at: when the oldest copy in it was enqueued.
    """

    vhost: str
    queue: str
    type: str | None
    ready: int
    unacked: int
    bytes: int
    oldest_at: str | None
    ready_bytes: int = 0


class QueueBytes(msgspec.Struct, frozen=True):
    """How much a queue holds, ready and unacked; `bytes` is the size of the bodies."""

    vhost: str
    queue: str
    messages: int
    bytes: int


def list_queues(tables: Tables, vhost: str | None = None) -> list[QueueDepth]:
    """List every declared queue, including empty ones, by vhost and name."""
    held = {(one.vhost, one.queue): one for one in held_by_queue(tables)}
    known = _declared(tables)
    types = {place: one.type for place, one in known.items()}
    places = {place for place, one in known.items() if one.what == _DECLARED} | held.keys()
    return [
        QueueDepth(*place, types.get(place), 0, 0, 0, None)
        if (one := held.get(place)) is None
        else QueueDepth(
            *place,
            types.get(place),
            one.ready,
            one.unacked,
            one.bytes,
            one.oldest_at,
            one.ready_bytes,
        )
        for place in sorted(places)
        if vhost in {None, place[0]}
    ]


def _declared(tables: Tables) -> dict[tuple[str, str], _Told]:
    """What was told last of each queue, by vhost and name."""
    known = topology_texts(tables)
    found: dict[tuple[str, str], _Told] = {}

    def tell(vhost: str, told: _Told) -> None:
        if told.name is not None and told.what in {_DECLARED, _DELETED}:
            found[vhost, told.name] = told

    for vhost, details in known.stored:
        for told in msgspec.json.decode(details, type=list[_Told]):
            tell(vhost, told)
    for vhost, _lane, _seq, detail in sorted(known.later, key=itemgetter(2)):
        tell(vhost, msgspec.json.decode(detail, type=_Told))
    return found


def largest_queues(tables: Tables, count: int) -> list[QueueBytes]:
    """The queues that hold the most bytes according to `queue_contents`, largest first."""
    tables.view("queue_contents", columns=["vhost", "queue", "body_bytes"])
    found = tables.rows(
        """
        SELECT vhost, queue, count(*) AS messages, sum(body_bytes)::BIGINT AS bytes
        FROM queue_contents GROUP BY ALL ORDER BY bytes DESC, vhost, queue LIMIT ?
        """,
        [count],
    )
    return [QueueBytes(**row) for row in found]


def peek(
    tables: Tables,
    queue: str,
    *,
    vhost: str | None = None,
    limit: int = 10,
    unacked: bool = False,
    first: int = 0,
    known: QueueDepth | None = None,
) -> list[Row]:
    """List what a queue holds, with bodies, the head first. Nothing is removed from it.

    The order is that of a get. Only a quorum queue may deviate from it: it serves messages of high
    and of normal priority two to one, and the tables do not know whose turn it is.

    Args:
        vhost: required if several vhosts have a queue of that name.
        unacked: list what its consumers hold instead of what is ready.
        first: how many messages precede the first that is listed.
        known: the queue, if it was looked up before.

    Raises:
        QueryError: there is no such queue, or several, or the user of the tables may not read it,
            or the tables do not exist.
    """
    contents = prepare_contents(tables)
    place = known
    if place is None:
        place = _find(list_queues(tables, vhost), queue, vhost)
    if not unacked:
        topology_events(tables)  # for its highest priority
    if tables.rights is not None:
        refusal = tables.rights.refusal(place.vhost, place.queue)
        if refusal is not None:
            raise QueryError(f"{refusal.code} {refusal.text}")
    run = tables.connection.execute
    run(  # a table, since DuckDB 2.0.0 drops a LIMIT on outer joins such as those inside
        f"""
        CREATE OR REPLACE TEMP TABLE waiting AS
        SELECT vhost, lane, copy_id, message_id, "position", 0 AS rank FROM ({contents})
        WHERE vhost = ? AND queue = ? AND state = ?
        """,
        [place.vhost, place.queue, "unacked" if unacked else "ready"],
    )
    top = None if unacked else _max_priority(tables, place)
    if top is not None:
        _rank_waiting(tables, top)
    run(
        f"""
        CREATE OR REPLACE TEMP TABLE head AS
        SELECT vhost, lane, copy_id, rank
        FROM waiting ORDER BY rank, "position", lane, copy_id LIMIT {limit} OFFSET {first}
        """
    )
    keys = [copy_id for (copy_id,) in tables.values("SELECT copy_id FROM head")]
    listed = ", ".join(map(str, sorted(keys))) or "NULL"  # lets Parquet skip row groups
    run(
        f"""
        CREATE OR REPLACE TEMP TABLE shown AS
        FROM (FROM ({contents}) WHERE copy_id IN ({listed}))
        JOIN head USING (vhost, lane, copy_id)
        """
    )
    tables.view("messages")
    found = tables.rows(
        f"""
        SELECT shown.* EXCLUDE (rank), base64(messages.body) AS body, messages.properties,
               messages.headers
        FROM shown LEFT JOIN (FROM messages WHERE {_range(tables)}) AS messages
        ON messages.topic_number = shown.message_id.topic_number
        AND messages."partition" = shown.message_id."partition"
        AND messages."offset" = shown.message_id."offset"
        ORDER BY shown.rank, shown."position", shown.lane, shown.copy_id
        """
    )
    return [
        {
            **row,
            "message_id": str(MessageId.of(row["message_id"]) or "") or None,
            "enqueued_at": iso(row["enqueued_at"]),
            "expires_at": iso(row["expires_at"]),
            "properties": present(row["properties"]),
            "headers": document(row["headers"]),
            "body": as_json(decoded(row["body"])),
        }
        for row in found
    ]


def _max_priority(tables: Tables, queue: QueueDepth) -> int | None:
    """The highest priority that a classic queue knows; None if it has no priorities."""
    found = tables.values(
        """
        SELECT TRY_CAST(detail ->> '$.declaration.arguments."x-max-priority"' AS BIGINT)
        FROM topology_event WHERE vhost = ? AND detail ->> '$.name' = ?
        AND detail ->> '$.what' = 'queue_declared' ORDER BY seq DESC LIMIT 1
        """,
        [queue.vhost, queue.queue],
    )
    return found[0][0] if found and queue.type != "quorum" else None


def _rank_waiting(tables: Tables, top: int) -> None:
    """Rank what is ready by its priority, the highest first."""
    columns = ["topic_number", "partition", "offset", "properties"]
    tables.view("messages", columns=columns, view="published")
    tables.connection.execute(
        f"""
        CREATE OR REPLACE TEMP TABLE waiting AS
        SELECT waiting.* REPLACE (-least(coalesce(published.properties.priority, 0), {top}) AS rank)
        FROM waiting LEFT JOIN (FROM published WHERE {_range(tables, "waiting")}) AS published
        ON published.topic_number = waiting.message_id.topic_number
        AND published."partition" = waiting.message_id."partition"
        AND published."offset" = waiting.message_id."offset"
        """
    )


def _range(tables: Tables, rows: str = "shown") -> str:
    """A condition that all messages of a table meet; it lets Parquet skip row groups."""
    [(least, greatest)] = tables.values(
        f'SELECT min(message_id."offset"), max(message_id."offset") FROM {rows}'
    )
    return "false" if least is None else f'"offset" BETWEEN {least} AND {greatest}'


def _find(queues: list[QueueDepth], queue: str, vhost: str | None) -> QueueDepth:
    found = [one for one in queues if one.queue == queue]
    match found:
        case [one]:
            return one
        case []:
            where = "" if vhost is None else f" in vhost {vhost!r}"
            hint = did_you_mean(queue, sorted({one.queue for one in queues}))
            hint = hint or ": `dlx queues list` shows what there is"
            raise QueryError(f"there is no queue {queue!r}{where}{hint}")
        case _:
            names = ", ".join(repr(one.vhost) for one in found)
            raise QueryError(f"several vhosts have a queue {queue!r}: {names}; choose one vhost")
