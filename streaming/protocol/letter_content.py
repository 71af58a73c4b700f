"""What a person may edit of a letter: body, properties and headers, with a hash that names them.

The hash is the SHA-256 of a JSON object with sorted names: `body` in base64, `headers` and
`properties`. So it does not depend on the order in which names were written.
"""

import hashlib
from typing import Any, Final

import msgspec

from streaming.protocol.amqp_properties import property_fault
from topology.declarations import too_long
from topology.values import table_from_json

OWN_HEADERS: Final = ("CC", "BCC", "x-death", "x-redrive-id", "x-redrive-count")
OWN_PREFIXES: Final = ("x-first-death-", "x-last-death-")
"""The broker writes these headers, or routes by them: an edit cannot."""


class LetterContent(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A letter's content.

    Attributes:
        properties: AMQP's basic properties that are present.
        headers: the headers as typed JSON; None: the letter has no headers table.
    """

    body: bytes
    properties: dict[str, Any]
    headers: dict[str, Any] | None

    @property
    def hash(self) -> str:
        """The hash of all of it."""
        return hashlib.sha256(msgspec.json.encode(self, order="sorted")).hexdigest()

    def fault(self) -> str:
        """What no message can have; empty if nothing."""
        for name, value in self.properties.items():
            found = property_fault(name, value)
            if found is not None:
                return f"property {name!r}: {found.words}"
        try:
            table_from_json(self.headers or {})
        except (ValueError, RecursionError) as error:
            return f"headers: {error}"
        return next((fault for fault in map(too_long, self.headers or {}) if fault), "")


def is_own_header(name: str) -> bool:
    """Whether only the broker writes a header."""
    return name in OWN_HEADERS or name.startswith(OWN_PREFIXES)
