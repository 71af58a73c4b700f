"""The objects of a front as RabbitMQ's API shows them."""

import socket
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final

from streaming.amqp.certificates import about_tls
from streaming.amqp.channel import Channel
from streaming.amqp.connection import Connection
from streaming.amqp.server_properties import RABBITMQ_VERSION
from streaming.amqp.vhosts import OpenVhost
from streaming.broker.channels.channel import Consumer
from streaming.broker.queues.queue import Queue
from streaming.management.binding_keys import properties_key
from topology.declarations import Binding, Exchange, Policy
from topology.declarations import Queue as Declaration
from topology.policies import NO_TIMEOUT_MS
from topology.values import Table, Timestamp

NODE: Final = f"rabbit@{socket.gethostname().partition('.')[0]}"
"""The name of the one node that clients see."""

INTERNAL: Final = "rmq-internal"
"""RabbitMQ's name for itself as the maker of objects."""

GARBAGE: Final = {
    "fullsweep_after": 65_535,
    "max_heap_size": 0,
    "min_bin_vheap_size": 46_422,
    "min_heap_size": 233,
    "minor_gcs": 0,
}
"""What clients of RabbitMQ expect to read of an Erlang process."""

Item = dict[str, Any]


def plain(value: Any) -> Any:
    """An AMQP value as RabbitMQ's API writes it in JSON: types are lost."""
    match value:
        case bytes():
            return value.decode("utf-8", "replace")
        case Timestamp():
            return value.seconds
        case Decimal():
            return float(value)
        case list():
            return [plain(item) for item in value]
        case dict():
            return {name: plain(item) for name, item in value.items()}
        case _:
            return value


def plain_table(table: Table) -> Item:
    """A table, by name."""
    return {name: plain(table[name]) for name in sorted(table)}


# -- topology


def exchange_item(vhost: OpenVhost, exchange: Exchange) -> Item:
    """An exchange, without its traffic."""
    reserved = not exchange.name or exchange.name.startswith("amq.")
    policy = vhost.shard.vhost.policies.applying_to(exchange)
    return {
        "arguments": plain_table(exchange.arguments),
        "auto_delete": exchange.auto_delete,
        "durable": exchange.durable,
        "internal": exchange.internal,
        "name": exchange.name,
        **({} if policy is None else {"policy": policy.name}),
        "type": exchange.type,
        "user_who_performed_action": INTERNAL if reserved else "",
        "vhost": vhost.name,
    }


def binding_item(vhost: str, binding: Binding) -> Item:
    """A binding."""
    return {
        "source": binding.source,
        "vhost": vhost,
        "destination": binding.destination,
        "destination_type": binding.destination_type,
        "routing_key": binding.routing_key,
        "arguments": plain_table(binding.arguments),
        "properties_key": properties_key(binding),
    }


def default_binding(queue: str) -> Binding:
    """The binding of each queue to the default exchange, which nobody declares."""
    return Binding("", queue, "queue", queue)


def queue_arguments(declaration: Declaration) -> Item:
    """The arguments of a queue; RabbitMQ 4.0 names its type in them always."""
    return plain_table({"x-queue-type": declaration.queue_type, **declaration.arguments})


def policy_item(vhost: str, policy: Policy) -> Item:
    """A policy or operator policy."""
    return {
        "vhost": vhost,
        "name": policy.name,
        "pattern": policy.pattern,
        "apply-to": policy.apply_to,
        "definition": plain_table(policy.definition),
        "priority": policy.priority,
    }


# -- queues


def queue_basics(vhost: str, declaration: Declaration) -> Item:
    """What is declared of a queue."""
    return {
        "arguments": queue_arguments(declaration),
        "auto_delete": declaration.auto_delete,
        "durable": declaration.durable,
        "exclusive": declaration.exclusive,
        "name": declaration.name,
        "node": NODE,
        "state": "running",
        "type": declaration.queue_type,
        "vhost": vhost,
    }


def queue_item(vhost: OpenVhost, queue: Queue) -> Item:
    """A queue, without rates."""
    declaration, settings = queue.declaration, queue.settings
    found = queue_basics(vhost.name, declaration)
    total, size = queue.ready + queue.unacked, queue.ready_bytes + queue.unacked_bytes
    messages, all_bytes = total + queue.held.count, size + queue.held.bytes
    can = queue.can_deliver() if queue.line.consumers else False
    found |= {
        "consumer_capacity": float(can) if queue.line.consumers else 0,
        "consumer_utilisation": float(can) if queue.line.consumers else 0,
        "consumers": len(queue.line.consumers),
        "effective_policy_definition": _effective(vhost, queue),
        "memory": 4_096 + size,
        "message_bytes": all_bytes,
        "message_bytes_persistent": all_bytes if declaration.durable else 0,
        "message_bytes_ram": size,
        "message_bytes_ready": queue.ready_bytes,
        "message_bytes_unacknowledged": queue.unacked_bytes,
        "messages": messages,
        "messages_persistent": messages if declaration.durable else 0,
        "messages_ram": total,
        "messages_ready": queue.ready,
        "messages_unacknowledged": queue.unacked,
        "operator_policy": settings.operator_policy,
        "policy": settings.policy,
        "reductions": 0,
        "reductions_details": {"rate": 0.0},
        "single_active_consumer_tag": _active_tag(vhost, queue),
    }
    if queue.quorum:
        found |= {
            "delivery_limit": settings.delivery_limit
            if settings.delivery_limit is not None
            else -1,
            "leader": NODE,
            "members": [NODE],
            "online": [NODE],
            "messages_dlx": queue.held.count,
            "message_bytes_dlx": queue.held.bytes,
            "open_files": {NODE: 0},
        }
    else:
        found |= {
            "exclusive_consumer_tag": _exclusive_tag(vhost, queue),
            "message_bytes_paged_out": 0,
            "messages_paged_out": 0,
            "messages_ready_ram": queue.ready,
            "messages_unacknowledged_ram": queue.unacked,
            "storage_version": 2,
        }
    if not total and not queue.line.consumers:
        found["idle_since"] = datetime.fromtimestamp(queue.used_at_ms / 1000, UTC).isoformat(
            timespec="milliseconds"
        )
    return found


def _effective(vhost: OpenVhost, queue: Queue) -> Item:
    if queue.settings.policy is None and queue.settings.operator_policy is None:
        return {}
    return plain_table(vhost.shard.vhost.policies.effective(queue.declaration))


def _active_tag(vhost: OpenVhost, queue: Queue) -> str | None:
    """RabbitMQ names the first consumer of any quorum queue."""
    first = next(iter(queue.line.consumers), None) if queue.quorum else None
    key = queue.line.active if queue.line.single_active else first
    return None if key is None else vhost.shard.state.channels.consumer(key).label


def _exclusive_tag(vhost: OpenVhost, queue: Queue) -> str | None:
    consumers = (vhost.shard.state.channels.consumer(key) for key in queue.line.consumers)
    return next((one.label for one in consumers if one.exclusive), None)


def head_item(vhost: OpenVhost, queue: Queue) -> Item:
    """When the first message of a queue was made, as it says: of a classic queue alone."""
    if queue.quorum:
        return {}
    return {"head_message_timestamp": vhost.head_timestamp_s(queue.name)}


def queue_details(vhost: OpenVhost, queue: Queue) -> Item:
    """What only the answer about one queue has."""
    channels = vhost.shard.state.channels
    return head_item(vhost, queue) | {
        "consumer_details": [
            consumer_item(vhost, queue, channels.consumer(key)) for key in queue.line.consumers
        ],
        "deliveries": [],
        "garbage_collection": GARBAGE,
        "incoming": [],
    }


# -- clients


def place_of(connection_name: str) -> tuple[str, int]:
    """Host and port of the client in the name of a connection."""
    host, _, port = connection_name.partition(" -> ")[0].rpartition(":")
    return (host.strip("[]"), int(port)) if port.isdecimal() else (connection_name, 0)


def _channel_place(channel_name: str) -> Item:
    connection, _, number = channel_name.rpartition(" (")
    host, port = place_of(connection)
    return {
        "connection_name": connection or channel_name,
        "name": channel_name,
        "node": NODE,
        "number": int(number.rstrip(")")) if number.rstrip(")").isdecimal() else 0,
        "peer_host": host,
        "peer_port": port,
    }


def _consumer_arguments(vhost: OpenVhost, consumer: Consumer) -> Item:
    """Those of its client; of one whose client is not connected here, what the broker knows."""
    channel = vhost.listener(consumer.channel.name)
    given = channel.consumer_arguments(consumer.label) if isinstance(channel, Channel) else None
    if given is None:
        return {"x-priority": consumer.priority} if consumer.priority else {}
    return plain_table(given)


def _consumer_timeout(vhost: OpenVhost, queue: Queue) -> Any:
    """In milliseconds; an argument that is none is shown as it is, as by RabbitMQ."""
    timeout_ms = queue.settings.consumer_timeout_ms
    if timeout_ms == NO_TIMEOUT_MS:
        return plain(queue.declaration.arguments["x-consumer-timeout"])
    return vhost.config.consumer_timeout_ms if timeout_ms is None else timeout_ms


def consumer_item(vhost: OpenVhost, queue: Queue, consumer: Consumer) -> Item:
    """A consumer."""
    channel = consumer.channel
    active = not queue.line.single_active or queue.line.active == consumer.key
    return {
        "arguments": _consumer_arguments(vhost, consumer),
        "ack_required": not consumer.auto_ack,
        "active": active,
        "activity_status": "up"
        if not queue.line.single_active
        else "single_active"
        if active
        else "waiting",
        "channel_details": {**_channel_place(channel.name), "user": channel.user},
        "consumer_tag": consumer.label,
        "consumer_timeout": _consumer_timeout(vhost, queue),
        "exclusive": consumer.exclusive,
        "prefetch_count": consumer.prefetch,
        "queue": {"name": queue.name, "vhost": vhost.name},
    }


def _connection_state(connection: Connection) -> str:
    """Whether it is read: one that publishes is not while publishers are blocked."""
    if connection.blocked_by is None:
        return "running"
    return "blocked" if connection.publishes else "blocking"


def connection_item(connection: Connection, now_ms: int, age_s: float) -> Item:
    """A connection."""
    host, port = place_of(connection.name)
    here, here_port = place_of(connection.name.partition(" -> ")[2])
    properties = plain(connection.handshake.client_properties)
    name = properties.get("connection_name")
    named = {} if name is None else {"user_provided_name": name}
    return (
        named
        | about_tls(connection.handshake.client.tls)
        | {
            "auth_mechanism": connection.handshake.mechanism,
            "channel_max": connection.handshake.limits.channel_max,
            "channels": len(connection.channels),
            "client_properties": properties,
            "connected_at": now_ms - round(age_s * 1000),
            "frame_max": connection.frame_max,
            "garbage_collection": GARBAGE,
            "host": here,
            "name": connection.name,
            "node": NODE,
            "peer_host": host,
            "peer_port": port,
            "port": here_port,
            "protocol": "AMQP 0-9-1",
            "recv_cnt": connection.times_received,
            "recv_oct": connection.bytes_received,
            "recv_oct_details": {"rate": 0.0},
            "reductions": 0,
            "reductions_details": {"rate": 0.0},
            "send_cnt": connection.output.times_taken,
            "send_oct": connection.output.taken_bytes,
            "send_oct_details": {"rate": 0.0},
            "send_pend": 0,
            "state": _connection_state(connection),
            "timeout": connection.heartbeat_s,
            "type": "network",
            "user": connection.user,
            "user_who_performed_action": connection.user,
            "vhost": "" if connection.vhost is None else connection.vhost.name,
        }
    )


def channel_item(connection: Connection, channel: Channel) -> Item:
    """A channel, without its traffic."""
    vhost = connection.vhost
    assert vhost is not None, "a connection with channels has a vhost"
    known = vhost.shard.state.channels.get(connection.user, channel.name)
    consumers = [] if known is None else known.active_consumers()
    every = [] if known is None else known.consumers.values()
    unacked = sum(one.deliveries.unacked for one in every)
    transaction = channel.transaction
    if known is not None and transaction is not None and transaction.settled:
        unacked = len(known.by_tag().keys() - transaction.settled)
    host, port = place_of(connection.name)
    limit = 0 if known is None or known.limiter is None else known.limiter.limit
    return ({"global_prefetch_count": limit} if limit else {}) | {
        "acks_uncommitted": 0 if transaction is None else transaction.acks,
        "confirm": channel.confirms,
        "connection_details": {"name": connection.name, "peer_host": host, "peer_port": port},
        "consumer_count": len([one for one in consumers if one.number]),
        "garbage_collection": GARBAGE,
        "messages_unacknowledged": unacked,
        "messages_uncommitted": 0 if transaction is None else transaction.messages,
        "messages_unconfirmed": channel.unconfirmed,
        "name": channel.name,
        "node": NODE,
        "number": channel.number,
        "pending_raft_commands": 0,
        "prefetch_count": 0 if known is None else known.prefetch,
        "reductions": 0,
        "reductions_details": {"rate": 0.0},
        "state": "running",
        "transactional": transaction is not None,
        "user": connection.user,
        "user_who_performed_action": connection.user,
        "vhost": vhost.name,
    }


EXCHANGE_TYPES: Final = [
    {
        "name": name,
        "description": f"AMQP {name} exchange, as per the AMQP specification",
        "enabled": True,
    }
    for name in ("direct", "fanout", "headers", "topic")
]
VERSION: Final = RABBITMQ_VERSION
