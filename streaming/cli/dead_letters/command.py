"""`dlx dead-letters`: lists dead letters and shows the history of one message."""

from typing import Annotated, Final

import typer

from streaming.cli.command_group import command_group
from streaming.cli.dead_letters.editing import editing
from streaming.cli.dead_letters.export import export
from streaming.cli.dead_letters.filters import Filter, filtered
from streaming.cli.dead_letters.groups import groups, summary
from streaming.cli.dead_letters.planning import discard, planned, redrive, restore
from streaming.cli.dead_letters.show import show
from streaming.cli.exit_codes import EXIT_OK
from streaming.cli.job.dead_letters import get as get_dead_letter
from streaming.cli.listing.table import Column, Listing, print_listing
from streaming.cli.listing.view import OutputOptions, listing, output
from streaming.cli.options import ConfigFile, TablesLocation
from streaming.cli.output import preview
from streaming.cli.tables.history import AsOf, AsUser, open_as_of

app = command_group(
    "dead-letters",
    "List, count, explain, get, export and redrive dead letters.",
    "dlx dead-letters summary",
    "dlx dead-letters groups --by queue,cause --since yesterday",
    "dlx dead-letters list --queue work --reason rejected --since 2h",
    "dlx dead-letters list --where \"headers ->> 'tenant' = 'acme' AND count > 2\" --json",
    "dlx dead-letters list --where \"decode(body) ->> 'order' = '17'\"",
    "dlx dead-letters export letters.parquet --header tenant=acme",
    "dlx dead-letters show 1/0/42",
    "dlx dead-letters get 1/0/42",
    "dlx dead-letters redrive --queue work --reason rejected",
    "dlx dead-letters redrive --id 1/0/42",
    "dlx redrives approve r-25d3a7490719 --reason 'the service is fixed'",
    "dlx redrives show r-25d3a7490719",
)

DEAD_LETTERS: Final = Listing(
    (
        Column("at", 0, kind="instant"),
        Column("message_id", 0, "message"),
        Column("vhost", 1, identifies=True),
        Column("queue", 1),
        Column("reason", 1),
        Column("cause", 5, kind="free"),
        Column("count", 4),
        Column("routing_key", 3, "key"),
        Column("went_to", 2),
        Column("body_bytes", 6, "bytes"),
    ),
    more=(
        *("targets", "outcome", "exchange", "routing_keys", "dead_letter_exchange"),
        *("dead_letter_routing_key", "x_death", "first_death", "last_death", "properties"),
        *("headers", "kafka_headers", "origin", "body", "query_id", "batch_id", "lane", "seq"),
        *("copy_id", "parent_copy_id"),
    ),
    cells={"body": preview},
)
_STORED: Final = (
    *("at", "vhost", "queue", "reason", "count", "routing_key", "body_bytes", "exchange"),
    *("outcome", "dead_letter_exchange", "dead_letter_routing_key", "message_id"),
)
"""The columns by which the tables sort before the limit applies."""


@app.command("list")
@filtered
@listing
def list_(
    *,
    which: Filter,
    limit: Annotated[
        int, typer.Option("--limit", min=0, help="List only this many, the latest; 0: all.")
    ] = 50,
    as_of: AsOf = None,
    as_user: AsUser = None,
    view: OutputOptions,
    tables: TablesLocation = None,
    config: ConfigFile = None,
) -> int:
    """List dead letters, latest first.

    One line is one death of one message. `dlx dead-letters show` takes a MESSAGE_ID.
    """
    DEAD_LETTERS.check(view)
    from msgspec.structs import replace

    from streaming.queries.dead_letters.letters import count_dead_letters, list_dead_letters

    order, count = None, limit or None
    if view.sort is not None:
        column = DEAD_LETTERS.column(view.sort[0], "--sort").name
        order = (column, view.sort[1]) if column in _STORED else None
        count = None if order is None else count
    with open_as_of(tables, config, as_of, as_user) as opened:
        wanted = replace(which.read(), limit=count, order=order)
        rows = list_dead_letters(opened, wanted)
        total = count_dead_letters(opened, wanted) if len(rows) == limit else len(rows)
        if not rows:
            which.require_known(opened)
    for row in rows:
        row["went_to"] = ", ".join(row["targets"] or []) or f"nowhere: {row['outcome']}"
    print_listing(
        DEAD_LETTERS,
        rows,
        view,
        nothing=f"no dead letters{which.said()}",
        limit=limit,
        total=total,
        what=f"dead letters{which.period()}",
        notes=which.notes(total <= (limit or total)),
    )
    return EXIT_OK


app.command("groups")(filtered(listing(groups)))
app.command("summary")(filtered(output(summary)))
app.command("export")(filtered(export))
app.command("get")(get_dead_letter)
app.command("show")(output(show))
app.command("redrive")(filtered(editing(planned(output(redrive)))))
app.command("discard")(filtered(planned(output(discard))))
app.command("restore")(filtered(planned(output(restore))))
