"""Exporting what is declared, page by page: an answer must fit into a Kafka record."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from topology.declarations import Definitions
from topology.definitions.load import exported

if TYPE_CHECKING:
    from streaming.broker.vhost import Declared

PAGE_BYTES = 256 * 1024
"""A page ends with the object that brings it above this; a larger object is left out."""

_encoder = msgspec.json.Encoder()


def definitions_of(topology: Declared) -> Definitions:
    """Everything that is declared, as values."""
    return Definitions(
        exchanges=tuple(each for _name, each in sorted(topology.router.exchanges.items())),
        queues=tuple(queue for _name, (_number, queue) in sorted(topology.queues.items())),
        bindings=tuple(topology.router.bindings()),
        policies=tuple(topology.policies.policies()),
        operator_policies=tuple(topology.policies.policies(operator=True)),
        permissions=tuple(topology.permissions.permissions()),
    )


def export_page(topology: Declared, vhost: str, first: int) -> dict[str, Any]:
    """One page of the export.

    Returns:
        `objects`: pairs of a section of definitions documents and an object of it; `version` of the
        topology, which must be the same on all pages; `next`, if there is more; `left_out`: objects
        too large for a page, as texts.
    """
    everything = list(exported(definitions_of(topology)))
    objects: list[tuple[str, Any]] = [] if first else [("vhosts", {"name": vhost})]
    left_out: list[str] = []
    size = 0
    position = first
    for section, write, item in everything[first:]:
        document = {"vhost": vhost, **write(item)}
        document_bytes = len(_encoder.encode(document))
        if document_bytes > PAGE_BYTES:
            left_out.append(f"{section}: {str(document.get('name', ''))[:255]!r} is too large")
            size += len(left_out[-1])
        else:
            objects.append((section, document))
            size += document_bytes
        position += 1
        if size > PAGE_BYTES:
            break
    page: dict[str, Any] = {"version": topology.version, "objects": objects, "left_out": left_out}
    return page | {"next": position} if position < len(everything) else page
