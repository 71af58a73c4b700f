"""Declare and delete queues and exchanges, bind and unbind them, and purge queues."""

from collections.abc import Iterable
from enum import StrEnum
from typing import Annotated, Any

import msgspec
import typer

from streaming.cli.command_group import command_group
from streaming.cli.exit_codes import EXIT_OK
from streaming.cli.options import JobOptions, job_options
from streaming.cli.refusals import live_definitions
from topology.errors import DlxError
from topology.suggestions import did_you_mean
from topology.values import Table, from_json

exchanges_app = command_group(
    "exchanges",
    "List, declare and delete exchanges.",
    "dlx exchanges list",
    "dlx exchanges declare orders --type topic",
    "dlx exchanges declare in --argument alternate-exchange=unrouted",
    "dlx exchanges delete orders --if-unused",
)

Arguments = Annotated[
    list[str] | None,
    typer.Option(
        "--argument",
        "-a",
        metavar="NAME=VALUE",
        help="An argument; repeat the option for several. VALUE is JSON: 60000 is a number, true a "
        "boolean, '\"60000\"' a string. Anything that is not JSON is a string.",
    ),
]


def parse_arguments(given: list[str] | None, known: Iterable[str] = ()) -> Table:
    """Read `NAME=VALUE` options as an AMQP table.

    Args:
        known: names that RabbitMQ knows. Others are allowed, unless they look misspelt.

    Raises:
        typer.BadParameter: an option has no `=`, a value has no AMQP type, or a name is misspelt.
    """
    names = list(known)
    table: Table = {}
    for option in given or ():
        name, equals, text = option.partition("=")
        if not name or not equals:
            what = f"expected NAME=VALUE, such as x-message-ttl=60000, got {option!r}"
            raise typer.BadParameter(what, param_hint="--argument")
        suggestion = "" if name in names else did_you_mean(name, names)
        if suggestion:
            raise typer.BadParameter(f"unknown name {name!r}{suggestion}", param_hint="--argument")
        if name in table:
            raise typer.BadParameter(f"{name!r} is given twice", param_hint="--argument")
        try:
            table[name] = from_json(_document(text))
        except ValueError as error:
            raise typer.BadParameter(f"{name}: {error}", param_hint="--argument") from None
    return table


def _document(text: str) -> object:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        if text.startswith(("{", "[", '"')):
            raise ValueError(f"is not valid JSON: {error}") from None
        return text


class QueueType(StrEnum):
    """The types of queues."""

    CLASSIC = "classic"
    QUORUM = "quorum"


class ExchangeType(StrEnum):
    """The types of exchanges."""

    DIRECT = "direct"
    FANOUT = "fanout"
    TOPIC = "topic"
    HEADERS = "headers"


class DestinationType(StrEnum):
    """What a binding leads to."""

    QUEUE = "queue"
    EXCHANGE = "exchange"


QueueName = Annotated[str, typer.Argument(metavar="QUEUE")]
ExchangeName = Annotated[str, typer.Argument(metavar="EXCHANGE")]
Source = Annotated[str, typer.Argument(metavar="SOURCE", help="The exchange that messages leave.")]
Destination = Annotated[
    str, typer.Argument(metavar="DESTINATION", help="The queue or exchange that they reach.")
]
BindingKey = Annotated[
    str, typer.Option("--routing-key", "-k", metavar="KEY", help="The binding key.")
]
ToType = Annotated[
    DestinationType, typer.Option("--destination-type", help="What DESTINATION names.")
]
Transient = Annotated[bool, typer.Option("--transient", help="Not durable; kept all the same.")]
AutoDelete = Annotated[
    bool, typer.Option("--auto-delete", help="Delete it when its last user is gone.")
]
IfUnused = Annotated[bool, typer.Option("--if-unused", help="Refuse to delete it while in use.")]


@job_options
def declare_queue(
    queue: QueueName,
    *,
    queue_type: Annotated[
        QueueType | None, typer.Option("--type", help="Default: classic.")
    ] = None,
    transient: Transient = False,
    auto_delete: AutoDelete = False,
    argument: Arguments = None,
    job: JobOptions,
) -> int:
    """Declare a queue; one that exists must have the same properties.

    RabbitMQ's arguments have their JSON types: `--argument x-message-ttl=60000` is a number.
    """
    from topology.validation.arguments import QUEUE_ARGUMENTS

    _check_name(queue, "QUEUE")
    arguments: dict[str, Any] = {}
    if queue_type is not None:
        arguments["x-queue-type"] = queue_type.value
    arguments |= parse_arguments(argument, QUEUE_ARGUMENTS)
    with job.connect() as connection:
        declared = connection.channel().declare_queue(
            queue, durable=not transient, auto_delete=auto_delete, arguments=arguments
        )
    print(
        f"queue {queue!r} is declared in vhost {job.vhost!r}: {declared.ready} ready, "
        f"{declared.consumers} consumers"
    )
    return EXIT_OK


@job_options
def delete_queue(
    queue: QueueName,
    *,
    if_unused: IfUnused = False,
    if_empty: Annotated[
        bool, typer.Option("--if-empty", help="Refuse to delete it while messages are ready.")
    ] = False,
    job: JobOptions,
) -> int:
    """Delete a queue with its messages, without dead-lettering them."""
    with job.connect() as connection:
        channel = connection.channel()
        channel.declare_queue(queue, passive=True)
        deleted = channel.delete_queue(queue, if_unused=if_unused, if_empty=if_empty)
    print(f"queue {queue!r} is deleted from vhost {job.vhost!r}, with {deleted} ready messages")
    return EXIT_OK


@job_options
def purge_queue(
    queue: QueueName,
    *,
    job: JobOptions,
) -> int:
    """Remove all ready messages from a queue of a running job, without dead-lettering them."""
    with job.connect() as connection:
        purged = connection.channel().purge_queue(queue)
        lanes = connection.address.lanes
    others = "" if lanes == 1 else f" in lane 0 of {lanes}, and all in the other lanes"
    print(f"{purged} messages purged from queue {queue!r}{others}")
    return EXIT_OK


@exchanges_app.command("declare")
@job_options
def declare_exchange(
    exchange: ExchangeName,
    *,
    exchange_type: Annotated[ExchangeType, typer.Option("--type")] = ExchangeType.DIRECT,
    transient: Transient = False,
    auto_delete: AutoDelete = False,
    internal: Annotated[
        bool, typer.Option("--internal", help="Publishers may not use it; bindings may.")
    ] = False,
    argument: Arguments = None,
    job: JobOptions,
) -> int:
    """Declare an exchange; one that exists must have the same properties."""
    _check_name(exchange, "EXCHANGE")
    arguments = parse_arguments(argument, ("alternate-exchange",))
    with job.connect() as connection:
        connection.channel().declare_exchange(
            exchange,
            exchange_type.value,
            durable=not transient,
            auto_delete=auto_delete,
            internal=internal,
            arguments=arguments,
        )
    print(f"exchange {exchange!r} of type {exchange_type} is declared in vhost {job.vhost!r}")
    return EXIT_OK


@exchanges_app.command("delete")
@job_options
def delete_exchange(
    exchange: ExchangeName,
    *,
    if_unused: IfUnused = False,
    job: JobOptions,
) -> int:
    """Delete an exchange and all bindings from and to it."""
    with job.connect() as connection:
        channel = connection.channel()
        channel.declare_exchange(exchange, passive=True)
        channel.delete_exchange(exchange, if_unused=if_unused)
    print(f"exchange {exchange!r} is deleted from vhost {job.vhost!r}")
    return EXIT_OK


@job_options
def bind(
    source: Source,
    destination: Destination,
    *,
    routing_key: BindingKey = "",
    destination_type: ToType = DestinationType.QUEUE,
    argument: Arguments = None,
    job: JobOptions,
) -> int:
    """Bind a queue, or another exchange, to an exchange.

    A headers exchange matches on --argument: `-a x-match=all -a kind=order`.
    """
    arguments = parse_arguments(argument)
    with job.connect() as connection:
        channel = connection.channel()
        is_queue = destination_type == DestinationType.QUEUE
        bind_it = channel.bind_queue if is_queue else channel.bind_exchange
        bind_it(destination, source, routing_key, arguments)
    print(f"{destination_type} {destination!r} is bound to {source!r} with key {routing_key!r}")
    return EXIT_OK


@job_options
def unbind(
    source: Source,
    destination: Destination,
    *,
    routing_key: BindingKey = "",
    destination_type: ToType = DestinationType.QUEUE,
    argument: Arguments = None,
    job: JobOptions,
) -> int:
    """Remove the binding with this key and these arguments."""
    arguments = parse_arguments(argument)
    with job.connect() as connection:
        channel = connection.channel()
        channel.declare_exchange(source, passive=True)
        is_queue = destination_type == DestinationType.QUEUE
        declare_it = channel.declare_queue if is_queue else channel.declare_exchange
        declare_it(destination, passive=True)
        ends = (source, destination, destination_type)
        _check_binding(live_definitions(connection), ends, routing_key, arguments)
        unbind_it = channel.unbind_queue if is_queue else channel.unbind_exchange
        unbind_it(destination, source, routing_key, arguments)
    print(f"{destination_type} {destination!r} is unbound from {source!r} with key {routing_key!r}")
    return EXIT_OK


def _check_binding(
    document: dict[str, Any],
    ends: tuple[str, str, DestinationType],
    routing_key: str,
    arguments: Table,
) -> None:
    """Refuse a binding that does not exist; a user who may not see the bindings is not refused.

    Args:
        document: the definitions; empty if the user may not see them.
        ends: the source, the destination and its type.
    """
    from topology.values import table_to_json

    between = [
        (each["routing_key"], each["arguments"])
        for each in document.get("bindings", ())
        if (each["source"], each["destination"], each["destination_type"]) == ends
    ]
    if not document or (routing_key, table_to_json(arguments)) in between:
        return
    those = ", ".join(
        repr(key) + (f" and arguments {table}" if table else "") for key, table in between
    )
    source, destination, destination_type = ends
    raise DlxError(
        f"404 NOT_FOUND - {destination_type} {destination!r} is not bound to {source!r} with key "
        f"{routing_key!r}{f' and arguments {arguments}' if arguments else ''}: "
        + (
            f"the keys between them are {those}; choose one with --routing-key"
            if between
            else "nothing is bound between them"
        )
    )


def _check_name(name: str, where: str) -> None:
    if not name:
        raise typer.BadParameter("must not be empty", param_hint=where)
