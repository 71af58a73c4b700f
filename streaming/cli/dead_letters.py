"""`dlx dead-letters`: looking through the dead letters, and into one message's life."""

from datetime import UTC, datetime
from typing import Annotated, Any, Final

import typer

from streaming.cli.durations import parse_since
from streaming.cli.exit_codes import EXIT_OK
from streaming.cli.output import print_json, print_rows
from streaming.cli.table_options import AsJson, TablesLocation, VhostFilter, open_tables
from topology.suggestions import did_you_mean

app = typer.Typer(
    name="dead-letters",
    help="Look through the dead letters.",
    epilog="Examples:\n\ndlx dead-letters list --queue work --reason rejected --since 2h\n\n"
    "dlx dead-letters list --where \"headers ->> 'tenant' = 'acme' AND count > 2\" --json\n\n"
    "dlx dead-letters show 1/0/42",
    no_args_is_help=True,
    rich_markup_mode=None,
)

_REASONS: Final = ("rejected", "expired", "maxlen", "delivery_limit", "orphaned")
_TITLES: Final = ("AT", "MESSAGE", "VHOST", "QUEUE", "REASON", "COUNT", "KEY", "WENT TO", "BYTES")


@app.command("list")
def list_(
    *,
    queue: Annotated[
        str | None, typer.Option("--queue", metavar="NAME", help="Those that died in this queue.")
    ] = None,
    reason: Annotated[
        str | None,
        typer.Option(
            "--reason",
            metavar="REASON",
            help="rejected, expired, maxlen, delivery_limit; orphaned with queue alternates.",
        ),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(
            "--since", metavar="TIME", help="A time ago (30s, 15m, 2h, 7d), or an instant."
        ),
    ] = None,
    where: Annotated[
        str | None,
        typer.Option("--where", metavar="SQL", help="A condition on the columns, in DuckDB's SQL."),
    ] = None,
    vhost: VhostFilter = None,
    limit: Annotated[
        int, typer.Option("--limit", min=0, help="At most so many, the latest; 0: all.")
    ] = 50,
    as_json: AsJson = False,
    tables: TablesLocation = None,
) -> int:
    """List dead letters, the latest first.

    One line is one death of one message. MESSAGE is what `dlx dead-letters show` takes.
    """
    instant = None if since is None else parse_since(since, datetime.now(UTC))
    if reason is not None and reason not in _REASONS:
        raise typer.BadParameter(
            f"{reason!r} is no reason{did_you_mean(reason, _REASONS)}: {', '.join(_REASONS)}",
            param_hint="--reason",
        )
    from streaming.queries.dead_letters import (
        DeadLetterFilter,
        list_dead_letters,
        queues_of_deaths,
    )

    wanted = DeadLetterFilter(vhost, queue, reason, instant, where, limit or None)
    with open_tables(tables) as opened:
        rows = list_dead_letters(opened, wanted)
        queues = [] if rows or queue is None else queues_of_deaths(opened)
    if as_json:
        for row in rows:
            print_json(row)
    elif rows:
        print_rows(_TITLES, (_line(row) for row in rows))
    elif queue is None or queue in queues:
        print("no dead letters")
    else:
        print(f"no dead letters: nothing has died in queue {queue!r}{did_you_mean(queue, queues)}")
    return EXIT_OK


def _line(row: dict[str, Any]) -> tuple[object, ...]:
    went = ", ".join(row["targets"] or []) or f"nowhere: {row['outcome']}"
    return (
        row["at"],
        row["message_id"],
        row["vhost"],
        row["queue"],
        row["reason"],
        row["count"],
        row["routing_key"],
        went,
        row["body_bytes"],
    )


@app.command()
def show(
    name: Annotated[
        str,
        typer.Argument(
            metavar="ID",
            help="topic number/partition/offset as `list` prints it, or the property message_id.",
        ),
    ],
    *,
    as_json: AsJson = False,
    tables: TablesLocation = None,
) -> int:
    """Tell the whole life of a message, with its body and headers."""
    from streaming.queries.message_history import history_of

    with open_tables(tables) as opened:
        life = history_of(opened, name)
    if as_json:
        print_json(life)
        return EXIT_OK
    from streaming.cli.colours import print_in_colour
    from streaming.cli.life_story import tell

    print_in_colour(tell(life))
    return EXIT_OK
