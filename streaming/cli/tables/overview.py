"""`dlx overview`: the main figures of every vhost."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import msgspec

from streaming.cli.exit_codes import EXIT_OK
from streaming.cli.listing.table import Column, Listing, print_listing, print_record
from streaming.cli.listing.times import is_near, read_iso, relative, said
from streaming.cli.listing.view import OutputOptions, listing
from streaming.cli.options import ConfigFile, TablesLocation, VhostFilter
from streaming.cli.output import print_json
from streaming.cli.tables.history import AsOf, open_as_of
from streaming.cli.tables.vhost_objects import in_vhost

if TYPE_CHECKING:
    from streaming.queries.vhosts.overview import Overview

_VHOSTS: Final = Listing(
    (
        Column("vhost", 0),
        Column("queues", 1),
        Column("exchanges", 4),
        Column("bindings", 5),
        Column("connections", 4),
        Column("channels", 5),
        Column("consumers", 3),
        Column("messages", 2),
        Column("messages_ready", 1, "ready"),
        Column("messages_unacknowledged", 1, "unacked"),
        Column("message_bytes", 5, "bytes"),
        Column("published_last_minute", 3, "published/min"),
        Column("delivered_last_minute", 3, "delivered/min"),
        Column("acked_last_minute", 4, "acked/min"),
        Column("dead_lettered_last_minute", 3, "dead/min"),
    )
)


@listing
def overview(
    *,
    vhost: VhostFilter = None,
    as_of: AsOf = None,
    view: OutputOptions,
    tables: TablesLocation = None,
    config: ConfigFile = None,
) -> int:
    """Show the main figures: queues, messages and clients by vhost.

    The figures of the last minute end with the last batch. It reads the tables, so it also answers
    while no job runs.
    """
    from streaming.queries.vhosts.overview import overview as compute

    _VHOSTS.check(view)
    with open_as_of(tables, config, as_of) as opened:
        found = compute(opened)
        rows = in_vhost(opened, found.vhosts, vhost)
    if view.output == "json" and view.columns is None:
        print_json({**msgspec.to_builtins(found), "vhosts": rows})
        return EXIT_OK
    if len(rows) == 1 and view == OutputOptions():
        print_record(_VHOSTS, rows[0], view)
    else:
        print_listing(_VHOSTS, rows, view, nothing="no vhosts yet")
    if view.output == "table":
        print(_current(found))
    return EXIT_OK


def _current(found: "Overview") -> str:
    records = f"{found.quarantined:,} record{'' if found.quarantined == 1 else 's'} in quarantine"
    if found.batch_at is None:
        return f"no batch yet; {records}"
    now = datetime.now(UTC)
    ago = f" ({relative(found.batch_at, now)})" if is_near(found.batch_at, now) else ""
    at = said(read_iso(found.batch_at))
    return f"batch {found.batch_id} was the last, at {at}{ago}; {records}"
