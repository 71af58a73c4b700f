"""`dlx queues`: what the queues hold, from the tables."""

from typing import Annotated, Final

import typer

from streaming.cli.command_group import command_group
from streaming.cli.exit_codes import EXIT_OK
from streaming.cli.job import declare
from streaming.cli.listing.table import WIDE_ONLY, Column, Listing, print_listing
from streaming.cli.listing.view import OutputOptions, listing
from streaming.cli.options import (
    ConfigFile,
    TablesLocation,
    VhostFilter,
)
from streaming.cli.output import preview
from streaming.cli.tables.history import AsOf, AsUser, diff, open_as_of
from streaming.cli.tables.vhost_objects import ARGUMENTS, VHOST, add_list_and_show

app = command_group(
    "queues",
    "Show, declare, delete and purge queues.",
    "dlx queues list --sort messages:desc",
    "dlx queues show work",
    "dlx queues peek work --count 3",
    "dlx queues declare work --type quorum --argument x-message-ttl=60000",
    "dlx queues purge work",
)

QueueName = Annotated[str, typer.Argument(metavar="QUEUE")]

QUEUES: Final = Listing(
    (
        Column("name", 0),
        VHOST,
        Column("type", 4),
        Column("messages", 3),
        Column("messages_ready", 1, "ready"),
        Column("messages_unacknowledged", 2, "unacked"),
        Column("consumers", 3),
        Column("policy", 2),
        Column("dead_letter_exchange", 1, "dead_letter", older="dlx"),
        Column("dead_letter_routing_key", 4, "dead_letter_key", older="dlx-key"),
        Column("oldest_at", 5, "oldest", "age"),
        Column("message_bytes", 6, "bytes"),
        Column("operator_policy", 5),
        Column("effective_settings", WIDE_ONLY, kind="free"),
        Column("durable", WIDE_ONLY),
        Column("auto_delete", WIDE_ONLY),
        Column("exclusive", WIDE_ONLY),
        ARGUMENTS._replace(rank=WIDE_ONLY),
    ),
    cells={"dead_letter_exchange": lambda name: "(default)" if name == "" else name},
)
_MESSAGE: Final = (
    Column("enqueued_at", 3, "enqueued", "instant"),
    Column("expires_at", 4, "expires", "age"),
    Column("returns", 4),
    Column("routing_key", 2, "key"),
    Column("body_bytes", 5, "bytes"),
    Column("body", 1, kind="free"),
)
_MORE: Final = (
    *("properties", "headers", "state", "vhost", "queue", "exchange"),
    *("query_id", "batch_id", "lane", "copy_id", "parent_copy_id", "position"),
)
_MESSAGE_ID: Final = Column("message_id", 0, "message")
_READY: Final = Listing(
    (_MESSAGE_ID, *_MESSAGE), more=("user", "channel", *_MORE), cells={"body": preview}
)
_UNACKED: Final = Listing(
    (_MESSAGE_ID, Column("user", 2), Column("channel", 2), *_MESSAGE),
    more=_MORE,
    cells={"body": preview},
)
"""Unacked messages with who holds them."""


add_list_and_show(
    app,
    "queue",
    QUEUES,
    lambda ask: ask.queue_settings(),
    one="one queue: contents, policies, and the settings that result",
    about="What they hold after the last batch, and the policy that applies. ",
)


@app.command()
@listing
def peek(
    queue: QueueName,
    *,
    count: Annotated[
        int, typer.Option("--count", "--limit", min=1, help="The most messages to show.")
    ] = 10,
    unacked: Annotated[
        bool, typer.Option("--unacked", help="Show unacked messages, and who holds them.")
    ] = False,
    vhost: VhostFilter = None,
    as_of: AsOf = None,
    as_user: AsUser = None,
    view: OutputOptions,
    tables: TablesLocation = None,
    config: ConfigFile = None,
) -> int:
    """Show the messages at the head of a queue, with bodies, without taking them.

    The order is that of a get, priorities included. Only a quorum queue may deviate from it, since
    it serves high and normal priorities two to one.
    """
    from streaming.queries.queues import list_queues
    from streaming.queries.queues import peek as peek_at
    from streaming.queries.vhosts.known_names import require_known

    contents = _UNACKED if unacked else _READY
    contents.check(view)
    with open_as_of(tables, config, as_of, as_user) as opened:
        if vhost is not None:
            require_known(opened, "vhost", vhost)
        rows = peek_at(opened, queue, vhost=vhost, limit=count, unacked=unacked)
        depths = list_queues(opened, vhost) if len(rows) == count else []
    state = "unacked" if unacked else "ready"
    total = sum(getattr(one, state) for one in depths if one.queue == queue)
    print_listing(
        contents,
        rows,
        view,
        nothing=f"no message is {state} in queue {queue!r}",
        total=total,
        what=f"{state} messages",
        remedy=f"--count {total}",
    )
    return EXIT_OK


app.command("diff")(diff)
app.command("declare")(declare.declare_queue)
app.command("delete")(declare.delete_queue)
app.command("purge")(declare.purge_queue)
