"""`dlx redrives approve`, `pause`, `resume` and `cancel`: send the commands of a redrive."""

import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from streaming.cli.exit_codes import EXIT_FINDINGS, EXIT_INVALID, EXIT_OK
from streaming.cli.options import JobOptions, job_options, job_options_without_vhost
from streaming.cli.output import lasting_stderr, printable
from streaming.user_folders import plans_folder
from topology.errors import DlxError

if TYPE_CHECKING:
    from streaming.client import Channel, Connection
    from streaming.client.admin import RedriveState
    from streaming.protocol.sealed_plan import SealedPlan

TYPED_ABOVE: Final = 100
"""A plan of more letters is approved by typing their number."""

POLL_S: Final = 1.0
_OPEN: Final = frozenset({"receiving", "running"})

RedriveId = Annotated[str, typer.Argument(metavar="ID", help="As `dlx redrives list` shows it.")]
Reason = Annotated[
    str, typer.Option("--reason", metavar="TEXT", help="Why; it is kept with the redrive.")
]


@job_options_without_vhost
def approve(
    name: Annotated[str, typer.Argument(metavar="PLAN", help="The id of a plan, or its file.")],
    *,
    reason: Reason,
    rate: Annotated[
        int | None, typer.Option("--rate", min=1, help="Letters a second. Default: no limit.")
    ] = None,
    ceiling: Annotated[
        int | None,
        typer.Option("--ceiling", min=1, help="Wait while the target has so many ready messages."),
    ] = None,
    canary: Annotated[
        int,
        typer.Option("--canary", min=0, help="Move this many, and wait until each is settled."),
    ] = 0,
    stop_after: Annotated[
        int | None, typer.Option("--stop-after", min=1, help="Stop if this many die again.")
    ] = None,
    stop_percent: Annotated[
        int | None,
        typer.Option(
            "--stop-percent",
            min=1,
            max=100,
            help="Stop if this share dies again, of ten settled letters or more.",
        ),
    ] = None,
    count: Annotated[
        int | None,
        typer.Option("--count", min=0, help="The number of letters, instead of being asked."),
    ] = None,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help=f"Do not ask, up to {TYPED_ABOVE} letters.")
    ] = False,
    follow: Annotated[
        bool | None,
        typer.Option(
            "--follow/--no-follow",
            help="Show progress until it ends. Default: only in a terminal.",
            show_default=False,
        ),
    ] = None,
    job: JobOptions,
) -> int:
    """Approve a sealed plan: the job moves its letters, each once.

    The redrive goes on if you close the terminal, and without one the command returns at once.
    Approving a plan again moves nothing. More than
    100 letters are confirmed by their number.

    Exit status: 0 if it has finished or goes on, 1 if it was stopped or paused, 2 if it was not
    confirmed.
    """
    import msgspec

    if not reason.strip():
        raise typer.BadParameter("is empty: say why", param_hint="--reason")
    plan = _read(name)
    options = msgspec.structs.replace(
        plan.options,
        rate=rate,
        ceiling=ceiling,
        canary=canary,
        stop_after=stop_after,
        stop_percent=stop_percent,
    )
    if not _confirmed(plan, count, yes=yes):
        return EXIT_INVALID
    with job.connect(plan.vhost) as connection:
        channel = connection.channel()
        state = channel.approve_redrive(plan, reason, options)
        if (sys.stderr.isatty() if follow is None else follow) and state.status in _OPEN:
            state = _followed(connection, channel, plan, state, canary)
    _print(state)
    if state.status in _OPEN:
        print("it goes on: the next line shows how far it is", file=sys.stderr)
    _print_next(state)
    return EXIT_FINDINGS if state.status in {"stopped", "paused"} else EXIT_OK


@job_options
def pause(redrive_id: RedriveId, *, reason: Reason, job: JobOptions) -> int:
    """Pause a redrive: no letter moves until it is resumed."""
    return _control(redrive_id, "pause", reason, job)


@job_options
def resume(redrive_id: RedriveId, *, reason: Reason, job: JobOptions) -> int:
    """Resume a redrive that was paused or has stopped."""
    return _control(redrive_id, "resume", reason, job)


@job_options
def cancel(redrive_id: RedriveId, *, reason: Reason, job: JobOptions) -> int:
    """Cancel a redrive: letters that have not moved stay where they are."""
    return _control(redrive_id, "cancel", reason, job)


def _control(redrive_id: str, action: str, reason: str, job: JobOptions) -> int:
    with job.connect() as connection:
        state = connection.channel().control_redrive(redrive_id, action, reason)
    _print(state)
    _print_next(state)
    return EXIT_OK


def _read(name: str) -> "SealedPlan":
    """Read a plan by its file or id.

    Raises:
        DlxError: there is none, or it is no sealed plan.
    """
    from streaming.protocol.sealed_plan import read_plan

    file = Path(name)
    kept = plans_folder() / f"{name}.json"
    if not file.is_file() and file.name == name and kept.is_file():
        file = kept
    try:
        data = file.read_bytes()
    except OSError as error:
        raise DlxError(
            f"{name}: there is no such plan: {error.strerror}; `dlx dead-letters redrive` makes one"
        ) from None
    return read_plan(data, str(file))


def _confirmed(plan: "SealedPlan", count: int | None, *, yes: bool) -> bool:
    """Ask the user, unless options answer."""
    letters, action = len(plan.letters), plan.options.action
    said = "1 letter" if letters == 1 else f"{letters} letters"
    if count is not None:
        if count != letters:
            raise DlxError(f"--count: the plan has {said}, not {count}")
        return True
    if yes and letters <= TYPED_ABOVE:
        return True
    if not sys.stdin.isatty():
        needed = f"--count {letters}" if letters > TYPED_ABOVE else "--yes"
        raise DlxError(f"{said} to {action}: confirm with {needed}")
    if letters > TYPED_ABOVE:
        typed = _typed(f"Type the number of letters to {action} ({letters}): ")
        agreed = typed.strip().replace(",", "") == str(letters)
    else:
        agreed = _typed(f"{action} {said}? [y/N] ").strip().lower() in {"y", "yes"}
    if not agreed:
        print("nothing was approved", file=sys.stderr)
    return agreed


def _typed(question: str) -> str:
    """Ask; the end of the input, or an interrupt, answers nothing."""
    try:
        return input(question)
    except (EOFError, KeyboardInterrupt):
        print()
        return ""


def _followed(
    connection: "Connection",
    channel: "Channel",
    plan: "SealedPlan",
    state: "RedriveState",
    canary: int,
) -> "RedriveState":
    """Show progress, and what it waits for, until a redrive is not running any more."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    console = Console(file=lasting_stderr())
    has_said = False
    try:
        with Progress(*columns, console=console, disable=not sys.stderr.isatty()) as progress:
            task = progress.add_task(state.id, total=state.total)
            while state.status in _OPEN:
                handled = state.moved + state.skipped + state.parked
                progress.update(task, completed=handled, description=f"{state.id} {state.status}")
                if not has_said and is_waiting(state, canary):
                    has_said = True
                    console.print(waiting_for(connection, plan, canary), markup=False)
                time.sleep(POLL_S)
                state = channel.control_redrive(state.id, "status", "")
            progress.update(task, completed=state.moved + state.skipped + state.parked)
    except KeyboardInterrupt:
        print("it goes on without this terminal", file=sys.stderr)
    return state


def is_waiting(state: "RedriveState", canary: int) -> bool:
    """Whether the canary letters have left and the others have not followed."""
    handled = state.moved + state.skipped + state.parked
    return 0 < state.moved <= canary <= handled < state.total


def waiting_for(connection: "Connection", plan: "SealedPlan", canary: int) -> str:
    """What a redrive waits for: its canary letters, and the consumers that they need."""
    from streaming.client import ClientError

    targets = [letter.target for letter in plan.letters[:canary]]
    names = dict.fromkeys(one.queue for one in targets if one is not None and one.queue is not None)
    idle = []
    for name in names:
        with suppress(ClientError), connection.channel() as asking:  # a missing queue closes it
            if not asking.declare_queue(name, passive=True).consumers:
                idle.append(name)
    said = "1 canary letter is" if canary == 1 else f"{canary} canary letters are"
    needed = f"; no consumer on {', '.join(idle)}" if idle else ""
    return f"the redrive waits until {said} settled{needed}"


def _print(state: "RedriveState") -> None:
    print(
        printable(
            f"{state.id} is {state.status}: {state.moved} of {state.total} letters moved, "
            f"{state.skipped} skipped, {state.parked} parked"
        )
    )


def _print_next(state: "RedriveState") -> None:
    print(printable(f"  dlx redrives show {state.id}"), file=sys.stderr)
