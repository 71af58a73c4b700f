"""`dlx redrives`: lists redrives and shows what became of each letter."""

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Final

import typer

from streaming.cli.command_group import command_group
from streaming.cli.exit_codes import EXIT_OK
from streaming.cli.job import redrives as job_commands
from streaming.cli.listing.table import Column, Listing, print_listing
from streaming.cli.listing.view import OutputOptions, listing
from streaming.cli.options import ConfigFile, TablesLocation, VhostFilter
from streaming.cli.output import print_in_colour, print_json
from streaming.cli.tables.history import AsOf, open_as_of

if TYPE_CHECKING:
    from streaming.queries.redrives.outcomes import RedriveOutcome

app = command_group(
    "redrives",
    "Approve and control redrives, and follow their letters.",
    "dlx dead-letters redrive --queue work",
    "dlx redrives approve r-25d3a7490719 --reason 'the service is fixed' --canary 5",
    "dlx redrives show r-25d3a7490719",
    "dlx redrives pause r-25d3a7490719 --reason 'too fast'",
)

REDRIVES: Final = Listing(
    (
        Column("requested_at", 0, "requested", kind="instant"),
        Column("id", 0),
        Column("vhost", 1, identifies=True),
        Column("action", 2),
        Column("status", 0),
        Column("total", 0),
        Column("moved", 0),
        Column("acked", 0),
        Column("died", 0),
        Column("waiting", 0),
        Column("skipped", 1),
        Column("parked", 2),
        Column("user", 2),
        Column("reason", 1, kind="free"),
    ),
    more=("changed_at",),
)
LETTERS: Final = Listing(
    (
        Column("message_id", 0, "message"),
        Column("came_from", 1, "from"),
        Column("went_to", 1, "to"),
        Column("fate", 0),
        Column("reason", 0),
        Column("moved_at", 2, "moved", kind="instant"),
        Column("ended_at", 1, "ended", kind="instant"),
    ),
    more=("copy_id", "lane", "version"),
)


@app.command("list")
@listing
def list_(
    *,
    vhost: VhostFilter = None,
    as_of: AsOf = None,
    view: OutputOptions,
    tables: TablesLocation = None,
    config: ConfigFile = None,
) -> int:
    """List redrives, latest first, with what became of their letters."""
    REDRIVES.check(view)
    from streaming.queries.redrives.outcomes import list_redrives

    with open_as_of(tables, config, as_of) as opened:
        rows = list_redrives(opened, vhost)
    print_listing(REDRIVES, rows, view, nothing="no redrives", what="redrives")
    return EXIT_OK


@app.command()
@listing
def show(
    redrive_id: Annotated[
        str, typer.Argument(metavar="ID", help="As `dlx redrives list` shows it.")
    ],
    *,
    limit: Annotated[
        int, typer.Option("--limit", min=0, help="List only this many letters; 0: all.")
    ] = 50,
    vhost: VhostFilter = None,
    as_of: AsOf = None,
    view: OutputOptions,
    tables: TablesLocation = None,
    config: ConfigFile = None,
) -> int:
    """Show what became of each letter: acked, died again and why, waiting, or skipped and why.

    `-o csv` lists the letters only.
    """
    LETTERS.check(view)
    from streaming.queries.redrives.outcomes import outcome_of

    with open_as_of(tables, config, as_of) as opened:
        outcome = outcome_of(opened, redrive_id, vhost)
    if view.output == "json" and view.columns is None:
        print_json(outcome)
        return EXIT_OK
    if view.output == "table":
        print_in_colour(_summary(outcome))
    print_listing(LETTERS, outcome.letters, view, limit=limit, what="letters")
    return EXIT_OK


def _summary(outcome: "RedriveOutcome") -> Iterator[tuple[str, str]]:
    row = outcome.redrive
    user = row["user"] or "the operator"
    yield f"{row['action']} {row['id']} is {row['status']}", "title"
    yield f"  requested {row['requested_at']} by {user}: {row['reason']}", "plain"
    fates = Counter(
        (letter["fate"], letter["reason"] if letter["fate"] != "waiting" else None)
        for letter in outcome.letters
    )
    edited = sum(letter["version"] is not None for letter in outcome.letters)
    edits = f", edited: {edited}" if edited else ""
    yield f"  sealed: {row['total']}, moved: {row['moved']}{edits}", "plain"
    for (fate, reason), count in sorted(fates.items(), key=lambda item: -item[1]):
        tone = {"acked": "good", "died": "bad"}.get(fate, "plain")
        yield f"  {count} {fate}{f': {reason}' if reason else ''}", tone
    if outcome.new_deaths:
        yield f"  {outcome.new_deaths} other messages died there meanwhile", "bad"
    yield "", "plain"


app.command("approve")(job_commands.approve)
app.command("pause")(job_commands.pause)
app.command("resume")(job_commands.resume)
app.command("cancel")(job_commands.cancel)
