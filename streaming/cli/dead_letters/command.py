"""`dlx dead-letters`: lists dead letters and shows the history of one message."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from streaming.cli.dead_letters.export import export
from streaming.cli.dead_letters.filters import Filter, filtered
from streaming.cli.dead_letters.groups import groups, summary
from streaming.cli.exit_codes import EXIT_OK
from streaming.cli.job.dead_letters import get as get_dead_letter
from streaming.cli.listing.table import Column, Listing, print_listing
from streaming.cli.listing.view import View, listing, output
from streaming.cli.options import ConfigFile, TablesLocation, open_tables
from streaming.cli.output import compact, preview, print_in_colour, print_json, readable
from streaming.cli.tables.history import AsOf, open_as_of

if TYPE_CHECKING:
    from streaming.queries.message_history import MessageHistory

app = typer.Typer(
    name="dead-letters",
    help="List, count and export dead letters, show the history of a message, and get it.",
    epilog="Examples:\n\ndlx dead-letters summary\n\n"
    "dlx dead-letters groups --by queue,cause --since yesterday\n\n"
    "dlx dead-letters list --queue work --reason rejected --since 2h\n\n"
    "dlx dead-letters list --where \"headers ->> 'tenant' = 'acme' AND count > 2\" --json\n\n"
    "dlx dead-letters export letters.parquet --header tenant=acme\n\n"
    "dlx dead-letters show 1/0/42\n\ndlx dead-letters get 1/0/42",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Line = tuple[str, str]
"""A text and its tone; `output.COLOURS` lists the tones."""

DEAD_LETTERS: Final = Listing(
    (
        Column("at", 0, kind="instant"),
        Column("message_id", 0, "message"),
        Column("vhost", 1, identifies=True),
        Column("queue", 1),
        Column("reason", 1),
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
_EVENT_ROWS: Final = Listing(
    tuple(
        Column(name)
        for name in (
            *("at", "vhost", "lane", "seq", "kind", "copy_id", "parent_copy_id", "queue"),
            *("reason", "number", "position", "expires_at", "exchange", "routing_key"),
            *("user", "channel", "detail", "batch_id"),
        )
    )
)
_LOSSES: Final = {
    "no_exchange": "the dead-letter exchange does not exist or is not set",
    "no_route": "no queue is bound for it",
    "cycle": "it would enter a cycle",
    "refused": "its targets are full",
    "cascade_limit": "it has too many descendants",
    "rerouted_before": "it was rerouted before",
}
_EVENTS: Final = {
    "enqueued": "{copy} enters {queue}{origin}",
    "delivered": "{copy} of {queue} is delivered to {channel}{again}",
    "consumed": "{copy} of {queue} is delivered to {channel} with automatic ack",
    "acked": "{copy} of {queue} is acked by {channel}",
    "requeued": "{copy} returns to {queue}",
    "died": "{copy} of {queue} dies: {reason}{sent}",
    "rerouted": "{copy} of {queue} is rerouted: {reason}{sent}",
    "held": "{copy} of {queue} died ({reason}), kept until its targets take it",
    "purged": "{copy} is purged from {queue}",
    "deleted": "{copy} is lost: {queue} is deleted",
    "refused": "{queue} is full and refuses it",
    "unroutable": "no queue takes it: dropped",
    "returned": "no queue takes it: returned to its publisher ({code})",
    "publish_error": "refused: {error}",
}
_TONES: Final = {
    **dict.fromkeys(("died", "deleted", "purged", "refused", "unroutable", "publish_error"), "bad"),
    **dict.fromkeys(("acked", "consumed"), "good"),
    **dict.fromkeys(("requeued", "held", "rerouted", "returned"), "moved"),
}


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
    view: View,
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
    with open_as_of(tables, config, as_of) as opened:
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


@app.command()
@output
def show(
    name: Annotated[
        str,
        typer.Argument(
            metavar="ID",
            help="topic number/partition/offset as `list` prints it, or the property message_id.",
        ),
    ],
    *,
    view: View,
    tables: TablesLocation = None,
    config: ConfigFile = None,
) -> int:
    """Show the whole history of a message, with its body and headers.

    `-o csv` prints only its events.
    """
    from streaming.queries.message_history import history_of

    with open_tables(tables, config) as opened:
        history = history_of(opened, name)
    if view.output == "json":
        print_json(history)
    elif view.output == "csv":
        print_listing(_EVENT_ROWS, history.events, view)
    else:
        print_in_colour(_story(history))
    return EXIT_OK


def _story(history: "MessageHistory") -> Iterator[Line]:
    """The history from the publish to where the copies are now, as lines."""
    yield from _arrival(history)
    yield "", "plain"
    if not history.events:
        yield "nothing has happened to it yet", "quiet"
        return
    depth = _generations(history.events)
    for event in history.events:
        indent = "    " * depth.get(event["copy_id"], 0)
        at = f"{event['at']}  #{event['seq']}"
        yield f"{at}  {indent}{_event(event, history)}", _TONES.get(event["kind"], "plain")
    yield "", "plain"
    yield from _end(history)


def _arrival(history: "MessageHistory") -> Iterator[Line]:
    yield f"message {history.message_id}", "title"
    message = history.message
    if message is None:
        yield "  the table messages has no row for it; see `dlx balance`", "bad"
        return
    for line in _published(message):
        yield f"  {line}", "plain"


def _published(message: dict[str, Any]) -> Iterator[str]:
    origin = message["origin"]
    on_channel = f" on channel {message['channel']}" if message["channel"] else ""
    yield (
        f"published to exchange {message['exchange']!r} with key {message['routing_key']!r} in "
        f"vhost {message['vhost']!r} by {message['user']}{on_channel}"
    )
    yield (
        f"from topic {origin.get('topic')}, partition {message['partition']}, offset "
        f"{message['offset']}, at {origin.get('timestamp')}, in batch {message['batch_id']}"
    )
    flags = [flag for flag in ("mandatory", "immediate", "confirm") if message[flag]]
    if flags:
        yield f"flags: {', '.join(flags)}"
    for title in ("properties", "headers"):
        if message[title]:
            yield f"{title}: {compact(message[title])}"
    for header in message["kafka_headers"]:
        yield f"Kafka header {header['key']}: {readable(header['value'])}"
    yield f"body, {message['body_bytes']} bytes:"
    for line in readable(message["body"]).splitlines() or [""]:
        yield f"  {line}"


def _generations(events: list[dict[str, Any]]) -> dict[int | None, int]:
    """Copy -> how many deaths precede it."""
    depth: dict[int | None, int] = {}
    for event in events:
        copy_id, parent = event["copy_id"], event["parent_copy_id"]
        if copy_id is not None and copy_id not in depth:
            depth[copy_id] = 0 if parent is None else depth.get(parent, 0) + 1
    return depth


def _event(event: dict[str, Any], history: "MessageHistory") -> str:
    parent, number, kind = event["parent_copy_id"], event["number"], event["kind"]
    user = f" of {event['user']}" if event["user"] else ""
    is_death = kind in {"died", "rerouted"}
    return _EVENTS.get(kind, f"{kind} {{copy}} of {{queue}}").format(
        copy=f"copy {event['copy_id']}",
        queue=f"queue {event['queue']!r}",
        channel=f"channel {event['channel']!r}{user}",
        origin=f", from copy {parent}" if parent else "",
        again=f", requeued {number} times before" if number else "",
        reason=event["reason"],
        sent=_sent(event["seq"], history) if is_death else "",
        code=number,
        error=(event["detail"] or {}).get("text", ""),
    )


def _sent(seq: int, history: "MessageHistory") -> str:
    """Where a dead letter was sent, and why it was lost."""
    death = history.deaths.get(seq)
    if death is None:
        return "; dead_letters has no row for it"
    outcome = death["outcome"]
    loss = f"; lost: {_LOSSES.get(outcome, outcome)}" if outcome else ""
    if death["dead_letter_exchange"] is None:
        return loss
    targets = ", ".join(repr(target) for target in death["targets"])
    return (
        f"; sent to exchange {death['dead_letter_exchange']!r} with key "
        f"{death['dead_letter_routing_key']!r}{', to ' if targets else ''}{targets}{loss}"
    )


def _end(history: "MessageHistory") -> Iterator[Line]:
    places = {event["copy_id"]: event["queue"] for event in history.events if event["copy_id"]}
    for copy_id, state in sorted(history.now.items()):
        yield f"now: copy {copy_id} is {state} in queue {places[copy_id]!r}", "head"
    if not history.now:
        yield "now: no queue has a copy of it", "head"
    if history.deaths:
        yield "x-death after its last death, latest first:", "head"
        for death in history.deaths[max(history.deaths)]["x_death"]:
            times = f"{death['count']} time{'s' if death['count'] != 1 else ''}"
            keys = ", ".join(repr(key) for key in death["routing_keys"])
            place = f"  {death['reason']} in queue {death['queue']!r}, {times}, first at"
            origin = f"it came from exchange {death['exchange']!r} with keys {keys}"
            yield f"{place} {death['time']}; {origin}", "plain"
