"""Writing definitions documents as RabbitMQ exports them (docs/semantics.md section 20)."""

from collections.abc import Iterator, Mapping, Sequence

from topology.declarations import (
    RESERVED_PREFIX,
    Declaration,
    Definitions,
    VhostLimits,
)
from topology.definitions.objects import declaration_document


def dump_definitions(vhosts: Mapping[str, Definitions]) -> dict[str, object]:
    """Write the definitions document of a whole cluster, without its users.

    Omits what RabbitMQ does not export: exclusive queues, predeclared and reserved objects, and
    their bindings. Loading the document and dumping it again gives an equal document.
    """
    sections: dict[str, list[dict[str, object]]] = {
        "vhosts": [{"name": vhost} for vhost in vhosts],
        "permissions": [],
        "topic_permissions": [],
        "parameters": [],
        "policies": [],
        "exchanges": [],
        "queues": [],
        "bindings": [],
    }
    for vhost, definitions in vhosts.items():
        for section, documents in exported_sections(definitions).items():
            sections[section] += [{"vhost": vhost} | document for document in documents]
    return dict(sections)


def exported(definitions: Definitions) -> Iterator[tuple[str, Declaration]]:
    """Yield the objects of one vhost that are exported, each with the name of its section."""
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
    sections: tuple[tuple[str, Sequence[Declaration]], ...] = (
        ("permissions", definitions.permissions),
        ("topic_permissions", definitions.topic_permissions),
        ("parameters", (*definitions.limits, *definitions.operator_policies)),
        ("policies", definitions.policies),
        ("exchanges", exchanges),
        ("queues", queues),
        ("bindings", bindings),
    )
    return ((section, item) for section, items in sections for item in items)


def exported_sections(definitions: Definitions) -> dict[str, list[dict[str, object]]]:
    """Write what is exported of one vhost, by section, without the name of the vhost."""
    found: dict[str, list[dict[str, object]]] = {}
    for section, item in exported(definitions):
        found.setdefault(section, []).append(exported_document(section, item))
    return found


def exported_document(section: str, item: Declaration) -> dict[str, object]:
    """Write an object of a section; RabbitMQ exports operator policies as parameters."""
    document = declaration_document(item)
    if section != "parameters":
        return document
    if isinstance(item, VhostLimits):
        return {"component": "vhost-limits", "name": item.name, "value": document}
    return {"component": "operator_policy", "name": document.pop("name"), "value": document}


def _is_reserved(name: str) -> bool:
    return not name or name.startswith(RESERVED_PREFIX)
