"""Whole definitions documents, into a vhost and out of it."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, NamedTuple

from streaming.client.errors import ClientError
from streaming.protocol.definitions_packing import write_definitions

logger = logging.getLogger("dlx.client")

EXPORTED = ("vhosts", "permissions", "parameters", "policies", "exchanges", "queues", "bindings")
EXPORT_ATTEMPTS = 5

IMPORT_PATIENCE_S = 5.0
IMPORT_PATIENCE_S_PER_MB = 10.0
"""How much longer than for other commands an import is waited for, while the job lives. A quiet job
needs half a second for a megabyte of definitions."""


class ImportResult(NamedTuple):
    """What an import did: how many objects, and what of the document is not modelled."""

    objects: int
    unsupported: tuple[str, ...]


class Definitions:
    """The calls of a channel that are about all that is declared."""

    def ask(self, op: str, *, patience_s: float = 0.0, **members: Any) -> dict[str, Any]:
        """Send a command of this channel and wait for its answer.

        Args:
            patience_s: how much longer than usual, as long as the job lives.
        """
        raise NotImplementedError

    def import_definitions(self, document: Mapping[str, Any]) -> ImportResult:
        """Declare what a definitions document holds for this vhost: all of it, or nothing.

        A large document is waited for longer than for `timeout_s`, as long as the job lives.

        Raises:
            AccessRefusedError: the user is no administrator.
            ClientError: the document is too large for a command.
            PreconditionFailedError: the document is wrong, or something exists otherwise.
        """
        try:
            written = write_definitions(document)
        except (ValueError, TypeError) as error:
            raise ClientError(f"the definitions cannot be imported: {error}") from error
        patience_s = IMPORT_PATIENCE_S + written.text_bytes * IMPORT_PATIENCE_S_PER_MB / 1_000_000
        answer = self.ask("import_definitions", patience_s=patience_s, **written.member)
        return ImportResult(int(answer["imported"]), tuple(answer["left_out"]))

    def export_definitions(self) -> dict[str, Any]:
        """What is declared in this vhost, as a definitions document RabbitMQ imports.

        Raises:
            AccessRefusedError: the user is no administrator.
            ClientError: the topology changed all the time while it was read.
        """
        for _attempt in range(EXPORT_ATTEMPTS):
            document = self._export()
            if document is not None:
                return document
        raise ClientError("the topology changes all the time: export it again in a quieter moment")

    def _export(self) -> dict[str, Any] | None:
        """The pages put together; None if the topology changed between them."""
        document: dict[str, Any] = {section: [] for section in EXPORTED}
        page = self.ask("export_definitions")
        version = page["version"]
        while True:
            for what in page["left_out"]:
                logger.warning("not exported: %s", what)
            for section, member in page["objects"]:
                document.setdefault(section, []).append(member)
            if "next" not in page:
                return document
            page = self.ask("export_definitions", first=page["next"])
            if page["version"] != version:
                return None
