"""`dlx dead-letters redrive`, `discard` and `restore`: make sealed plans; nothing moves yet."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, NamedTuple

import typer

from streaming.cli.dead_letters.editing import EditOptions
from streaming.cli.dead_letters.filters import Filter
from streaming.cli.exit_codes import EXIT_OK
from streaming.cli.listing.table import Column, Listing, print_listing
from streaming.cli.listing.times import read_iso, said
from streaming.cli.listing.view import OutputOptions
from streaming.cli.option_groups import Command, options_of, with_options
from streaming.cli.options import ConfigFile, TablesLocation, known_users
from streaming.cli.output import print_in_colour, print_json, printable
from streaming.cli.tables.history import open_as_of
from streaming.user_folders import plans_folder
from topology.errors import DlxError

if TYPE_CHECKING:
    from streaming.queries.redrives.edits import LetterEdit
    from streaming.queries.redrives.plan import Destination, RedrivePlan, RedriveWish
    from streaming.queries.redrives.risks import Risk

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

_SHOWN_EDITS: Final = 3


class Planning(NamedTuple):
    """Which letters a plan is about besides its filter, for whom it is, and where it goes.

    Attributes:
        ids: the names of these messages; none: every message.
        as_user: refuse what this user may not do.
        out: the file of the plan; None: kept by its id.
        tables, config: where to ask.
    """

    ids: tuple[str, ...]
    as_user: str | None
    out: Path | None
    tables: str | None
    config: Path | None

    def wish(self, which: Filter, **more: Any) -> "RedriveWish":
        """What is to be planned; `more` are members of the wish and of its options."""
        from streaming.broker.redrive_letters import RedriveOptions
        from streaming.queries.redrives.plan import RedriveWish

        options = {
            name: more.pop(name) for name in RedriveOptions.__struct_fields__ if name in more
        }
        administrators: tuple[str, ...] = ()
        editors: tuple[str, ...] = ()
        if self.as_user is not None:
            users = known_users(self.tables, self.config)
            administrators = tuple(name for name, user in users.items() if user.administrator)
            editors = tuple(name for name, user in users.items() if user.edit_letters)
        return RedriveWish(
            wanted=which.read(),
            options=RedriveOptions(**options),
            user=self.as_user,
            administrators=administrators,
            editors=editors,
            **more,
        )


def _planning(
    ids: Annotated[
        list[str] | None,
        typer.Option(
            "--id",
            metavar="ID",
            help="Only this message, named as for `dlx dead-letters show`. May be repeated.",
        ),
    ] = None,
    as_user: Annotated[
        str | None,
        typer.Option("--as-user", metavar="NAME", help="Plan only over what this user may read."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="FILE",
            help="Write the sealed plan to a file. Default: kept by its id.",
        ),
    ] = None,
    tables: TablesLocation = None,
    config: ConfigFile = None,
) -> Planning:
    """Read the options."""
    return Planning(tuple(ids or ()), as_user, out, tables, config)


def planned(command: Command) -> Command:
    """Give a command the options of a plan; it receives them as its parameter `planning`."""
    return with_options(command, "planning", options_of(_planning), _planning)


def redrive(
    *,
    which: Filter,
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
    to_first: Annotated[
        bool, typer.Option("--to-first", help="Send to the queue where each first died.")
    ] = False,
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
    every_copy: Annotated[
        bool,
        typer.Option(
            "--every-copy",
            help="Send each copy of a message. Default: one copy to each target; the others stay.",
        ),
    ] = False,
    edits: EditOptions,
    planning: Planning,
    view: OutputOptions,
) -> int:
    """Plan a redrive, which sends dead letters back; nothing moves until the plan is approved.

    A plan is sealed: it names the exact copies. It shows what would happen by the current topology.
    Letters go to the queue where they died unless an option says otherwise, the oldest first.
    `dlx redrives approve` moves them. An edited letter is a new version; the original stays in the
    tables. Only users with edit_letters in dlx.toml may approve edits.
    """
    destination: Destination = "died"
    given = (to, to_exchange, to_origin or None, to_first or None)
    chosen = [option for option in given if option is not None]
    if len(chosen) > 1:
        raise typer.BadParameter("give one of --to, --to-exchange, --to-first and --to-origin")
    if to_key is not None and to_exchange is None:
        raise typer.BadParameter("needs --to-exchange", param_hint="--to-key")
    if to is not None:
        destination = "queue"
    elif to_exchange is not None:
        destination = "exchange"
    elif to_origin:
        destination = "original"
    elif to_first:
        destination = "first"
    kind, colon, name = key.partition(":")
    if key != "routing_key" and not (kind == "header" and colon and name):
        what = f"cannot read {key!r}: expected routing_key or header:NAME"
        raise typer.BadParameter(what, param_hint="--key")
    wish = planning.wish(
        which,
        expiration=expiration,
        x_death=x_death,
        cap=cap,
        gone=gone,
        destination=destination,
        name=to or to_exchange or "",
        routing_key=to_key,
        key=key,
        every_copy=every_copy,
    )
    return _plan(wish, which, planning, view, edits)


def discard(*, which: Filter, planning: Planning, view: OutputOptions) -> int:
    """Plan to remove dead letters from their queues; nothing moves until the plan is approved.

    Their bodies stay in the tables, and `dlx dead-letters restore` brings them back.
    """
    return _plan(planning.wish(which, action="discard"), which, planning, view)


def restore(*, which: Filter, planning: Planning, view: OutputOptions) -> int:
    """Plan to bring discarded letters back to their queues; nothing moves until it is approved."""
    return _plan(planning.wish(which, action="restore"), which, planning, view)


def _plan(
    wish: "RedriveWish",
    which: Filter,
    planning: Planning,
    view: OutputOptions,
    edits: EditOptions | None = None,
) -> int:
    from msgspec.structs import replace

    from streaming.queries.message_history import message_named
    from streaming.queries.redrives.plan import content_of_letter, plan_redrive

    with open_as_of(planning.tables, planning.config, None, planning.as_user) as opened:
        ids = tuple(message_named(opened, name) for name in planning.ids)
        wish = replace(wish, wanted=replace(wish.wanted, ids=ids))
        if edits is not None:
            wish = replace(wish, edit=edits.wish(lambda: content_of_letter(opened, wish)))
        plan = plan_redrive(opened, wish)
        if not plan.sealed.letters and not plan.unacked:
            which.require_known(opened)
    name = _keep(plan, planning.out) if plan.sealed.letters else None
    if view.output == "json":
        print_json(
            {
                "id": plan.sealed.id if name else None,
                "plan": name,
                "vhost": plan.sealed.vhost,
                "letters": len(plan.sealed.letters),
                "unacked": plan.unacked,
                "copies": plan.copies,
                "groups": plan.groups,
                "edits": plan.edits,
                "risks": plan.risks,
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
    if plan.copies:
        are = "letter is a copy" if plan.copies == 1 else "letters are copies"
        print(f"{plan.copies} {are} of a message that goes or went there already, and not in the")
        print("plan: --every-copy sends each copy")
    for risk in plan.risks:
        print_in_colour(_risk_lines(risk))
    for edit in plan.edits[:_SHOWN_EDITS]:
        print_in_colour(_edit_lines(edit))
    if len(plan.edits) > _SHOWN_EDITS:
        print(f"and {len(plan.edits) - _SHOWN_EDITS} more edits: --json shows them")
    if name is not None:
        count = len(plan.sealed.letters)
        letters = "1 letter" if count == 1 else f"{count:,} letters"
        print(f"nothing has moved. The plan {name} is sealed: {letters} to {action}. Approve it:")
        print(printable(f"  dlx redrives approve {name} --reason 'why'"))


def _risk_lines(risk: "Risk") -> Iterator[tuple[str, str]]:
    if risk.change is not None:
        what = f"{risk.change.what} {risk.change.name} ({said(read_iso(risk.change.at))})"
        yield f"{what} is still the latest change of {risk.queue} before these deaths:", "bad"
        yield "letters may die of it again", "bad"
    if risk.is_final:
        text = (
            f"no dead-letter exchange takes what dies in {risk.queue} again: a death there is final"
        )
        yield text, "bad"


def _edit_lines(edit: "LetterEdit") -> Iterator[tuple[str, str]]:
    yield f"edit of {edit.message_id}, {edit.original[:12]} -> {edit.version[:12]}", "head"
    for line in edit.diff:
        yield f"  {line}", "good" if line.startswith("+") else "bad"


def _keep(plan: "RedrivePlan", out: Path | None) -> str:
    """Write a plan; return the name to approve it by."""
    from streaming.queries.redrives.kept_plans import keep_plan, write_private

    file = out or plans_folder() / f"{plan.sealed.id}.json"
    try:
        if out is None:
            keep_plan(plan)
        else:
            write_private(out, plan.sealed.to_json())
    except OSError as error:
        raise DlxError(f"{file}: the plan cannot be written: {error.strerror}") from None
    if out is not None:
        print(printable(f"wrote {out}"), file=sys.stderr)
    return plan.sealed.id if out is None else str(out)
