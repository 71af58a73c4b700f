"""`dlx dead-letters redrive`, `discard` and `restore`: make sealed plans; nothing moves yet."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from streaming.cli.dead_letters.filters import Filter
from streaming.cli.exit_codes import EXIT_OK
from streaming.cli.listing.table import Column, Listing, print_listing
from streaming.cli.listing.view import View
from streaming.cli.options import ConfigFile, TablesLocation, find_config, open_tables
from streaming.cli.output import print_json, printable
from streaming.user_folders import plans_folder
from topology.errors import DlxError

if TYPE_CHECKING:
    from streaming.queries.redrives.plan import Destination, RedrivePlan, RedriveWish

GROUPS = Listing(
    (
        Column("died_in", 0, "died in"),
        Column("reason", 0),
        Column("now_in", 0, "now in"),
        Column("goes_to", 0, "goes to"),
        Column("letters", 0),
        Column("expected", 0, kind="free"),
    )
)

Ids = Annotated[
    list[str] | None,
    typer.Option("--id", metavar="ID", help="Only this message, such as 1/0/42. May be repeated."),
]
Out = Annotated[
    Path | None,
    typer.Option(
        "--out", metavar="FILE", help="Write the sealed plan to a file. Default: kept by its id."
    ),
]
AsUser = Annotated[
    str | None,
    typer.Option("--as-user", metavar="NAME", help="Plan only over what this user may read."),
]


def redrive(
    *,
    which: Filter,
    ids: Ids = None,
    gone: Annotated[
        bool,
        typer.Option(
            "--gone",
            help="Letters that are in no queue any more: no queue took them, or they were acked, "
            "purged or deleted there. They are published again from their stored body.",
        ),
    ] = False,
    to: Annotated[
        str | None,
        typer.Option("--to", metavar="QUEUE", help="Send to this queue, not where it died."),
    ] = None,
    to_exchange: Annotated[
        str | None,
        typer.Option("--to-exchange", metavar="NAME", help="Publish to this exchange again."),
    ] = None,
    to_key: Annotated[
        str | None,
        typer.Option("--to-key", metavar="KEY", help="With --to-exchange: with this routing key."),
    ] = None,
    to_origin: Annotated[
        bool,
        typer.Option("--to-origin", help="Publish to the original exchange and key again."),
    ] = False,
    expiration: Annotated[
        Literal["drop", "keep", "restart"],
        typer.Option(
            "--expiration", help="What becomes of its expiration; keep counts from the publish."
        ),
    ] = "drop",
    x_death: Annotated[
        Literal["keep", "clear"],
        typer.Option("--x-death", help="Whether the header stays; the tables keep it always."),
    ] = "keep",
    cap: Annotated[
        int,
        typer.Option("--cap", min=1, help="Letters redriven this often already stay: parked."),
    ] = 3,
    key: Annotated[
        str,
        typer.Option(
            "--key",
            metavar="KEY",
            help="routing_key or header:NAME: tells if a later one of the same key was acked.",
        ),
    ] = "routing_key",
    as_user: AsUser = None,
    out: Out = None,
    view: View,
    tables: TablesLocation = None,
    config: ConfigFile = None,
) -> int:
    """Plan to send dead letters back; nothing moves until the plan is approved.

    A plan is sealed: it names the exact copies. It shows what would happen by the current topology.
    Letters go to the queue where they died unless an option says otherwise, the oldest first.
    `dlx redrives approve` moves them.
    """
    destination: Destination = "died"
    chosen = [option for option in (to, to_exchange, to_origin or None) if option is not None]
    if len(chosen) > 1:
        raise typer.BadParameter("give one of --to, --to-exchange and --to-origin")
    if to_key is not None and to_exchange is None:
        raise typer.BadParameter("needs --to-exchange", param_hint="--to-key")
    if to is not None:
        destination = "queue"
    elif to_exchange is not None:
        destination = "exchange"
    elif to_origin:
        destination = "original"
    if key != "routing_key" and not key.removeprefix("header:"):
        raise typer.BadParameter("expected routing_key or header:NAME", param_hint="--key")
    if key != "routing_key" and not key.startswith("header:"):
        what = f"cannot read {key!r}: expected routing_key or header:NAME"
        raise typer.BadParameter(what, param_hint="--key")
    options = {"expiration": expiration, "x_death": x_death, "cap": cap}
    wish = _wish(which, ids, options, as_user, config)
    import msgspec

    wish = msgspec.structs.replace(
        wish,
        gone=gone,
        destination=destination,
        name=to or to_exchange or "",
        routing_key=to_key,
        key=key,
    )
    return _plan(wish, which, out, view, tables, config)


def discard(
    *,
    which: Filter,
    ids: Ids = None,
    as_user: AsUser = None,
    out: Out = None,
    view: View,
    tables: TablesLocation = None,
    config: ConfigFile = None,
) -> int:
    """Plan to remove dead letters from their queues; nothing moves until the plan is approved.

    Their bodies stay in the tables, and `dlx dead-letters restore` brings them back.
    """
    wish = _wish(which, ids, {"action": "discard"}, as_user, config)
    return _plan(wish, which, out, view, tables, config)


def restore(
    *,
    which: Filter,
    ids: Ids = None,
    as_user: AsUser = None,
    out: Out = None,
    view: View,
    tables: TablesLocation = None,
    config: ConfigFile = None,
) -> int:
    """Plan to bring discarded letters back to their queues; nothing moves until it is approved."""
    wish = _wish(which, ids, {"action": "restore"}, as_user, config)
    return _plan(wish, which, out, view, tables, config)


def _wish(
    which: Filter,
    ids: list[str] | None,
    options: dict[str, Any],
    as_user: str | None,
    config: Path | None,
) -> "RedriveWish":
    import msgspec

    from streaming.broker.commands import RedriveOptions
    from streaming.queries.message_attributes import MessageId
    from streaming.queries.redrives.plan import RedriveWish

    messages = []
    for text in ids or ():
        message = MessageId.parse(text)
        if message is None:
            what = f"{text!r} is not an id such as 1/0/42; `dlx dead-letters list` shows ids"
            raise typer.BadParameter(what, param_hint="--id")
        messages.append(message)
    administrators: tuple[str, ...] = ()
    if as_user is not None:
        from streaming.config import read_config

        users = read_config(find_config(config)).users
        administrators = tuple(name for name, user in users.items() if user.administrator)
    return RedriveWish(
        wanted=msgspec.structs.replace(which.read(), ids=tuple(messages)),
        options=RedriveOptions(**options),
        user=as_user,
        administrators=administrators,
    )


def _plan(
    wish: "RedriveWish",
    which: Filter,
    out: Path | None,
    view: View,
    tables: str | None,
    config: Path | None,
) -> int:
    from streaming.queries.redrives.plan import plan_redrive

    with open_tables(tables, config) as opened:
        plan = plan_redrive(opened, wish)
        if not plan.sealed.letters and not plan.unacked:
            which.require_known(opened)
    name = _keep(plan, out) if plan.sealed.letters else None
    if view.output == "json":
        print_json(
            {
                "id": plan.sealed.id if name else None,
                "plan": name,
                "vhost": plan.sealed.vhost,
                "letters": len(plan.sealed.letters),
                "unacked": plan.unacked,
                "groups": plan.groups,
            }
        )
        return EXIT_OK
    rows = [
        {
            "died_in": group.died_in,
            "reason": group.reason,
            "now_in": group.now_in,
            "goes_to": group.goes_to or "nowhere",
            "letters": group.letters,
            "expected": ", ".join(f"{what}: {n}" for what, n in group.forecast.items()),
        }
        for group in plan.groups
    ]
    print_listing(GROUPS, rows, view, nothing=f"no letters to {wish.options.action}{which.said()}")
    if view.output == "table":
        _print_next(plan, name, wish.options.action)
    return EXIT_OK


def _print_next(plan: "RedrivePlan", name: str | None, action: str) -> None:
    if plan.unacked:
        held = "letter is" if plan.unacked == 1 else "letters are"
        print(f"{plan.unacked} {held} unacked with a consumer, and not in the plan")
    if name is not None:
        count = len(plan.sealed.letters)
        letters = "1 letter" if count == 1 else f"{count:,} letters"
        print(f"nothing has moved. The plan {name} is sealed: {letters} to {action}. Approve it:")
        print(printable(f"  dlx redrives approve {name} --reason 'why'"))


def _keep(plan: "RedrivePlan", out: Path | None) -> str:
    """Write a plan; return the name to approve it by."""
    file = out or plans_folder() / f"{plan.sealed.id}.json"
    try:
        if out is None:
            file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(plan.sealed.to_json())
    except OSError as error:
        raise DlxError(f"{file}: the plan cannot be written: {error.strerror}") from None
    if out is not None:
        print(printable(f"wrote {out}"), file=sys.stderr)
    return plan.sealed.id if out is None else str(out)
