"""`dlx get`, `dlx consume`, `dlx ack` and `dlx reject`: messages out of a running job."""

import shlex
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Annotated, Any

import typer

from streaming.cli.connection_options import (
    DEFAULT_CHANNEL,
    DEFAULT_CONFIG,
    DEFAULT_LEASE_S,
    DEFAULT_TIMEOUT_S,
    DEFAULT_USER,
    DEFAULT_VHOST,
    ChannelName,
    ConfigFile,
    Idle,
    Lease,
    Timeout,
    User,
    Vhost,
    connected,
    shared_channel,
    while_waiting,
)
from streaming.cli.exit_codes import EXIT_FINDINGS, EXIT_OK
from streaming.cli.output import print_json, print_rows
from streaming.cli.table_options import AsJson
from streaming.cli.terminal import printable

if TYPE_CHECKING:
    from streaming.client import Connection, Delivery

MOST_VARIABLE_BYTES = 100_000
"""Of an environment variable; Linux takes 128 KiB with its name."""

QueueName = Annotated[str, typer.Argument(metavar="QUEUE")]
DeliveryIds = Annotated[
    list[str], typer.Argument(metavar="DELIVERY...", help="Delivery ids, as `dlx get` shows them.")
]


def get(
    queue: QueueName,
    *,
    count: Annotated[int, typer.Option("--count", min=1, help="At most so many.")] = 1,
    auto_ack: Annotated[
        bool, typer.Option("--auto-ack", help="Take them for good; there is nothing to settle.")
    ] = False,
    channel: ChannelName = DEFAULT_CHANNEL,
    lease: Lease = DEFAULT_LEASE_S,
    as_json: AsJson = False,
    config: ConfigFile = DEFAULT_CONFIG,
    user: User = DEFAULT_USER,
    vhost: Vhost = DEFAULT_VHOST,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
) -> int:
    """Get messages from the head of a queue; settle them with `dlx ack` or `dlx reject`.

    Exit status: 1 if the queue is empty.
    """
    with connected(config, user, vhost, timeout) as connection:
        _try(connection, queue)
        with shared_channel(connection, channel, lease) as opened:
            deliveries = opened.get_many(queue, count, auto_ack=auto_ack)
    if as_json:
        for delivery in deliveries:
            print_json(_document(delivery))
    elif deliveries:
        titles = ("DELIVERY", "KEY", "COUNT", "DEATHS", "BODY")
        print_rows(titles, (_row(delivery) for delivery in deliveries))
    else:
        print(f"queue {queue!r} is empty", file=sys.stderr)
    return EXIT_OK if deliveries else EXIT_FINDINGS


def _try(connection: "Connection", queue: str) -> None:
    """Get nothing, on a channel of its own: what is refused closes that, and not the shared one.

    Raises:
        BrokerError: there is no such queue, or it may not be read.
    """
    channel = f"try-{uuid.uuid4().hex[:12]}"
    connection.request({"op": "get", "queue": queue, "count": 0}, channel)
    connection.send({"op": "close_channel"}, channel)


def ack(
    deliveries: DeliveryIds,
    *,
    multiple: Annotated[
        bool, typer.Option("--multiple", help="And all of the channel before them.")
    ] = False,
    channel: ChannelName = DEFAULT_CHANNEL,
    config: ConfigFile = DEFAULT_CONFIG,
    user: User = DEFAULT_USER,
    vhost: Vhost = DEFAULT_VHOST,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
) -> int:
    """Acknowledge what `dlx get` got.

    Exit status: 1 if something was not unacked on the channel any more.
    """
    settlement = {"op": "ack", "refs": deliveries, "multiple": multiple}
    with connected(config, user, vhost, timeout) as connection:
        return _settled(deliveries, connection.request(settlement, channel))


def reject(
    deliveries: DeliveryIds,
    *,
    requeue: Annotated[
        bool, typer.Option("--requeue", help="Back into the queue, instead of dead-lettering.")
    ] = False,
    multiple: Annotated[
        bool, typer.Option("--multiple", help="And all of the channel before them.")
    ] = False,
    channel: ChannelName = DEFAULT_CHANNEL,
    config: ConfigFile = DEFAULT_CONFIG,
    user: User = DEFAULT_USER,
    vhost: Vhost = DEFAULT_VHOST,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
) -> int:
    """Reject what `dlx get` got: it is dead-lettered, or requeued.

    Exit status: 1 if something was not unacked on the channel any more.
    """
    settlement = {"op": "nack", "refs": deliveries, "requeue": requeue, "multiple": multiple}
    with connected(config, user, vhost, timeout) as connection:
        return _settled(deliveries, connection.request(settlement, channel))


def _settled(deliveries: list[str], answer: dict[str, Any]) -> int:
    missing = answer.get("missing", [])
    for delivery in missing:
        print(f"{printable(delivery)}: not unacked on this channel (any more)", file=sys.stderr)
    print(f"{len(deliveries) - len(missing)} settled")
    return EXIT_FINDINGS if missing else EXIT_OK


def consume(
    queue: QueueName,
    command: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[-- COMMAND...]",
            help="Gets each body on stdin; 0 acks, else it is rejected. Without it bodies are "
            "printed, a line each, and acked.",
        ),
    ] = None,
    *,
    count: Annotated[int | None, typer.Option("--count", min=1, help="End after so many.")] = None,
    idle: Idle = None,
    requeue: Annotated[
        bool, typer.Option("--requeue", help="What the command fails on goes back to the queue.")
    ] = False,
    prefetch: Annotated[int, typer.Option("--prefetch", min=1)] = 10,
    config: ConfigFile = DEFAULT_CONFIG,
    user: User = DEFAULT_USER,
    vhost: Vhost = DEFAULT_VHOST,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
) -> int:
    """Consume a queue until Ctrl-C: pipe each body to a command, whose exit status settles it.

    The command finds DLX_QUEUE, DLX_EXCHANGE, DLX_ROUTING_KEY, DLX_DELIVERY_COUNT and DLX_HEADERS
    (JSON, unless longer than 100 kB) in its environment. SIGTERM ends as Ctrl-C does: what was not
    settled goes back to the queue. Exit status: 1 if a message was rejected.
    """
    acked = rejected = 0
    with connected(config, user, vhost, timeout) as connection, connection.channel() as channel:
        room = prefetch if count is None else min(prefetch, count)
        consumer = channel.consume(queue, prefetch=room, timeout_s=idle)
        # What was not looked at goes back to the queue with the channel.
        with suppress(KeyboardInterrupt), _ended_by_sigterm(), while_waiting():
            for delivery in consumer:
                if handled(delivery, command):
                    delivery.ack()
                    acked += 1
                else:
                    delivery.reject(requeue=requeue)
                    rejected += 1
                if count is not None and acked + rejected >= count:
                    break
        consumer.cancel()
        channel.sync()
    print(f"{acked} acked, {rejected} rejected", file=sys.stderr)
    return EXIT_FINDINGS if rejected else EXIT_OK


@contextmanager
def _ended_by_sigterm() -> Iterator[None]:
    """SIGTERM is a Ctrl-C here: else all that waits in the prefetch would rest for the lease."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def handled(delivery: "Delivery", command: list[str] | None) -> bool:
    """Give a body to the command; whether it worked."""
    import os

    if "body" in delivery.truncated:
        place = "/".join(map(str, delivery.origin or ()))
        print(
            f"message {place} is too large for its topic and came without its body: rejected; "
            f"`dlx dead-letters show {place}` has it whole",
            file=sys.stderr,
        )
        return False
    if not command:
        sys.stdout.buffer.write(delivery.body + b"\n")
        sys.stdout.buffer.flush()
        return True
    document = _document(delivery)
    environment = {
        "DLX_QUEUE": delivery.queue,
        "DLX_EXCHANGE": delivery.exchange,
        "DLX_ROUTING_KEY": delivery.routing_key,
        "DLX_DELIVERY_COUNT": str(delivery.delivery_count),
    }
    headers = _json_text(document["headers"])
    if len(headers.encode()) <= MOST_VARIABLE_BYTES:
        environment["DLX_HEADERS"] = headers
    else:
        print("the headers are too long for DLX_HEADERS: it is left out", file=sys.stderr)
    try:
        finished = subprocess.run(
            command,
            input=delivery.body,
            env={**os.environ, **{name: _shown(text) for name, text in environment.items()}},
            check=False,
        )
    except OSError as error:
        words = f"cannot run {shlex.join(command)}: {error.strerror}"
        raise typer.BadParameter(words, param_hint="COMMAND") from error
    return finished.returncode == 0


def _shown(text: str) -> str:
    """Text as the environment can hold it: without NUL, which names may have."""
    return text.replace("\0", "\ufffd")


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
        "body": body,
    } | ({"left_out": delivery.truncated} if delivery.truncated else {})


def _json_text(value: object) -> str:
    import msgspec

    return msgspec.json.encode(value).decode()


def _row(delivery: "Delivery") -> tuple[object, ...]:
    from streaming.cli.output import preview

    deaths = ", ".join(f"{death.queue}: {death.reason}" for death in delivery.x_death)
    body = delivery.body.decode("utf-8", "backslashreplace")
    return (
        delivery.delivery_id,
        delivery.routing_key,
        delivery.delivery_count,
        deaths,
        preview(body),
    )
