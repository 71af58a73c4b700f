"""Rows of the topology's listings, with the columns of `rabbitmqctl list_*`."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from streaming.queries.duckdb_tables import Row, Tables
from streaming.queries.queues import QueueDepth, list_queues
from streaming.queries.vhosts.clients import consumer_counts
from streaming.queries.vhosts.declared import Declared, declared
from topology.declarations import Exchange, Queue
from topology.policies import QueueSettings
from topology.values import table_to_json
from topology.vhost import Vhost


def queue_rows(tables: Tables) -> list[Row]:
    """List every queue with what is in it, and the settings that apply to it."""
    return rows_of_queues(declared(tables), list_queues(tables), consumer_counts(tables))


def rows_of_queues(
    vhosts: Mapping[str, Declared],
    depths: Iterable[QueueDepth],
    consumers: Mapping[tuple[str, str], int],
) -> list[Row]:
    """List some queues with what is in them, and the settings that apply to them."""
    models = {name: each.vhost() for name, each in vhosts.items()}
    unknown = Vhost()
    return [_queue_row(depth, models.get(depth.vhost, unknown), consumers) for depth in depths]


def _queue_row(depth: QueueDepth, vhost: Vhost, consumers: Mapping[tuple[str, str], int]) -> Row:
    queue = vhost.queues.get(depth.queue, Queue(depth.queue))
    settings = vhost.settings(queue)
    return {
        "name": depth.queue,
        "vhost": depth.vhost,
        "type": depth.type,
        "messages": depth.ready + depth.unacked,
        "messages_ready": depth.ready,
        "messages_unacknowledged": depth.unacked,
        "consumers": consumers.get((depth.vhost, depth.queue), 0),
        "policy": settings.policy,
        "dead_letter_exchange": settings.dead_letter_exchange,
        "dead_letter_routing_key": settings.dead_letter_routing_key,
        "message_bytes": depth.bytes,
        "oldest_at": depth.oldest_at,
        "operator_policy": settings.operator_policy,
        "effective_settings": _effective(settings),
        "durable": queue.durable,
        "auto_delete": queue.auto_delete,
        "exclusive": queue.exclusive,
        "arguments": table_to_json(queue.arguments),
        "queue": depth.queue,
        "ready": depth.ready,
        "unacked": depth.unacked,
        "bytes": depth.bytes,
    }


def settings_rows(vhosts: Mapping[str, Declared]) -> list[Row]:
    """List the queues that have a policy or a setting, by vhost and name."""
    found = []
    for name, each in vhosts.items():
        for queue, settings in sorted(each.vhost().all_settings().items()):
            effective = _effective(settings)
            if settings.policy or settings.operator_policy or effective:
                row = {"vhost": name, "name": queue, "policy": settings.policy}
                row |= {"operator_policy": settings.operator_policy}
                found.append({**row, "effective_settings": effective})
    return found


def _effective(settings: QueueSettings) -> dict[str, Any]:
    """What arguments and policies result in, without what has its own column or is not set."""
    members = msgspec.structs.asdict(settings)
    for name in ("queue_type", "policy", "operator_policy"):
        del members[name]
    return {
        name: value
        for name, value in members.items()
        if value is not None and value is not False and (name, value) != ("reroute_once", True)
    }


def exchange_rows(vhosts: Mapping[str, Declared]) -> list[Row]:
    """List the exchanges of all vhosts, the predeclared ones included."""
    found = []
    for vhost, each in vhosts.items():
        policies = each.vhost().policies
        sources = Counter(binding.source for binding in each.bindings.values())
        for name, exchange in sorted(each.exchanges.items()):
            policy = policies.applying_to(exchange)
            found.append(
                {
                    "name": name,
                    "vhost": vhost,
                    "type": exchange.type,
                    "bindings": sources[name],
                    "alternate_exchange": policies.exchange_alternate(exchange),
                    "policy": policy.name if policy else None,
                    "durable": exchange.durable,
                    "auto_delete": exchange.auto_delete,
                    "internal": exchange.internal,
                    "arguments": table_to_json(exchange.arguments),
                }
            )
    return found


def binding_rows(vhosts: Mapping[str, Declared]) -> list[Row]:
    """List the bindings of all vhosts, without those that the default exchange implies."""
    return [
        {
            "source_name": binding.source,
            "source_kind": "exchange",
            "destination_name": binding.destination,
            "destination_type": binding.destination_type,
            "routing_key": binding.routing_key,
            "arguments": table_to_json(binding.arguments),
            "vhost": vhost,
            "destination_kind": binding.destination_type,
        }
        for vhost, each in vhosts.items()
        for binding in each.definitions().bindings
    ]


def policy_rows(vhosts: Mapping[str, Declared]) -> list[Row]:
    """List the policies and operator policies of all vhosts, with how many objects each governs."""
    found = []
    for vhost, each in vhosts.items():
        model = each.vhost()
        objects: list[Queue | Exchange] = [*each.queues.values(), *each.exchanges.values()]
        for operator, policies in ((False, each.policies), (True, each.operator_policies)):
            governing = [model.policies.applying_to(one, operator=operator) for one in objects]
            names = Counter(policy.name for policy in governing if policy is not None)
            found += [
                {
                    "vhost": vhost,
                    "name": name,
                    "pattern": policy.pattern,
                    "apply-to": policy.apply_to,
                    "definition": table_to_json(policy.definition),
                    "priority": policy.priority,
                    "operator": operator,
                    "applies": names[name],
                }
                for name, policy in sorted(policies.items())
            ]
    return found


def permission_rows(vhosts: Mapping[str, Declared]) -> list[Row]:
    """List what each user may do in each vhost."""
    return [
        {
            "user": user,
            "vhost": vhost,
            "configure": permission.configure,
            "write": permission.write,
            "read": permission.read,
        }
        for vhost, each in vhosts.items()
        for user, permission in sorted(each.permissions.items())
    ]
