"""Definitions: everything declared, as a document that another broker takes.

Export and import have the members of RabbitMQ 4.0. What an import cannot use is refused before
anything is declared; what is not supported here is skipped, as everywhere.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final

from starlette.responses import Response

from streaming.amqp.vhosts import OpenVhost
from streaming.broker import commands
from streaming.broker.handlers.import_export import refusals
from streaming.management.answers import as_json, done
from streaming.management.bodies import (
    MAX_BODY_BYTES,
    Members,
    expect_shallow,
    read_object,
    uploaded,
)
from streaming.management.errors import ApiError, bad_request, not_found
from streaming.management.formats import (
    VERSION,
    plain_table,
    policy_item,
    queue_arguments,
)
from streaming.management.listing import narrowed
from streaming.management.pacing import Pace
from streaming.management.port import VhostInfo
from streaming.management.resources.cluster import cluster_name
from streaming.management.resources.doing import administer, administrator_of, refused
from streaming.management.resources.parameters import (
    VHOST_LIMITS,
    clear_limits,
    limits_of,
    parameters_of,
    set_global,
)
from streaming.management.resources.policies import policies_of
from streaming.management.resources.users import (
    permission_item,
    read_user,
    topic_permission_item,
    user_item,
)
from streaming.management.resources.vhosts import described_vhost, imported_info
from streaming.management.routing import Asked, Handler, Resource, administrator
from topology.declarations import RESERVED_PREFIX, BindingEnd
from topology.definitions.json_object import MAX_PROBLEMS
from topology.definitions.load import LoadedDefinitions, load_definitions
from topology.errors import InvalidTopologyError

logger = logging.getLogger(__name__)

_PRODUCT: Final = {
    "rabbit_version": VERSION,
    "rabbitmq_version": VERSION,
    "product_name": "RabbitMQ",
    "product_version": VERSION,
}
SKIPPED: Final = "dlx-skipped"
"""A header of the answer to an import: how many items are not supported."""

_KEPT: Final = frozenset({"unknown-argument", "policy-key-without-effect"})
"""Kinds of what has no effect, but is declared and exported again, as in RabbitMQ."""

_MOST_TOLD: Final = 50
"""Skipped items that are named in the log of the process."""

_NOT_JSON: Final = "failed_to_parse_json"
_OBJECTS: Final = (
    "exchanges",
    "queues",
    "bindings",
    "policies",
    "operator_policies",
    "permissions",
    "topic_permissions",
    "parameters",
)
"""The members whose objects belong to a vhost."""


def _is_exported(name: str) -> bool:
    return bool(name) and not name.startswith(RESERVED_PREFIX)


def _queues(vhost: OpenVhost) -> list[dict[str, Any]]:
    return [
        {
            "name": queue.name,
            "vhost": vhost.name,
            "durable": queue.durable,
            "auto_delete": queue.auto_delete,
            "arguments": queue_arguments(queue),
        }
        for _, queue in sorted(vhost.shard.vhost.queues.items())
        if not queue.exclusive and _is_exported(queue.name)
    ]


def _exchanges(vhost: OpenVhost) -> list[dict[str, Any]]:
    return [
        {
            "name": exchange.name,
            "vhost": vhost.name,
            "type": exchange.type,
            "durable": exchange.durable,
            "auto_delete": exchange.auto_delete,
            "internal": exchange.internal,
            "arguments": plain_table(exchange.arguments),
        }
        for _, exchange in sorted(vhost.shard.vhost.router.exchanges.items())
        if _is_exported(exchange.name)
    ]


def _bindings(vhost: OpenVhost) -> list[dict[str, Any]]:
    queues = vhost.shard.vhost.queues
    found = []
    for binding in vhost.shard.vhost.router.bindings.all():
        to_queue = binding.destination_type == "queue"
        if not binding.source or (to_queue and queues[binding.destination].exclusive):
            continue
        if to_queue and not _is_exported(binding.destination):
            continue
        found.append(
            {
                "source": binding.source,
                "vhost": vhost.name,
                "destination": binding.destination,
                "destination_type": binding.destination_type,
                "routing_key": binding.routing_key,
                "arguments": plain_table(binding.arguments),
            }
        )
    return found


def _topology(vhosts: list[OpenVhost]) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {
        name: [] for name in ("parameters", "policies", "queues", "exchanges", "bindings")
    }
    for vhost in vhosts:
        found["parameters"] += parameters_of(vhost, None)
        found["policies"] += [
            policy_item(vhost.name, policy) for policy in policies_of(vhost, operator=False)
        ]
        found["queues"] += _queues(vhost)
        found["exchanges"] += _exchanges(vhost)
        found["bindings"] += _bindings(vhost)
    return found


async def export_all(asked: Asked) -> Response:
    """Everything of the cluster."""
    front = asked.front
    vhosts = [vhost for _, vhost in sorted(front.server.vhosts.items())]
    name = cluster_name(asked)
    topology = _topology(vhosts)
    found: dict[str, Any] = {
        **_PRODUCT,
        "rabbitmq_definition_format": "cluster",
        "original_cluster_name": name,
        "explanation": f"Definitions of cluster '{name}'",
        "users": [user_item(user) for _, user in sorted(front.server.users.by_name.items())],
        "vhosts": [
            {"name": vhost.name, **described_vhost(front.info(vhost.name))} for vhost in vhosts
        ],
        "permissions": [
            permission_item(vhost.name, one)
            for vhost in vhosts
            for one in vhost.shard.vhost.permissions.permissions()
        ],
        "topic_permissions": [
            topic_permission_item(vhost.name, one)
            for vhost in vhosts
            for one in vhost.shard.vhost.topic_permissions.permissions()
        ],
        "parameters": topology["parameters"],
        "global_parameters": [
            {"name": each, "value": value}
            for each, value in sorted(front.global_parameters().items())
        ],
        "policies": topology["policies"],
        "queues": topology["queues"],
        "exchanges": topology["exchanges"],
        "bindings": topology["bindings"],
    }
    return _as_file(asked, found)


def _as_file(asked: Asked, document: dict[str, Any]) -> Response:
    """A document; with `download` browsers keep it as a file of that name."""
    response = as_json(narrowed(document, asked.query))
    name = asked.query.get("download")
    if name is not None:
        name = "".join(char for char in name if char.isprintable() and char.isascii())
        response.headers["content-disposition"] = f"attachment; filename={name}"
    return response


def _document(asked: Asked) -> dict[str, Any]:
    """What is to be imported: the body, or the file in a form."""
    data = uploaded(asked.body, asked.headers.get("content-type", ""))
    if data is None:
        raise bad_request(_NOT_JSON)
    return read_object(data, _NOT_JSON).document


async def export_vhost(asked: Asked) -> Response:
    """Everything of one vhost but users and permissions."""
    vhost = _vhost(asked)
    topology = _topology([vhost])
    for items in topology.values():
        for item in items:
            del item["vhost"]
    found = {
        **_PRODUCT,
        "rabbitmq_definition_format": "single_virtual_host",
        "original_vhost_name": vhost.name,
        "explanation": f"Definitions of virtual host '{vhost.name}'",
        **_described(asked, vhost),
        "limits": limits_of(vhost) or [],
        **topology,
    }
    return _as_file(asked, found)


def _vhost(asked: Asked, error: Callable[[str], ApiError] = bad_request) -> OpenVhost:
    """The vhost in the path."""
    found = asked.front.server.vhosts.get(asked.names["vhost"])
    if found is None:
        raise error("vhost_not_found")
    return found


def _described(asked: Asked, vhost: OpenVhost) -> dict[str, Any]:
    described = described_vhost(asked.front.info(vhost.name))
    return {name: described[name] for name in ("metadata", "description", "default_queue_type")}


async def import_all(asked: Asked) -> Response:
    """Declare what a document of a cluster holds."""
    return await _import(asked, _document(asked), "/")


async def import_vhost(asked: Asked) -> Response:
    """Declare what a document of one vhost holds in the vhost of the path."""
    document = dict(_document(asked))
    vhost = _vhost(asked, not_found)
    for member in ("users", "vhosts", "permissions", "topic_permissions", "global_parameters"):
        document.pop(member, None)
    for member in _OBJECTS:
        items = document.get(member)
        if isinstance(items, list):
            document[member] = [
                {**item, "vhost": vhost.name} if isinstance(item, dict) else item for item in items
            ]
    return await _import(asked, document, vhost.name)


async def _import(asked: Asked, document: dict[str, Any], default_vhost: str) -> Response:
    """Check all of a document, then declare it: users, vhosts, and what is in each.

    What is skipped is in the log of the process, and its number in a header of the answer.

    Raises:
        ApiError: 400, it cannot be used.
    """
    front = asked.front
    users = [_user(asked, one) for one in _list(document, "users")]
    vhosts = {_named(one, "a vhost"): one for one in _list(document, "vhosts")}
    listed = {name: imported_info(one, front.info(name)) for name, one in vhosts.items()}
    parameters = _list(document, "global_parameters")
    for one in parameters:
        expect_shallow(one.get("value"))
    loaded = await _loaded(asked, document, default_vhost, listed)
    _check_permissions(asked, loaded, {user.name for user in users})
    front.expect_changeable(users, list(listed))
    await _check_objects(asked, loaded)
    for user in users:
        await front.put_user(user, administrator_of(asked))
    for name, info in listed.items():
        await front.put_vhost(name, info, administrator_of(asked))
    for one in parameters:
        name = str(one.get("name", ""))
        if name and name != "internal_cluster_id":
            await set_global(asked, name, one.get("value"))
    for name in loaded.vhosts:
        vhost = front.server.vhosts[name]
        queue_type = front.info(name).default_queue_type
        part = _part(document, name, default_vhost, queue_type)
        command = commands.ImportDefinitions(definitions=part)
        await administer(asked, vhost, command)
        if any(
            one.get("component") == VHOST_LIMITS and not one["value"] for one in part["parameters"]
        ):
            await clear_limits(asked, vhost)
    response = done()
    skipped = [one for one in loaded.skipped if one.code not in _KEPT]
    if skipped:
        response.headers[SKIPPED] = str(len(skipped))
        told = "; ".join(f"{one.where}: {one.what}" for one in skipped[:_MOST_TOLD])
        logger.warning("an import skips %d items: %s", len(skipped), told)
    return response


def _part(
    document: dict[str, Any], vhost: str, default_vhost: str, queue_type: str
) -> dict[str, Any]:
    """The part of a document that is about one vhost."""
    part: dict[str, Any] = {"vhosts": [{"name": vhost, "default_queue_type": queue_type}]}
    for member in _OBJECTS:
        part[member] = [
            one for one in _list(document, member) if one.get("vhost", default_vhost) == vhost
        ]
    return part


def _list(document: dict[str, Any], member: str) -> list[dict[str, Any]]:
    items = document.get(member) or []
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise bad_request(f"{member} must be an array of objects")
    return items


def _named(document: dict[str, Any], what: str) -> str:
    name = document.get("name")
    if not isinstance(name, str):
        raise bad_request(f"{what} has no name")
    return name


def _user(asked: Asked, document: dict[str, Any]) -> Any:
    name = _named(document, "a user")
    before = asked.front.server.users.by_name.get(name)
    return read_user(name, Members(document), before)


async def _loaded(
    asked: Asked, document: dict[str, Any], default_vhost: str, listed: dict[str, VhostInfo]
) -> LoadedDefinitions:
    """Read the document, with what is there already, in a thread: it may be a large one.

    Users and global parameters are read elsewhere.
    """
    open_vhosts = asked.front.server.vhosts
    known = {name: asked.front.info(name) for name in open_vhosts} | listed
    for member in _OBJECTS:
        for one in _list(document, member):
            name = one.get("vhost", default_vhost)
            if not isinstance(name, str):
                raise bad_request(f"{member}: the name of a vhost must be a text")
            if name not in known:
                raise bad_request(
                    f'Please create virtual host "{name}" prior to importing definitions.'
                )
    vhosts = [
        {"name": name, "default_queue_type": info.default_queue_type}
        for name, info in known.items()
    ]
    full = {**document, "vhosts": vhosts, "users": [], "global_parameters": []}
    existing: dict[str, list[BindingEnd]] = {
        name: [
            *(("exchange", one) for one in vhost.shard.vhost.router.exchanges),
            *(("queue", one) for one in vhost.shard.vhost.queues),
        ]
        for name, vhost in open_vhosts.items()
    }
    try:
        return await asyncio.to_thread(
            load_definitions,
            full,
            default_vhost=default_vhost,
            existing=existing,
            max_problems=MAX_PROBLEMS,
        )
    except InvalidTopologyError as error:
        raise bad_request(str(error)) from None


async def _check_objects(asked: Asked, loaded: LoadedDefinitions) -> None:
    """Refuse what a vhost has otherwise, or would not take, before anything is declared."""
    pace = Pace()
    for name, definitions in loaded.vhosts.items():
        vhost = asked.front.server.vhosts.get(name)
        if vhost is None:
            continue
        found = refusals(vhost.shard.state, administrator_of(asked), definitions)
        async for refusal in pace.each(found):
            if refusal is not None:
                raise refused(refusal)


def _check_permissions(asked: Asked, loaded: LoadedDefinitions, new: set[str]) -> None:
    known = new | set(asked.front.server.users.by_name)
    for definitions in loaded.vhosts.values():
        named = [one.user for one in definitions.permissions]
        named += [one.user for one in definitions.topic_permissions]
        for user in named:
            if user not in known:
                raise bad_request(f'{{no_such_user,<<"{user}">>}}')


def _resource(path: str, export: Handler, take: Handler) -> Resource:
    return Resource(
        path,
        administrator,
        {"GET": export, "POST": take},
        kinds=frozenset({"application/json", "multipart/form-data"}),
        has_bert=False,
        most_bytes=MAX_BODY_BYTES,
    )


RESOURCES: Final = [
    _resource("definitions", export_all, import_all),
    _resource("all-configuration", export_all, import_all),
    _resource("definitions/{vhost}", export_vhost, import_vhost),
]
