"""`dlx queues`: what the queues hold, from the tables."""

from operator import attrgetter
from typing import Annotated, Literal

import typer

from streaming.cli.exit_codes import EXIT_OK
from streaming.cli.job import declare
from streaming.cli.options import (
    ConfigFile,
    TablesLocation,
    VhostFilter,
    open_tables,
)
from streaming.cli.output import AsJson, preview, print_found

app = typer.Typer(
    name="queues",
    help="Show, declare, delete and purge queues.",
    epilog="Examples:\n\ndlx queues list\n\ndlx queues peek work --count 3\n\n"
    "dlx queues declare work --type quorum --argument x-message-ttl=60000\n\n"
    "dlx queues purge work",
    no_args_is_help=True,
    rich_markup_mode=None,
)

QueueName = Annotated[str, typer.Argument(metavar="QUEUE")]


@app.command("list")
def list_(
    *,
    vhost: VhostFilter = None,
    sort: Annotated[
        Literal["name", "ready", "unacked", "bytes"],
        typer.Option("--sort", help="Sort by name, or by a number, largest first."),
    ] = "name",
    as_json: AsJson = False,
    tables: TablesLocation = None,
    config: ConfigFile = None,
) -> int:
    """List all queues and what they hold after the last batch."""
    from streaming.queries.queues import list_queues

    with open_tables(tables, config) as opened:
        queues = list_queues(opened, vhost)
    if sort != "name":
        queues.sort(key=lambda queue: getattr(queue, sort), reverse=True)
    titles = ("VHOST", "QUEUE", "TYPE", "READY", "UNACKED", "BYTES", "OLDEST")
    cells = attrgetter("vhost", "queue", "type", "ready", "unacked", "bytes", "oldest_at")
    print_found(queues, titles, cells, as_json=as_json, nothing="no queues")
    return EXIT_OK


@app.command()
def peek(
    queue: QueueName,
    *,
    count: Annotated[int, typer.Option("--count", min=1, help="The most messages to show.")] = 10,
    unacked: Annotated[
        bool, typer.Option("--unacked", help="Show unacked messages instead of ready ones.")
    ] = False,
    vhost: VhostFilter = None,
    as_json: AsJson = False,
    tables: TablesLocation = None,
    config: ConfigFile = None,
) -> int:
    """Show the messages at the head of a queue, with bodies, without taking them.

    The order is that of the queue, except that priorities are ignored.
    """
    from streaming.queries.queues import peek as peek_at

    with open_tables(tables, config) as opened:
        rows = peek_at(opened, queue, vhost=vhost, limit=count, unacked=unacked)
    titles = ("MESSAGE", "ENQUEUED", "EXPIRES", "RETURNS", "KEY", "BYTES", "BODY")
    columns = ("message_id", "enqueued_at", "expires_at", "returns", "routing_key", "body_bytes")
    print_found(
        rows,
        titles,
        lambda row: (*(row[name] for name in columns), preview(row["body"])),
        as_json=as_json,
        nothing=f"no message is {'unacked' if unacked else 'ready'} in queue {queue!r}",
    )
    return EXIT_OK


app.command("declare")(declare.declare_queue)
app.command("delete")(declare.delete_queue)
app.command("purge")(declare.purge_queue)
