"""A document of definitions as several commands, none of which is too large for a record."""

from typing import Any, Final

import msgspec

from streaming.broker.commands import ImportDefinitions

_ORDER: Final = (
    "parameters",
    "policies",
    "operator_policies",
    "permissions",
    "topic_permissions",
    "exchanges",
    "queues",
    "bindings",
)


def portions(document: dict[str, Any], max_bytes: int) -> list[ImportDefinitions]:
    """A document as several that are imported one after the other; what is named comes first.

    Args:
        max_bytes: of the JSON text of one; an item that is larger is one by itself.
    """
    if len(msgspec.json.encode(document)) <= max_bytes:
        return [ImportDefinitions(definitions=document)]
    rest = {name: value for name, value in document.items() if name not in _ORDER}
    found: list[dict[str, Any]] = []
    size = max_bytes
    for member in _ORDER:
        for item in document.get(member, ()):
            item_size = len(msgspec.json.encode(item))
            if size + item_size > max_bytes:
                found.append(dict(rest))
                size = 0
            found[-1].setdefault(member, []).append(item)
            size += item_size
    return [ImportDefinitions(definitions=portion) for portion in found]
