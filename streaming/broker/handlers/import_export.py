"""Commands that import and export definitions.

An import declares all of a document, or nothing. An export is split into pages, because an answer
must fit into a Kafka record.
"""

from collections.abc import Iterator
from typing import Any

import msgspec

from streaming.broker import commands
from streaming.broker.events import Actor
from streaming.broker.handlers import exchanges, lifecycle, policies, queues
from streaming.broker.handlers.access import Result, refuse_administration, vhost_name
from streaming.broker.shard_state import ShardState
from topology.declarations import Definitions, DestinationType
from topology.definitions.dump import exported, exported_document
from topology.definitions.json_object import MAX_PROBLEMS
from topology.definitions.load import load_definitions
from topology.errors import InvalidTopologyError
from topology.limits import refuse_import
from topology.refusals import Refusal, precondition_failed
from topology.vhost import Vhost

PAGE_BYTES = 256 * 1024
"""A page ends with the object that makes it larger; an object larger than this is left out."""

_encoder = msgspec.json.Encoder()


def import_definitions(
    shard: ShardState, actor: Actor, command: commands.ImportDefinitions
) -> Result:
    """Declare what the document holds for this vhost (R-DEF-1..4).

    An object that exists with other arguments refuses the whole import; nothing has changed then.

    Returns:
        `imported`: how many objects; `skipped`: the unsupported ones, as texts.
    """
    name = vhost_name(shard)
    refusal = refuse_administration(shard, actor)
    if refusal is not None:
        return refusal
    has_bindings = bool(command.definitions.get("bindings"))
    try:
        loaded = load_definitions(
            command.definitions,
            default_vhost=name,
            existing={name: _existing(shard.context.vhost)} if has_bindings else {},
            max_problems=MAX_PROBLEMS,
        )
    except InvalidTopologyError as error:
        return precondition_failed(f"definitions cannot be imported: {error}")
    skipped = [str(problem) for problem in loaded.skipped]
    definitions = loaded.vhosts.get(name)
    if definitions is None:
        return {"imported": 0, "skipped": skipped}
    for refusal in refusals(shard, actor, definitions):
        if refusal is not None:
            return refusal
    _declare(shard, definitions)
    return {"imported": _count(definitions), "skipped": skipped}


def refusals(shard: ShardState, actor: Actor, definitions: Definitions) -> Iterator[Refusal | None]:
    """Why this user may not declare all, or each, of these; None for one that is not refused."""
    vhost = shard.context.vhost
    added = {queue.name for queue in definitions.queues} - vhost.queues.keys()
    yield refuse_import(vhost.limits, len(vhost.queues), len(added), vhost_name(shard))
    for policy in definitions.policies:
        yield policies.refuse_policy(shard, actor, policy, operator=False)
    for policy in definitions.operator_policies:
        yield policies.refuse_policy(shard, actor, policy, operator=True)
    for exchange in definitions.exchanges:
        yield exchanges.refuse_exchange(shard, actor, exchange)
    for queue in definitions.queues:
        yield queues.refuse_declaration(shard, actor, queue)
    for binding in definitions.bindings:
        yield exchanges.refuse_binding_key(shard, binding)


def _declare(shard: ShardState, definitions: Definitions) -> None:
    for permission in definitions.permissions:
        policies.add_permission(shard, permission)
    for topic_permission in definitions.topic_permissions:
        policies.add_topic_permission(shard, topic_permission)
    for limits in definitions.limits:
        policies.put_limits(shard, limits)
    policies.put_in_force(shard, definitions.policies, definitions.operator_policies)
    for exchange in definitions.exchanges:
        exchanges.add_exchange(shard, exchange)
    for queue in definitions.queues:
        lifecycle.declare_queue(shard, queue)
    for binding in definitions.bindings:
        exchanges.add_binding(shard, binding)


def _existing(vhost: Vhost) -> list[tuple[DestinationType, str]]:
    """All exchanges and queues."""
    exchange_names: list[tuple[DestinationType, str]] = [
        ("exchange", name) for name in vhost.router.exchanges
    ]
    return exchange_names + [("queue", name) for name in vhost.queues]


def _count(definitions: Definitions) -> int:
    return sum(
        len(part)
        for part in (
            definitions.exchanges,
            definitions.queues,
            definitions.bindings,
            definitions.policies,
            definitions.operator_policies,
            definitions.permissions,
            definitions.topic_permissions,
            definitions.limits,
        )
    )


def export_definitions(
    shard: ShardState, actor: Actor, command: commands.ExportDefinitions
) -> Result:
    """Export one page, from object number `first` on.

    Returns:
        `objects`: pairs of a section of definitions documents and an object of it; `version` of the
        vhost, which must be the same on all pages; `next`, if there are more objects; `skipped`:
        objects too large for a page, as texts.
    """
    refusal = refuse_administration(shard, actor)
    if refusal is not None:
        return refusal
    vhost, name = shard.context.vhost, vhost_name(shard)
    everything = list(exported(vhost.definitions()))
    objects: list[tuple[str, Any]] = [] if command.first else [("vhosts", {"name": name})]
    skipped: list[str] = []
    size = 0
    position = command.first
    for section, item in everything[command.first :]:
        document = {"vhost": name, **exported_document(section, item)}
        document_bytes = len(_encoder.encode(document))
        if document_bytes > PAGE_BYTES:
            skipped.append(f"{section}: {str(document.get('name', ''))[:255]!r} is too large")
            size += len(skipped[-1])
        else:
            objects.append((section, document))
            size += document_bytes
        position += 1
        if size > PAGE_BYTES:
            break
    page: dict[str, Any] = {"version": vhost.version, "objects": objects, "skipped": skipped}
    return page | {"next": position} if position < len(everything) else page
