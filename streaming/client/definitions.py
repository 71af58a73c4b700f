"""Definitions documents: import into a vhost in one command, export in pages."""

import logging
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from streaming.client.errors import ClientError
from streaming.protocol.definitions_packing import write_definitions

logger = logging.getLogger("dlx.client")

SECTIONS = ("vhosts", "permissions", "parameters", "policies", "exchanges", "queues", "bindings")
MAX_EXPORT_ATTEMPTS = 5

IMPORT_WAIT_S = 5.0
IMPORT_WAIT_S_PER_MB = 10.0
"""How much longer than for other commands to wait while the job is alive. An idle job needs half a
second per megabyte of definitions."""


class QueueState(NamedTuple):
    """A declared queue.

    Attributes:
        queue: its name; the broker chooses one if none was given.
        ready: how many messages are ready.
        consumers: how many consumers it has.
    """

    queue: str
    ready: int
    consumers: int


class ImportResult(NamedTuple):
    """What an import did.

    Attributes:
        objects: how many objects the document declares.
        skipped: parts of the document that are not supported.
    """

    objects: int
    skipped: tuple[str, ...]


def import_definitions(
    request: Callable[..., dict[str, Any]], document: Mapping[str, Any]
) -> ImportResult:
    """Import a document; `request` sends a command by its op and members."""
    try:
        written = write_definitions(document)
    except (ValueError, TypeError) as error:
        raise ClientError(f"the definitions cannot be imported: {error}") from error
    extra_wait_s = IMPORT_WAIT_S + written.text_bytes * IMPORT_WAIT_S_PER_MB / 1_000_000
    answer = request("import_definitions", extra_wait_s=extra_wait_s, **written.member)
    return ImportResult(int(answer["imported"]), tuple(answer["skipped"]))


def export_definitions(request: Callable[..., dict[str, Any]]) -> dict[str, Any]:
    """Export a vhost, and start again if the topology changes between two pages."""
    for _attempt in range(MAX_EXPORT_ATTEMPTS):
        document = _export(request)
        if document is not None:
            return document
    raise ClientError("the topology keeps changing: export it again at a quieter time")


def _export(request: Callable[..., dict[str, Any]]) -> dict[str, Any] | None:
    """Join the pages of an export; None if the topology changed between two of them."""
    document: dict[str, Any] = {section: [] for section in SECTIONS}
    page = request("export_definitions")
    version = page["version"]
    while True:
        for item in page["skipped"]:
            logger.warning("not exported: %s", item)
        for section, member in page["objects"]:
            document.setdefault(section, []).append(member)
        if "next" not in page:
            return document
        page = request("export_definitions", first=page["next"])
        if page["version"] != version:
            return None
