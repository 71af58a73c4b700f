"""The main figures of all vhosts, from the tables."""

from datetime import datetime, timedelta

import msgspec

from streaming.queries.duckdb_tables import Row, Tables, iso
from streaming.queries.queues import list_queues
from streaming.queries.vhosts.clients import list_channels
from streaming.queries.vhosts.declared import declared

_RATES = """
    SELECT vhost, count(DISTINCT message_id) FILTER (WHERE kind IN ('enqueued', 'unroutable',
               'returned', 'refused', 'publish_error') AND parent_copy_id IS NULL) AS published,
           count(*) FILTER (WHERE kind IN ('delivered', 'consumed')) AS delivered,
           count(*) FILTER (WHERE kind IN ('acked', 'consumed')) AS acked,
           count(*) FILTER (WHERE kind = 'died') AS died
    FROM events WHERE vhost IS NOT NULL AND "at" > CAST(? AS TIMESTAMPTZ)
    GROUP BY vhost
"""


class Overview(msgspec.Struct, frozen=True):
    """What there is, by vhost, and how current it is.

    Attributes:
        vhosts: a row for each vhost; the counts of messages are those after the last batch, the
            counts of the last minute end with the last batch.
        batch_id, batch_at: the last batch; None before the first.
        quarantined: how many records are in quarantine.
    """

    batch_id: int | None
    batch_at: str | None
    quarantined: int
    vhosts: list[Row]


def overview(tables: Tables) -> Overview:
    """Compute the overview."""
    vhosts = declared(tables)
    depths = list_queues(tables)
    channels = list_channels(tables)
    tables.view("events")
    last = tables.rows(
        "SELECT batch_id, \"at\" FROM events WHERE kind = 'batch' "
        'ORDER BY "at" DESC, batch_id DESC LIMIT 1'
    )
    at = iso(last[0]["at"]) if last else None
    rates: dict[str, Row] = {}
    if at is not None:
        begin = datetime.fromisoformat(at) - timedelta(minutes=1)
        tables.view("events", files=tables.files("events", {"at": begin}))
        rates = {row["vhost"]: row for row in tables.rows(_RATES, [begin.isoformat()])}
    quarantined = 0
    if tables.has("quarantine"):
        tables.view("quarantine", columns=["cause"])
        [(quarantined,)] = tables.values("SELECT count(*) FROM quarantine")
    rows = []
    for name, each in vhosts.items():
        queues = [one for one in depths if one.vhost == name]
        open_channels = [one for one in channels if one["vhost"] == name]
        recent = rates.get(name, {})
        ready, unacked = (
            sum(getattr(one, part) for one in queues) for part in ("ready", "unacked")
        )
        rows.append(
            {
                "vhost": name,
                "queues": len(queues),
                "exchanges": len(each.exchanges),
                "bindings": len(each.bindings),
                "connections": len({one["user"] for one in open_channels}),
                "channels": len(open_channels),
                "consumers": sum(one["consumer_count"] for one in open_channels),
                "messages": ready + unacked,
                "messages_ready": ready,
                "messages_unacknowledged": unacked,
                "message_bytes": sum(one.bytes for one in queues),
                "published_last_minute": recent.get("published", 0),
                "delivered_last_minute": recent.get("delivered", 0),
                "acked_last_minute": recent.get("acked", 0),
                "dead_lettered_last_minute": recent.get("died", 0),
            }
        )
    return Overview(last[0]["batch_id"] if last else None, at, quarantined, rows)
