"""`list` and `show` of `dlx exchanges|bindings|policies|permissions` and of `dlx clients`.

They read the tables, so they also answer while no job runs: the topology comes from the events of
declarations, channels and consumers from the events of channels. `queues` has its own file.
"""

import shlex
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from streaming.cli.command_group import CommandGroup, command_group
from streaming.cli.exit_codes import EXIT_OK
from streaming.cli.job.declare import bind, unbind
from streaming.cli.job.declare import exchanges_app as exchanges
from streaming.cli.job.permissions import app as permissions
from streaming.cli.job.policies import app as policies
from streaming.cli.listing.table import (
    WIDE_ONLY,
    Column,
    Listing,
    Row,
    print_listing,
    print_record,
)
from streaming.cli.listing.view import OutputOptions, listing, record
from streaming.cli.options import ConfigFile, TablesLocation, VhostFilter
from streaming.cli.tables.history import AsOf, open_as_of

if TYPE_CHECKING:
    from streaming.queries.api import Queries
    from streaming.queries.duckdb_tables import Tables
    from streaming.queries.result import RowsResult

VHOST: Final = Column("vhost", 1, identifies=True)
ARGUMENTS: Final = Column("arguments", 7, kind="free")
_SOURCE: Final = "It reads the tables, so it also answers while no job runs."

Name = Annotated[str, typer.Argument(metavar="NAME")]


bindings = command_group(
    "bindings",
    "List, declare and delete bindings.",
    "dlx bindings list",
    "dlx bindings show orders",
    "dlx bindings declare orders work --routing-key 'order.#'",
)
bindings.command("declare")(bind)
bindings.command("delete")(unbind)
channels = command_group(
    "channels",
    "Show open channels.",
    "dlx clients channels list --sort name",
    "dlx clients channels show clerk",
)
consumers = command_group(
    "consumers",
    "Show consumers.",
    "dlx clients consumers list",
    "dlx clients consumers show worker-1",
)
connections = command_group(
    "connections",
    "Show which users have open channels.",
    "dlx clients connections list",
    "dlx clients connections show anna",
)
clients = command_group(
    "clients", "Show channels, consumers and connections.", "dlx clients consumers list"
)
for _group in (channels, consumers, connections):
    clients.add_typer(_group, cls=CommandGroup)


def add_list_and_show(
    app: typer.Typer,
    noun: str,
    columns: Listing,
    question: Callable[["Queries"], "RowsResult"],
    *,
    keys: tuple[str, ...] = ("name",),
    plural: str = "",
    one: str = "",
    about: str = "",
) -> None:
    """Add the commands `list` and `show NAME` to the app of a noun.

    Args:
        question: asks for all of them.
        keys: the columns that hold the name; if they are several, `show` prints a table.
        one: what `show` shows, if it is not one of the noun.
    """
    plural = plural or f"{noun}s"

    def asked(tables: "Tables") -> list[Row]:
        from streaming.queries.api import Queries

        return question(Queries(tables)).rows()

    @listing
    def list_(
        *,
        vhost: VhostFilter = None,
        as_of: AsOf = None,
        view: OutputOptions,
        tables: TablesLocation = None,
        config: ConfigFile = None,
    ) -> int:
        columns.check(view)
        with open_as_of(tables, config, as_of) as opened:
            found = in_vhost(opened, asked(opened), vhost)
        place = "" if vhost is None else f" in vhost {vhost!r}"
        print_listing(columns, found, view, nothing=f"no {plural}{place}")
        return EXIT_OK

    def show(
        name: Name,
        *,
        vhost: VhostFilter = None,
        as_of: AsOf = None,
        view: OutputOptions,
        tables: TablesLocation = None,
        config: ConfigFile = None,
    ) -> int:
        columns.check(view)
        with open_as_of(tables, config, as_of) as opened:
            found = named(opened, asked(opened), noun, name, vhost, keys)
        if len(keys) > 1 or not found:
            print_listing(columns, found, view, nothing=f"{name!r} has no {plural}")
        else:
            print_records(columns, found, view)
        return EXIT_OK

    app.command("list", help=f"List the {plural}.\n\n{about}{_SOURCE}")(list_)
    what = (
        f"Show the {plural} of an exchange or queue."
        if len(keys) > 1
        else f"Show {one or f'one {noun}'}."
    )
    app.command("show", help=what)((listing if len(keys) > 1 else record)(show))


def print_records(columns: Listing, found: list[Row], view: OutputOptions) -> None:
    """Print what `show` found: more than one if several vhosts or users have the name."""
    if view.output != "table":
        print_listing(columns, found, view)
        return
    for number, row in enumerate(found):
        if number:
            print()
        print_record(columns, row, view)


def in_vhost(tables: "Tables", rows: list[Row], vhost: str | None) -> list[Row]:
    """The rows of a vhost, or all.

    Raises:
        QueryError: the tables do not know that vhost.
    """
    from streaming.queries.vhosts.known_names import require_known

    if vhost is None:
        return rows
    require_known(tables, "vhost", vhost)
    return [row for row in rows if row["vhost"] == vhost]


def named(
    tables: "Tables",
    rows: list[Row],
    noun: str,
    name: str,
    vhost: str | None,
    keys: tuple[str, ...] = ("name",),
) -> list[Row]:
    """The rows of a name, of one vhost or of all; none if the name is known but has nothing.

    Raises:
        QueryError: nothing has that name; the text says which name is most similar.
    """
    from streaming.queries.duckdb_tables import QueryError
    from streaming.queries.vhosts.known_names import check_name, known_names

    rows = in_vhost(tables, rows, vhost)
    found = [row for row in rows if name in {row[key] for key in keys}]
    if not found and noun == "queue" and name in known_names(tables, "queue", vhost):
        raise QueryError(
            f"queue {name!r} was deleted; its messages are still in the tables: `dlx dead-letters "
            f"list --queue {shlex.quote(name)}`"
        )
    if not found:
        known = [row[key] or "" for row in rows for key in keys]
        place = "" if vhost is None else f" in vhost {vhost!r}"
        if noun == "user":
            known += known_names(tables, "user", vhost)
        if len(keys) > 1:
            noun = "exchange or queue"
            known += known_names(tables, "exchange", vhost) + known_names(tables, "queue", vhost)
        check_name(noun, name, known, place)
    return found


_DEFAULT_EXCHANGE: Final[Mapping[str, Any]] = {
    "name": lambda name: name or "(default)",
    "source_name": lambda name: name or "(default)",
}

add_list_and_show(
    exchanges,
    "exchange",
    Listing(
        (
            Column("name", 0),
            VHOST,
            Column("type", 1),
            Column("bindings", 3),
            Column("alternate_exchange", 4, "alternate"),
            Column("policy", 4),
            Column("durable", 6),
            Column("auto_delete", 6),
            Column("internal", 6),
            ARGUMENTS,
        ),
        cells=_DEFAULT_EXCHANGE,
    ),
    lambda ask: ask.exchanges(),
)
add_list_and_show(
    bindings,
    "binding",
    Listing(
        (
            Column("source_name", 0, "source"),
            Column("source_kind", WIDE_ONLY),
            Column("destination_name", 0, "destination"),
            Column("destination_type", 2, "type"),
            Column("routing_key", 1, "key"),
            ARGUMENTS,
            VHOST,
        ),
        more=("destination_kind",),
        cells=_DEFAULT_EXCHANGE,
    ),
    lambda ask: ask.bindings(),
    keys=("source_name", "destination_name"),
    about="The bindings that the default exchange implies are left out. ",
)
add_list_and_show(
    policies,
    "policy",
    Listing(
        (
            VHOST,
            Column("name", 0),
            Column("pattern", 1),
            Column("apply-to", 3),
            Column("definition", 2, kind="free"),
            Column("priority", 3),
            Column("operator", 3),
            Column("applies", 4),
        )
    ),
    lambda ask: ask.policies(),
    plural="policies",
    about="Operator policies are among them. `applies` counts the queues and exchanges that a "
    "policy governs: of several that match, the one with the highest priority. ",
)
add_list_and_show(
    permissions,
    "user",
    Listing(
        (
            Column("user", 0),
            VHOST,
            Column("configure", 1),
            Column("write", 1),
            Column("read", 1),
        )
    ),
    lambda ask: ask.permissions(),
    keys=("user",),
    plural="permissions",
    one="the permissions of one user",
)
add_list_and_show(
    channels,
    "channel",
    Listing(
        (
            Column("name", 0),
            VHOST,
            Column("user", 1),
            Column("consumer_count", 2, "consumers"),
            Column("messages_unacknowledged", 2, "unacked"),
            Column("lease_ms", 5),
            Column("opened_at", 4, "opened", "age"),
        )
    ),
    lambda ask: ask.channels(),
)
add_list_and_show(
    consumers,
    "consumer",
    Listing(
        (
            Column("queue_name", 0, "queue"),
            VHOST,
            Column("channel", 2),
            Column("consumer_tag", 0, "consumer"),
            Column("ack_required", 4, "ack"),
            Column("prefetch_count", 3, "prefetch"),
            Column("exclusive", 5),
            Column("priority", 5),
            Column("active", 4),
            Column("user", 2),
            Column("started_at", 4, "started", "age"),
        )
    ),
    lambda ask: ask.consumers(),
    keys=("consumer_tag",),
)
add_list_and_show(
    connections,
    "user",
    Listing(
        (
            Column("user", 0),
            VHOST,
            Column("channels", 1),
            Column("consumers", 2),
            Column("messages_unacknowledged", 2, "unacked"),
            Column("opened_at", 4, "opened", "age"),
        )
    ),
    lambda ask: ask.connections(),
    keys=("user",),
    plural="connections",
    one="the connection of one user",
    about="A connection is a user of a vhost with open channels: clients talk to Kafka, and the "
    "job does not see their connections. ",
)
