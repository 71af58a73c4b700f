"""Beside the queues: exchanges, and who is connected; live from the front if there is one."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from streaming.console.front_clients import FrontError, Kind, plain_rows
from streaming.console.page import PAGE_ROWS, Answer, View
from streaming.queries.duckdb_tables import Row
from streaming.queries.vhosts.clients import list_channels, list_connections, list_consumers
from streaming.queries.vhosts.listings import exchange_rows
from topology.sentences import say

_TITLES: Final[dict[Kind, str]] = {
    "connections": say("Connections"),
    "channels": say("Channels"),
    "consumers": say("Consumers"),
}
_TYPES: Final = ("", "direct", "fanout", "topic", "headers")


class Source(NamedTuple):
    """Where rows are from.

    Attributes:
        is_live: from the front.
        fault: why the front did not answer; empty: it did, or there is none to ask.
        total: how many the front has, if that is more than it was asked for.
        at: when it was so.
    """

    is_live: bool
    fault: str = ""
    total: int = 0
    at: datetime | None = None


def exchanges(view: View) -> Answer:
    """List the exchanges."""
    view.title = say("Exchanges")
    view.command = view.dlx("exchanges", "list")
    kind = view.one_of("type", *_TYPES)
    rows = view.of_topology(
        f"exchanges {sorted(view.declared)}", lambda: exchange_rows(view.declared)
    )
    found = [row for row in rows if kind in {"", row["type"]}]
    return {**_page(view, found, ("name",)), "type": kind, "types": _TYPES}


def connections(view: View) -> Answer:
    """List the connections."""
    return _clients(view, "connections", ("user", "name", "client"))


def channels(view: View) -> Answer:
    """List the channels."""
    return _clients(view, "channels", ("user", "name"))


def consumers(view: View) -> Answer:
    """List the consumers."""
    return _clients(view, "consumers", ("queue", "user", "channel", "tag"))


def _clients(view: View, kind: Kind, searched: Sequence[str]) -> Answer:
    view.title = _TITLES[kind]
    view.command = view.dlx("clients", kind, "list")
    rows, source = _rows(view, kind)
    return {**_page(view, rows, searched), "source": source}


def _rows(view: View, kind: Kind) -> tuple[list[Row], Source]:
    """Ask the front, or the tables if the page is of the past or the front is silent."""
    front = view.console.front_clients
    fault = ""
    if front is not None and view.as_of is None:
        try:
            found = front.rows(kind)
        except FrontError as error:
            fault = error.args[0]
        else:
            at = datetime.fromtimestamp(found.at_s, UTC)
            more = found.total if found.total > len(found.rows) else 0
            return list(plain_rows(kind, found.rows)), Source(is_live=True, total=more, at=at)
    known = {
        "connections": lambda: [_connection(one) for one in view.once(kind, list_connections)],
        "channels": lambda: [_channel(one) for one in view.once(kind, list_channels)],
        "consumers": lambda: [_consumer(one) for one in view.once("consumer rows", list_consumers)],
    }[kind]()
    return known, Source(is_live=False, fault=fault, at=view.known_until)


def _connection(row: Row) -> Row:
    since = row["opened_at"]
    return {
        "vhost": row["vhost"],
        "user": row["user"],
        "name": None,
        "client": "",
        "channels": row["channels"],
        "tls": None,
        "state": None,
        "since_s": None if since is None else datetime.fromisoformat(since).timestamp(),
    }


def _channel(row: Row) -> Row:
    return {
        "vhost": row["vhost"],
        "user": row["user"],
        "name": row["name"],
        "consumers": row["consumer_count"],
        "unacked": row["messages_unacknowledged"],
        "prefetch": None,
        "confirm": None,
    }


def _consumer(row: Row) -> Row:
    return {
        "vhost": row["vhost"],
        "queue": row["queue_name"],
        "user": row["user"],
        "channel": row["channel"],
        "tag": row["consumer_tag"],
        "ack": row["ack_required"],
        "prefetch": row["prefetch_count"],
        "exclusive": row["exclusive"],
        "active": row["active"],
    }


def _page(view: View, rows: Sequence[Row], searched: Sequence[str]) -> dict[str, Any]:
    """A page of the rows that the user may see and the filter lets through."""
    wanted = view.text("name", "") or ""
    found = [
        row
        for row in rows
        if isinstance(row["vhost"], str)
        and view.sees(row["vhost"])
        and any(wanted.lower() in str(row[name] or "").lower() for name in searched)
    ]
    first = (view.page - 1) * PAGE_ROWS
    return {
        "rows": found[first : first + PAGE_ROWS],
        "total": len(found),
        "size": PAGE_ROWS,
        "name": wanted,
    }
