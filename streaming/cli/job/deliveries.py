"""`dlx get`, `dlx consume`, `dlx ack` and `dlx reject`: read messages from a running job."""

import os
import re
import shlex
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
import typer

from streaming.broker.reject_reasons import cause_of
from streaming.cli import options
from streaming.cli.exit_codes import EXIT_FINDINGS, EXIT_OK
from streaming.cli.listing.table import Column, Listing, print_listing
from streaming.cli.listing.view import OutputOptions, listing
from streaming.cli.options import JobOptions, job_options
from streaming.cli.output import preview, printable
from streaming.protocol.defaults import PREFETCH
from topology.errors import DlxError
from topology.suggestions import did_you_mean

if TYPE_CHECKING:
    from streaming.client import Connection, Delivery

_MESSAGE_ID = re.compile(r"[0-9]{1,18}/[0-9]{1,18}/[0-9]{1,18}")
_DELIVERY_ID = re.compile(r"[0-9]{1,18}\.[0-9]{1,18}\.[0-9]{1,18}|.+/[0-9]{1,18}", re.DOTALL)

MAX_VARIABLE_BYTES = 100_000
"""Maximum size of an environment variable; Linux accepts 128 KiB with its name."""

QueueName = Annotated[str, typer.Argument(metavar="QUEUE")]
AutoAck = Annotated[
    bool, typer.Option("--auto-ack", help="Acknowledge at once; nothing is left to settle.")
]
DeliveryIds = Annotated[
    list[str], typer.Argument(metavar="DELIVERY...", help="Delivery ids, as `dlx get` shows them.")
]
DELIVERIES: Final = Listing(
    (
        Column("delivery_id", 0, "delivery"),
        Column("routing_key", 2, "key"),
        Column("delivery_count", 3, "count"),
        Column("deaths", 2),
        Column("body", 1, kind="free"),
    ),
    more=("queue", "exchange", "redelivered", "properties", "headers"),
    cells={"body": preview},
)
Multiple = Annotated[
    bool, typer.Option("--multiple", help="Also all earlier deliveries of the channel.")
]


def _message_id(value: str | None) -> str | None:
    if value is not None and not _MESSAGE_ID.fullmatch(value):
        raise typer.BadParameter(f"expected a message id, such as 1/0/42, got {value!r}")
    return value


@listing
@job_options
def get(
    queue: QueueName,
    *,
    count: Annotated[int, typer.Option("--count", min=1, help="The most messages to get.")] = 1,
    message: Annotated[
        str | None,
        typer.Option(
            "--message",
            metavar="ID",
            callback=_message_id,
            help="Get this message, wherever it is in the queue; the id is one of those that `dlx "
            "queues peek` and `dlx dead-letters list` show.",
        ),
    ] = None,
    auto_ack: AutoAck = False,
    channel: options.ChannelName = options.DEFAULT_CHANNEL,
    lease: options.Lease = options.DEFAULT_LEASE_S,
    view: OutputOptions,
    job: JobOptions,
) -> int:
    """Get messages from the head of a queue.

    Settle them with `dlx ack` or `dlx reject`. With several lanes, each lane is asked in turn.

    Exit status: 1 if the queue is empty.
    """
    DELIVERIES.check(view)
    with job.connect() as connection:
        _check_queue(connection, queue)
        with options.shared_channel(connection, channel, lease) as opened:
            deliveries = opened.get_many(queue, count, auto_ack=auto_ack, message=message)
    print_deliveries(deliveries, view)
    if not deliveries:
        nothing = "is empty" if message is None else f"has no ready copy of message {message}"
        print(f"queue {queue!r} {nothing}", file=sys.stderr)
    return EXIT_OK if deliveries else EXIT_FINDINGS


def print_deliveries(deliveries: "list[Delivery]", view: OutputOptions) -> None:
    """Print what a get returned; nothing if the queue had nothing."""
    if deliveries or view.output != "table":
        print_listing(DELIVERIES, [_document(delivery) for delivery in deliveries], view)


def _check_queue(connection: "Connection", queue: str) -> None:
    """Get nothing on a channel of its own: a refusal closes that channel, not the shared one.

    Raises:
        BrokerError: the queue does not exist, or this user may not read it.
    """
    channel = f"check-{uuid.uuid4().hex[:12]}"
    connection.request({"op": "get", "queue": queue, "count": 0}, channel)
    connection.send({"op": "close_channel"}, channel)


@job_options
def ack(
    deliveries: DeliveryIds,
    *,
    multiple: Multiple = False,
    channel: options.ChannelName = options.DEFAULT_CHANNEL,
    job: JobOptions,
) -> int:
    """Acknowledge messages that `dlx get` returned.

    Exit status: 1 if one is no longer unacked on the channel.
    """
    _check_ids(deliveries)
    command = {"op": "ack", "refs": deliveries, "multiple": multiple}
    with job.connect() as connection:
        _check_channel(connection, channel, job.file)
        return _report(deliveries, channel, connection.request(command, channel))


@job_options
def reject(
    deliveries: DeliveryIds,
    *,
    requeue: Annotated[
        bool, typer.Option("--requeue", help="Requeue instead of dead-lettering.")
    ] = False,
    reason: Annotated[
        str | None,
        typer.Option(
            "--reason",
            metavar="TEXT",
            help="Why: shown by `dlx dead-letters`, and in the header x-exception-message.",
        ),
    ] = None,
    multiple: Multiple = False,
    channel: options.ChannelName = options.DEFAULT_CHANNEL,
    job: JobOptions,
) -> int:
    """Dead-letter or requeue messages that `dlx get` returned.

    Exit status: 1 if one is no longer unacked on the channel.
    """
    _check_ids(deliveries)
    command = {"op": "nack", "refs": deliveries, "requeue": requeue, "multiple": multiple}
    cause = cause_of(reason)
    if cause is not None:
        command["reason"] = cause
    with job.connect() as connection:
        _check_channel(connection, channel, job.file)
        return _report(deliveries, channel, connection.request(command, channel))


def _check_ids(deliveries: list[str]) -> None:
    for delivery in deliveries:
        if not _DELIVERY_ID.fullmatch(delivery):
            what = f"expected a delivery id, such as 1.0.0, as `dlx get` shows it: got {delivery!r}"
            raise typer.BadParameter(what, param_hint="DELIVERY")


def _check_channel(connection: "Connection", channel: str, config: Path) -> None:
    """Refuse a channel that is not open; nothing can be unacked there.

    Raises:
        DlxError: it is not open.
    """
    if not connection.request({"op": "renew"}, channel)["open"]:
        hint = did_you_mean(channel, [options.DEFAULT_CHANNEL, *_open_channels(config)])
        raise DlxError(
            f"--channel: channel {channel!r} is not open{hint}: its name is misspelt, or its lease "
            "has ended and its messages are in their queues again; see `dlx clients channels list`"
        )


def _open_channels(config: Path) -> list[str]:
    """The names of the open channels, as far as the tables can be read here."""
    with suppress(DlxError, ModuleNotFoundError), options.open_tables(None, config) as tables:
        from streaming.queries.vhosts.clients import list_channels

        return [channel["name"] for channel in list_channels(tables)]
    return []


def _report(deliveries: list[str], channel: str, answer: dict[str, Any]) -> int:
    missing = answer.get("missing", [])
    for delivery in missing:
        print(
            f"{printable(delivery)}: no longer unacked on channel {channel!r}; it was settled "
            "before, requeued when a lease ended, or got on another channel",
            file=sys.stderr,
        )
    print(f"{len(deliveries) - len(missing)} settled")
    return EXIT_FINDINGS if missing else EXIT_OK


@job_options
def consume(
    queue: QueueName,
    command: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[-- COMMAND...]",
            help="Receives each body on stdin; exit status 0 acks, any other rejects and is the "
            "reason. Without it, bodies are printed, one per line.",
        ),
    ] = None,
    *,
    ack: Annotated[
        bool, typer.Option("--ack", help="Without a command: ack what is printed.")
    ] = False,
    count: Annotated[
        int | None, typer.Option("--count", min=1, help="Stop after this many messages.")
    ] = None,
    idle: options.Idle = None,
    requeue: Annotated[
        bool, typer.Option("--requeue", help="Requeue what the command fails on.")
    ] = False,
    prefetch: Annotated[
        int | None,
        typer.Option(
            "--prefetch",
            min=1,
            help=f"The most unacked messages. Default: {PREFETCH}; no limit if nothing is settled.",
        ),
    ] = None,
    job: JobOptions,
) -> int:
    """Pipe the messages of a queue to a command, or print them.

    The command receives each body on stdin, and its exit status settles the message. Its
    environment has DLX_QUEUE, DLX_EXCHANGE, DLX_ROUTING_KEY, DLX_DELIVERY_COUNT and DLX_HEADERS
    (JSON, unless longer than 100 kB). SIGTERM works like Ctrl-C: unsettled messages are requeued.

    Without a command, messages are printed and return to the queue at the end, as redelivered;
    --ack removes them instead.

    Exit status: 1 if a message was rejected.
    """
    if command and ack:
        raise typer.BadParameter("omit it: the command's exit status settles", param_hint="--ack")
    if requeue and not command:
        raise typer.BadParameter("needs a command", param_hint="--requeue")
    settles = bool(command) or ack
    limit = prefetch or (PREFETCH if settles else 0)
    if count is not None:
        limit = min(limit or count, count)
    done = {"acked": 0, "rejected": 0, "printed": 0}
    with (
        job.connect() as connection,
        connection.channel() as channel,
    ):
        consumer = channel.consume(queue, prefetch=limit, timeout_s=idle)
        with suppress(KeyboardInterrupt), _sigterm_interrupts(), options.logged_outages():
            for delivery in consumer:
                failure = handle(delivery, command)
                if not settles:
                    done["printed"] += not failure
                elif not failure:
                    delivery.ack()
                    done["acked"] += 1
                else:
                    delivery.reject(requeue=requeue, reason=failure)
                    done["rejected"] += 1
                if count is not None and sum(done.values()) >= count:
                    break
        consumer.cancel()
        channel.sync()
    if settles:
        print(f"{done['acked']} acked, {done['rejected']} rejected", file=sys.stderr)
    else:
        print(f"{done['printed']} printed and left in the queue; --ack removes", file=sys.stderr)
    return EXIT_FINDINGS if done["rejected"] else EXIT_OK


@contextmanager
def _sigterm_interrupts() -> Iterator[None]:
    """Handle SIGTERM like Ctrl-C; otherwise the prefetched messages wait for the lease."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def handle(delivery: "Delivery", command: list[str] | None) -> str:
    """Pass a body to the command, or print it; return why that failed, or nothing."""
    if "body" in delivery.truncated:
        origin = "/".join(map(str, delivery.origin or ()))
        print(
            f"message {origin} is too large for its topic and came without its body, so that it is "
            f"not handled; `dlx dead-letters show {origin}` shows all of it",
            file=sys.stderr,
        )
        return "delivered without its body, which is too large for its topic"
    if not command:
        sys.stdout.buffer.write(delivery.body + b"\n")
        sys.stdout.buffer.flush()
        return ""
    environment = {
        "DLX_QUEUE": delivery.queue,
        "DLX_EXCHANGE": delivery.exchange,
        "DLX_ROUTING_KEY": delivery.routing_key,
        "DLX_DELIVERY_COUNT": str(delivery.delivery_count),
    }
    headers = msgspec.json.encode(_document(delivery)["headers"])
    if len(headers) <= MAX_VARIABLE_BYTES:
        environment["DLX_HEADERS"] = headers.decode()
    else:
        print("the headers are too long for DLX_HEADERS, which is not set", file=sys.stderr)
    without_nul = {name: text.replace("\0", "\ufffd") for name, text in environment.items()}
    try:
        finished = subprocess.run(
            command, input=delivery.body, env={**os.environ, **without_nul}, check=False
        )
    except OSError as error:
        text = f"cannot run {shlex.join(command)}: {error.strerror}"
        raise typer.BadParameter(text, param_hint="COMMAND") from error
    status = finished.returncode
    if not status:
        return ""
    ended = f"exit status {status}" if status > 0 else f"ended by signal {-status}"
    return f"{Path(command[0]).name}: {ended}"


def _document(delivery: "Delivery") -> dict[str, Any]:
    from topology.values import table_to_json, to_json

    try:
        body: object = delivery.body.decode()
    except UnicodeDecodeError:
        body = to_json(delivery.body)
    return {
        "delivery_id": delivery.delivery_id,
        "queue": delivery.queue,
        "exchange": delivery.exchange,
        "routing_key": delivery.routing_key,
        "redelivered": delivery.redelivered,
        "delivery_count": delivery.delivery_count,
        "properties": delivery.properties,
        "headers": table_to_json(delivery.headers),
        "deaths": [f"{death.queue}: {death.reason}" for death in delivery.x_death],
        "body": body,
    } | ({"left_out": delivery.truncated} if delivery.truncated else {})
