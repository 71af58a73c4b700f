"""Queues: lists of many, and everything about one."""

from typing import Any, Final

from starlette.responses import Response

from streaming.amqp.declaring import on_one_line
from streaming.amqp.vhosts import OpenVhost
from streaming.broker import commands
from streaming.management.answers import created, done
from streaming.management.counting import Range
from streaming.management.errors import bad_request, missing, not_authorised, not_found
from streaming.management.formats import place_of, queue_basics, queue_details
from streaming.management.listing import Item, has_no_statistics
from streaming.management.resources.bindings import queue_bindings
from streaming.management.resources.doing import do
from streaming.management.resources.messages import get
from streaming.management.resources.queue_lists import all_queues, all_queues_detailed, full_item
from streaming.management.routing import (
    BAD_REQUEST,
    NO_RANGE,
    Asked,
    Resource,
    administrator,
    anyone,
    of_vhost,
)
from topology.declarations import MAX_NAME_BYTES, RESERVED_PREFIX, Queue
from topology.refusals import unconditional


def _declared(asked: Asked) -> Queue:
    found = asked.vhost.shard.vhost.queues.get(asked.names["queue"])
    if found is None:
        raise missing()
    return found


async def one_queue(asked: Asked) -> Any:
    """A queue."""
    declaration = _declared(asked)
    vhost = asked.vhost
    if has_no_statistics(asked.query):
        return queue_basics(vhost.name, declaration)
    wanted = Range(asked.query, "msg_rates"), Range(asked.query, "lengths")
    item = full_item(asked, vhost, declaration.name, wanted)
    item |= queue_details(vhost, vhost.shard.state.queues.named(declaration.name))
    owner = _owner(vhost, declaration)
    if owner is not None:
        item["owner_pid_details"] = owner
    return item


def _owner(vhost: OpenVhost, declaration: Queue) -> Item | None:
    """The connection that an exclusive queue belongs to."""
    if not declaration.exclusive:
        return None
    owners = vhost.shard.state.channels.owners
    number = vhost.shard.vhost.queue_numbers[declaration.name]
    for connection in owners.connections():
        if number in owners.queues_of(connection.number):
            host, port = place_of(connection.name)
            return {"name": connection.name, "peer_host": host, "peer_port": port}
    return None


async def put_queue(asked: Asked) -> Response:
    """Declare a queue, of the vhost's default type unless it names one."""
    vhost, members, name = asked.vhost, asked.members(), on_one_line(asked.names["queue"])
    size = len(name.encode("utf-8", "surrogateescape"))
    if size > MAX_NAME_BYTES:
        raise bad_request(f"queue should be less than 255 bytes, actually was {size}\n")
    default = asked.front.info(vhost.name).default_queue_type
    durable = members.flag("durable")
    queue = Queue(
        name,
        durable=durable and members.get("exclusive") is not True,  # RabbitMQ heeds no more of it
        auto_delete=members.flag("auto_delete"),
        arguments=members.table("arguments"),
    ).of_default_type(default)
    new = name not in vhost.shard.vhost.queues
    if not name or (new and name.startswith(RESERVED_PREFIX)):
        raise not_authorised("Access refused.")
    await do(asked, vhost, commands.DeclareQueue(queue=queue))
    return created(new=new)


async def delete_queue(asked: Asked) -> Response:
    """Delete a queue with its messages."""
    queue = _declared(asked)
    conditions = {flag for flag in ("if-unused", "if-empty") if asked.query.get(flag) == "true"}
    if conditions and queue.queue_type == "quorum":
        flag = max(conditions)  # that of use first, as in RabbitMQ
        raise bad_request(unconditional(queue.name, asked.vhost.name, flag))
    command = commands.DeleteQueue(
        queue=queue.name,
        if_unused="if-unused" in conditions,
        if_empty="if-empty" in conditions,
    )
    await do(asked, asked.vhost, command)
    return done()


async def purge(asked: Asked) -> Response:
    """Remove the ready messages of a queue."""
    await do(asked, asked.vhost, commands.Purge(queue=_declared(asked).name))
    return done()


async def act(asked: Asked) -> Response:
    """Refuse an action: RabbitMQ 4.0 has none for these queues either."""
    if asked.names["queue"] not in asked.vhost.shard.vhost.queues:
        raise not_found("queue_not_found")
    members = asked.members()
    members.need("action")
    raise bad_request(["unknown", members.get("action")])


RESOURCES: Final = [
    Resource("queues", anyone, {"GET": all_queues}, no_range=NO_RANGE),
    Resource("queues/detailed", anyone, {"GET": all_queues_detailed}, no_range=NO_RANGE),
    Resource("queues/{vhost}", of_vhost, {"GET": all_queues}, no_range=NO_RANGE),
    Resource(
        "queues/{vhost}/{queue}",
        of_vhost,
        {"GET": one_queue, "PUT": put_queue, "DELETE": delete_queue},
        no_range=BAD_REQUEST,
    ),
    Resource("queues/{vhost}/{queue}/contents", of_vhost, {"DELETE": purge}),
    Resource("queues/{vhost}/{queue}/get", of_vhost, {"POST": get}),
    Resource("queues/{vhost}/{queue}/actions", administrator, {"POST": act}),
    Resource("queues/{vhost}/{queue}/bindings", of_vhost, {"GET": queue_bindings}),
]
