"""Who uses the broker: channels, consumers and connections, from the events of channels.

Kafka has the real connections, and the job does not know them: a connection is a user of a vhost
with at least one open channel.
"""

from typing import Any, Final, NamedTuple

from streaming.queries.as_of.contents import prepare_contents
from streaming.queries.as_of.snapshots import channel_events
from streaming.queries.duckdb_tables import Row, Tables, iso

_TOLD: Final = """
    CREATE OR REPLACE TEMP TABLE told AS
    SELECT vhost, lane, {'at': "at", 'seq': seq} AS place, "at",
           detail ->> '$.what' AS what,
           CASE WHEN what IN ('channel_closed', 'consumer_cancelled') THEN detail ->> '$.user'
               ELSE "user" END AS "user",
           coalesce(detail ->> '$.name', channel) AS channel,
           queue, detail ->> '$.consumer' AS consumer,
           CAST(detail ->> '$.prefetch' AS BIGINT) AS prefetch,
           coalesce(CAST(detail ->> '$.auto_ack' AS BOOLEAN), false) AS auto_ack,
           coalesce(CAST(detail ->> '$.exclusive' AS BOOLEAN), false) AS exclusive,
           coalesce(CAST(detail ->> '$.priority' AS BIGINT), 0) AS priority,
           CAST(detail ->> '$.lease_ms' AS BIGINT) AS lease_ms
    FROM channel_event
"""
_CONSUMERS_BY: Final = """
    SELECT vhost{lane}, "user", channel, consumer, max_by(queue, place) AS queue,
           max_by(prefetch, place) AS prefetch, max_by(auto_ack, place) AS auto_ack,
           max_by(exclusive, place) AS exclusive, max_by(priority, place) AS priority,
           max("at") AS started_at
    FROM told WHERE what IN ('consumer_started', 'consumer_cancelled')
    GROUP BY vhost{lane}, "user", channel, consumer
    HAVING max_by(what, place) = 'consumer_started'
"""
_CHANNELS_BY: Final = """
    SELECT vhost{lane}, "user", channel,
           max_by(lease_ms, place) FILTER (WHERE what = 'channel_opened') AS lease_ms,
           max("at") FILTER (WHERE what = 'channel_opened') AS opened_at
    FROM told WHERE what IN ('channel_opened', 'channel_closed', 'consumer_started')
    GROUP BY vhost{lane}, "user", channel
    HAVING max_by(what, place) <> 'channel_closed'
"""
_ACTIVATED: Final = """
    SELECT vhost, queue, max_by("user", place), max_by(channel, place), max_by(consumer, place)
    FROM told WHERE what = 'consumer_activated' GROUP BY vhost, queue
"""
_CONSUMERS: Final = _CONSUMERS_BY.format(lane="")
_CHANNELS: Final = _CHANNELS_BY.format(lane="")


class LaneClients(NamedTuple):
    """Who uses each lane, by vhost, lane, user and name of the channel.

    Lanes differ only in what their timers have done: the lease of a channel may have expired on
    one, and not yet on another.

    Attributes:
        channels: the open channels; those that only consume or hold messages may be missing.
        consumers: also tag, queue, prefetch (0: no limit), and whether deliveries need no ack.
    """

    channels: list[tuple[str, int, str | None, str]]
    consumers: list[tuple[str, int, str | None, str, str, str, int, bool]]


def clients_of_lanes(tables: Tables) -> LaneClients:
    """Read who uses each lane, the oldest first."""
    _prepare(tables)
    lane = ", lane"
    return LaneClients(
        tables.values(
            "SELECT vhost, lane, \"user\", coalesce(channel, '') AS channel "
            f"FROM ({_CHANNELS_BY.format(lane=lane)}) ORDER BY opened_at, vhost, lane, channel"
        ),
        tables.values(
            "SELECT vhost, lane, \"user\", coalesce(channel, '') AS channel, consumer, queue, "
            f"coalesce(prefetch, 0), auto_ack FROM ({_CONSUMERS_BY.format(lane=lane)}) "
            "ORDER BY vhost, queue, channel, consumer, lane"
        ),
    )


def list_consumers(tables: Tables) -> list[Row]:
    """List the consumers, with RabbitMQ's names of columns.

    `active`: whether it gets messages; of the consumers of a queue with a single active one, only
    that.
    """
    _prepare(tables)
    found = tables.rows(f"{_CONSUMERS} ORDER BY vhost, queue, channel, consumer")
    activated = {(vhost, queue): who for vhost, queue, *who in tables.values(_ACTIVATED)}
    active = {
        (row["vhost"], row["queue"])
        for row in found
        if activated.get((row["vhost"], row["queue"])) == _who(row)
    }
    return [
        {
            "queue_name": row["queue"],
            "vhost": row["vhost"],
            "user": row["user"],
            "channel": row["channel"],
            "consumer_tag": row["consumer"],
            "ack_required": not row["auto_ack"],
            "prefetch_count": row["prefetch"],
            "exclusive": row["exclusive"],
            "priority": row["priority"],
            "active": (row["vhost"], row["queue"]) not in active
            or activated[row["vhost"], row["queue"]] == _who(row),
            "started_at": iso(row["started_at"]),
        }
        for row in found
    ]


def _who(row: Row) -> list[Any]:
    return [row["user"], row["channel"], row["consumer"]]


def consumer_counts(tables: Tables) -> dict[tuple[str, str], int]:
    """How many consumers a queue has, by vhost and queue."""
    _prepare(tables)
    sql = f"SELECT vhost, queue, count(*) FROM ({_CONSUMERS}) GROUP BY ALL"
    return {(vhost, queue): count for vhost, queue, count in tables.values(sql)}


def list_channels(tables: Tables) -> list[Row]:
    """List the open channels: those that were opened, consume, or hold messages."""
    contents = prepare_contents(tables)
    tables.connection.execute(
        'CREATE OR REPLACE TEMP TABLE holders AS SELECT vhost, "user", channel, count(*) AS held '
        f"FROM ({contents}) WHERE state = 'unacked' GROUP BY ALL"
    )
    _prepare(tables)
    found = tables.rows(
        f"""
        WITH consuming AS (
            SELECT vhost, "user", channel, count(*) AS consumers FROM ({_CONSUMERS}) GROUP BY ALL)
        SELECT places.*, coalesce(consumers, 0) AS consumers, coalesce(held, 0) AS held,
               lease_ms, opened_at
        FROM (SELECT vhost, "user", channel FROM ({_CHANNELS})
              UNION SELECT vhost, "user", channel FROM holders) AS places
        LEFT JOIN ({_CHANNELS}) AS opened ON {_same("opened")}
        LEFT JOIN consuming ON {_same("consuming")}
        LEFT JOIN holders ON {_same("holders")}
        ORDER BY vhost, "user", channel
        """
    )
    return [
        {
            "name": row["channel"],
            "vhost": row["vhost"],
            "user": row["user"],
            "consumer_count": row["consumers"],
            "messages_unacknowledged": row["held"],
            "lease_ms": row["lease_ms"],
            "opened_at": iso(row["opened_at"]),
        }
        for row in found
    ]


def list_connections(tables: Tables) -> list[Row]:
    """List the users that have open channels, by vhost."""
    found: dict[tuple[str, str | None], dict[str, Any]] = {}
    for channel in list_channels(tables):
        row = found.setdefault(
            (channel["vhost"], channel["user"]),
            {
                "user": channel["user"],
                "vhost": channel["vhost"],
                "channels": 0,
                "consumers": 0,
                "messages_unacknowledged": 0,
                "opened_at": channel["opened_at"],
            },
        )
        row["channels"] += 1
        row["consumers"] += channel["consumer_count"]
        row["messages_unacknowledged"] += channel["messages_unacknowledged"]
        row["opened_at"] = min(filter(None, (row["opened_at"], channel["opened_at"])), default=None)
    return list(found.values())


def open_channels(tables: Tables) -> set[tuple[str, str]]:
    """The vhosts and names of the channels that are open or hold messages, if only on one lane."""
    found = {(row["vhost"], row["name"]) for row in list_channels(tables) if row["name"]}
    clients = clients_of_lanes(tables)
    found |= {(vhost, name) for vhost, _lane, _user, name in clients.channels}
    return found | {(vhost, name) for vhost, _lane, _user, name, *_ in clients.consumers}


def known_channels(tables: Tables) -> list[str]:
    """The names of all channels that were ever open."""
    _prepare(tables)
    sql = "SELECT DISTINCT channel FROM told WHERE channel IS NOT NULL ORDER BY ALL"
    return [name for (name,) in tables.values(sql)]


def _prepare(tables: Tables) -> None:
    channel_events(tables)
    tables.connection.execute(_TOLD)


def _same(table: str) -> str:
    return " AND ".join(
        f"places.{name} IS NOT DISTINCT FROM {table}.{name}"
        for name in ("vhost", '"user"', "channel")
    )
