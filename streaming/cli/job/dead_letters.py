"""`dlx dead-letters get`: get one dead letter from wherever it is now."""

import shlex
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from streaming.cli import options
from streaming.cli.exit_codes import EXIT_FINDINGS, EXIT_OK
from streaming.cli.job.deliveries import DELIVERIES, AutoAck, print_deliveries
from streaming.cli.listing.view import OutputOptions, listing
from streaming.cli.options import JobOptions, job_options_without_vhost
from streaming.cli.output import printable
from streaming.protocol.defaults import DEFAULT_USER, DEFAULT_VHOST
from topology.errors import DlxError

if TYPE_CHECKING:
    from streaming.queries.message_history import MessageHistory


class CopyState(NamedTuple):
    """A queue that has a copy of a message, and whether the copy is ready or unacked."""

    vhost: str
    queue: str
    state: str


@listing
@job_options_without_vhost
def get(
    message: Annotated[
        str,
        typer.Argument(
            metavar="ID",
            help="topic number/partition/offset as `list` prints it, or the property message_id.",
        ),
    ],
    *,
    queue: Annotated[
        str | None,
        typer.Option("--queue", metavar="NAME", help="If several queues have a copy of it."),
    ] = None,
    auto_ack: AutoAck = False,
    channel: options.ChannelName = options.DEFAULT_CHANNEL,
    lease: options.Lease = options.DEFAULT_LEASE_S,
    view: OutputOptions,
    tables: options.TablesLocation = None,
    vhost: options.VhostFilter = None,
    job: JobOptions,
) -> int:
    """Get a dead letter, wherever it is in its queue; the messages around it stay.

    The tables say which queue has it; a running job delivers it. Settle it with `dlx ack` (remove
    it) or `dlx reject` (--requeue puts it back to its place).

    Exit status: 1 if no queue has it ready.
    """
    DELIVERIES.check(view)
    with options.open_tables(tables, job.file) as opened:
        from streaming.queries.message_history import history_of

        history = history_of(opened, message)
    place = ready_place(history, queue, vhost)
    where = f"queue {place.queue!r} of vhost {place.vhost!r}"
    with job.connect(place.vhost) as connection:
        # A queue that is missing closes the channel that asks: not the one of other deliveries.
        connection.channel().declare_queue(place.queue, passive=True)
        with options.shared_channel(connection, channel, lease) as shared:
            deliveries = shared.get_many(
                place.queue, 1, auto_ack=auto_ack, message=history.message_id
            )
    print_deliveries(deliveries, view)
    if not deliveries:
        print(
            f"message {history.message_id} has just left {where}: "
            f"`dlx dead-letters show {history.message_id}` shows where it went",
            file=sys.stderr,
        )
        return EXIT_FINDINGS
    done = "acknowledged, so removed"
    if not auto_ack:
        options_of_ack = {
            "--channel": (channel, options.DEFAULT_CHANNEL),
            "--user": (job.user, DEFAULT_USER),
            "--vhost": (place.vhost, DEFAULT_VHOST),
            "--config": (str(job.config or ""), ""),
        }
        done = f"`{ack_command(deliveries[0].delivery_id, options_of_ack)}` removes it"
    text = f"message {history.message_id} comes from {where}: {done}"
    print(printable(text), file=sys.stderr)
    return EXIT_OK


def ack_command(delivery_id: str, given: Mapping[str, tuple[str, str]]) -> str:
    """Return the command that settles a delivery.

    Args:
        given: the value of each option and its default, which need not be written.
    """
    words = ["dlx", "ack", delivery_id]
    for option, (value, default) in given.items():
        if value != default:
            words += [option, value]
    return shlex.join(words)


def ready_place(history: "MessageHistory", queue: str | None, vhost: str | None) -> CopyState:
    """Return the one queue that has the message ready.

    Raises:
        DlxError: no queue has it, it was never dead-lettered, it is unacked, or several have it.
    """
    of_copy = {event["copy_id"]: event for event in history.events if event["copy_id"] is not None}
    everywhere = sorted(
        {
            CopyState(of_copy[copy]["vhost"], of_copy[copy]["queue"], state)
            for copy, state in history.now.items()
        }
    )
    message = f"message {history.message_id}"
    show = f"`dlx dead-letters show {history.message_id}` shows its history"
    if not everywhere:
        raise DlxError(f"no queue has {message} any more; {show}")
    if not history.deaths:
        queue_of = everywhere[0]
        given = [queue_of.queue, "--message", history.message_id]
        if queue_of.vhost != DEFAULT_VHOST:
            given += ["--vhost", queue_of.vhost]
        raise DlxError(
            f"{message} was never dead-lettered; it is in {_names(everywhere)}: "
            f"`dlx get {shlex.join(given)}` gets it"
        )
    places = [
        place
        for place in everywhere
        if queue in {None, place.queue} and vhost in {None, place.vhost}
    ]
    if not places:
        option = "--queue" if queue is not None else "--vhost"
        raise DlxError(f"{option}: {message} is not there, but in {_names(everywhere)}")
    ready = [place for place in places if place.state == "ready"]
    if not ready:
        raise DlxError(f"{message} is {places[0].state} in {_names(places)}, so not ready; {show}")
    if len(ready) > 1:
        raise DlxError(f"{message} is in {_names(ready)}; choose one with --queue")
    return ready[0]


def _names(places: list[CopyState]) -> str:
    return " and ".join(f"queue {place.queue!r} of vhost {place.vhost!r}" for place in places)
