"""`dlx queues`: what is in the queues, from the tables."""

from enum import StrEnum
from typing import Annotated, Any

import typer

from streaming.cli.connection_options import (
    DEFAULT_CONFIG,
    DEFAULT_TIMEOUT_S,
    DEFAULT_USER,
    DEFAULT_VHOST,
    ConfigFile,
    Timeout,
    User,
    Vhost,
    connected,
)
from streaming.cli.exit_codes import EXIT_OK
from streaming.cli.output import preview, print_json, print_rows
from streaming.cli.table_options import AsJson, TablesLocation, VhostFilter, open_tables

app = typer.Typer(
    name="queues",
    help="See what is in the queues.",
    epilog="Examples:\n\ndlx queues list\n\ndlx queues peek work --count 3",
    no_args_is_help=True,
    rich_markup_mode=None,
)


class SortBy(StrEnum):
    """What queues can be listed by; the numbers, the greatest first."""

    NAME = "name"
    READY = "ready"
    UNACKED = "unacked"
    BYTES = "bytes"


@app.command("list")
def list_(
    *,
    vhost: VhostFilter = None,
    sort: Annotated[
        SortBy, typer.Option("--sort", help="By name, or the greatest first.")
    ] = SortBy.NAME,
    as_json: AsJson = False,
    tables: TablesLocation = None,
) -> int:
    """List the queues, empty ones too, with what they hold after the last batch."""
    from streaming.queries.queues import list_queues

    with open_tables(tables) as opened:
        queues = list_queues(opened, vhost)
    if sort != SortBy.NAME:
        queues.sort(key=lambda queue: getattr(queue, sort.value), reverse=True)
    if as_json:
        for queue in queues:
            print_json(queue)
    elif queues:
        titles = ("VHOST", "QUEUE", "TYPE", "READY", "UNACKED", "BYTES", "OLDEST")
        print_rows(
            titles,
            (
                (
                    queue.vhost,
                    queue.queue,
                    queue.type,
                    queue.ready,
                    queue.unacked,
                    queue.bytes,
                    queue.oldest_at,
                )
                for queue in queues
            ),
        )
    else:
        print("no queues")
    return EXIT_OK


@app.command()
def peek(
    queue: Annotated[str, typer.Argument(metavar="QUEUE")],
    *,
    count: Annotated[int, typer.Option("--count", min=1, help="At most so many.")] = 10,
    unacked: Annotated[
        bool, typer.Option("--unacked", help="What its consumers hold, not what is ready.")
    ] = False,
    vhost: VhostFilter = None,
    as_json: AsJson = False,
    tables: TablesLocation = None,
) -> int:
    """Show the head of a queue, bodies included; nothing is taken from it.

    The order is that of the queue, but for priorities, which the tables do not order by.
    """
    from streaming.queries.queues import peek as look

    with open_tables(tables) as opened:
        rows = look(opened, queue, vhost=vhost, limit=count, unacked=unacked)
    if as_json:
        for row in rows:
            print_json(row)
    elif rows:
        titles = ("MESSAGE", "ENQUEUED", "EXPIRES", "RETURNS", "KEY", "BYTES", "BODY")
        print_rows(titles, (_line(row) for row in rows))
    else:
        print(f"no message is {'unacked' if unacked else 'ready'} in queue {queue!r}")
    return EXIT_OK


@app.command()
def purge(
    queue: Annotated[str, typer.Argument(metavar="QUEUE")],
    *,
    config: ConfigFile = DEFAULT_CONFIG,
    user: User = DEFAULT_USER,
    vhost: Vhost = DEFAULT_VHOST,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
) -> int:
    """Remove all ready messages from a queue of a running job; they are not dead-lettered."""
    with connected(config, user, vhost, timeout) as connection:
        purged = connection.channel().purge_queue(queue)
        lanes = connection.address.lanes
    others = "" if lanes == 1 else f" in lane 0 of {lanes}, and all there were in the others"
    print(f"{purged} messages purged from queue {queue!r}{others}")
    return EXIT_OK


def _line(row: dict[str, Any]) -> tuple[object, ...]:
    return (
        row["message_id"],
        row["enqueued_at"],
        row["expires_at"],
        row["returns"],
        row["routing_key"],
        row["body_bytes"],
        preview(row["body"]),
    )
