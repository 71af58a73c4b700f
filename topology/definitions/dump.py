"""Writing definitions documents as RabbitMQ exports them (SEMANTICS section 20)."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from topology.declarations import RESERVED_PREFIX, Definitions, Policy
from topology.definitions.load import User
from topology.definitions.objects import (
    binding_document,
    exchange_document,
    permission_document,
    policy_document,
    queue_document,
)

Exportable = tuple[str, Callable[[Any], dict[str, object]], Any]
"""A section of definitions documents, an object of it, and the function that writes the object."""


def dump_definitions(
    vhosts: Mapping[str, Definitions], users: tuple[User, ...] = ()
) -> dict[str, object]:
    """Write the definitions document of a whole cluster.

    Omits what RabbitMQ does not export: exclusive queues, predeclared and reserved objects, and
    their bindings. Loading the document and dumping it again gives an equal document.
    """
    sections: dict[str, list[dict[str, object]]] = {
        "users": [{"name": user.name, "tags": list(user.tags)} for user in users],
        "vhosts": [{"name": vhost} for vhost in vhosts],
        "permissions": [],
        "parameters": [],
        "policies": [],
        "exchanges": [],
        "queues": [],
        "bindings": [],
    }
    for vhost, definitions in vhosts.items():
        for section, write, item in exported(definitions):
            sections[section].append({"vhost": vhost} | write(item))
    return dict(sections)


def exported(definitions: Definitions) -> Iterator[Exportable]:
    """Yield the objects of one vhost that are exported; the caller writes those it needs."""
    exchanges = [item for item in definitions.exchanges if not _is_reserved(item.name)]
    queues = [
        item for item in definitions.queues if not item.exclusive and not _is_reserved(item.name)
    ]
    omitted = {item.name for item in definitions.queues} - {item.name for item in queues}
    bindings = [
        item
        for item in definitions.bindings
        if item.source and not (item.destination_type == "queue" and item.destination in omitted)
    ]
    kinds: tuple[tuple[str, Callable[[Any], dict[str, object]], Iterable[object]], ...] = (
        ("permissions", permission_document, definitions.permissions),
        ("parameters", _operator_policy_document, definitions.operator_policies),
        ("policies", policy_document, definitions.policies),
        ("exchanges", exchange_document, exchanges),
        ("queues", queue_document, queues),
        ("bindings", binding_document, bindings),
    )
    for section, write, items in kinds:
        for item in items:
            yield section, write, item


def _operator_policy_document(policy: Policy) -> dict[str, object]:
    """Write an operator policy as RabbitMQ exports it: as a parameter."""
    document = policy_document(policy)
    return {"component": "operator_policy", "name": document.pop("name"), "value": document}


def _is_reserved(name: str) -> bool:
    return not name or name.startswith(RESERVED_PREFIX)
