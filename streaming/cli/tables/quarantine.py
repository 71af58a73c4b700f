"""`dlx quarantine`: records that the job could not understand."""

from typing import Annotated, Any, Final

import typer

from streaming.cli.command_group import command_group
from streaming.cli.exit_codes import EXIT_OK
from streaming.cli.listing.table import Column, Listing, print_listing, print_record
from streaming.cli.listing.times import Since, Until, range_said, time_range
from streaming.cli.listing.view import OutputOptions, listing, record
from streaming.cli.options import ConfigFile, TablesLocation, open_tables
from streaming.cli.output import readable

app = command_group(
    "quarantine",
    "Show records that could not be understood.",
    "dlx quarantine list --since yesterday",
    "dlx quarantine show 1/0/42",
)

_RECORDS: Final = Listing(
    (
        Column("at", 0, kind="instant"),
        Column("id", 0),
        Column("topic", 3),
        Column("cause", 1),
        Column("detail", 2, kind="free"),
    ),
    more=(
        *("end_offset", "record_key", "record_value", "kafka_headers", "origin"),
        *("query_id", "batch_id", "topic_number", "partition", "offset"),
    ),
    cells={"record_key": readable, "record_value": readable},
    whole="`dlx quarantine show ID`",
)


@app.command("list")
@listing
def list_(
    *,
    cause: Annotated[
        str | None, typer.Option("--cause", metavar="WORD", help="Only records with this cause.")
    ] = None,
    topic: Annotated[
        str | None, typer.Option("--topic", metavar="NAME", help="Only records of this topic.")
    ] = None,
    since: Since = None,
    until: Until = None,
    limit: Annotated[
        int, typer.Option("--limit", min=0, help="List only this many, the latest; 0: all.")
    ] = 50,
    view: OutputOptions,
    tables: TablesLocation = None,
    config: ConfigFile = None,
) -> int:
    """List quarantined records, the latest first.

    `dlx quarantine show` takes an ID. The time is that of the Kafka record.
    """
    from streaming.queries.quarantine import known_values, list_quarantine
    from streaming.queries.vhosts.known_names import check_name

    _RECORDS.check(view)
    begin, end = time_range(since, until)
    count = None if limit == 0 or view.sort is not None else limit
    with open_tables(tables, config) as opened:
        rows, total = list_quarantine(
            opened, cause=cause, topic=topic, since=begin, until=end, limit=count
        )
        if not rows:
            causes, topics = known_values(opened)
            if cause is not None and causes:
                check_name("cause of a quarantined record", cause, causes)
            if topic is not None and topics:
                check_name("topic with a quarantined record", topic, topics)
    period = range_said(begin, end)
    chosen = "" if cause is None else f" with cause {cause!r}"
    chosen += "" if topic is None else f" of topic {topic!r}"
    print_listing(
        _RECORDS,
        rows,
        view,
        nothing=f"no record{chosen} is in quarantine{period}",
        limit=limit,
        total=total,
        what=f"records{chosen}{period}",
    )
    return EXIT_OK


@app.command()
@record
def show(
    name: Annotated[
        str,
        typer.Argument(metavar="ID", help="topic number/partition/offset as `list` prints it."),
    ],
    *,
    view: OutputOptions,
    tables: TablesLocation = None,
    config: ConfigFile = None,
) -> int:
    """Show one quarantined record: what is wrong with it, its key, headers and value."""
    from streaming.queries.quarantine import quarantined

    _RECORDS.check(view)
    with open_tables(tables, config) as opened:
        found: dict[str, Any] = quarantined(opened, name)
    print_record(_RECORDS, found, view)
    return EXIT_OK
