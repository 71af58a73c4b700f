"""Exporting what is declared, page by page: an answer must fit into a Kafka record."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from topology.definitions.dump import exported

if TYPE_CHECKING:
    from topology.vhost import Vhost

PAGE_BYTES = 256 * 1024
"""A page ends with the object that brings it above this; a larger object is left out."""

_encoder = msgspec.json.Encoder()


def export_page(topology: Vhost, vhost: str, first: int) -> dict[str, Any]:
    """One page of the export.

    Returns:
        `objects`: pairs of a section of definitions documents and an object of it; `version` of the
        topology, which must be the same on all pages; `next`, if there is more; `left_out`: objects
        too large for a page, as texts.
    """
    everything = list(exported(topology.definitions()))
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
