"""AMQP's basic properties: their names, types and bounds."""

from typing import Annotated, Any, Final, NamedTuple

import msgspec

from topology.declarations import too_long
from topology.suggestions import did_you_mean
from topology.values import json_type

PROPERTIES: Final = (
    "content_type",
    "content_encoding",
    "delivery_mode",
    "priority",
    "correlation_id",
    "reply_to",
    "expiration",
    "message_id",
    "timestamp",
    "type",
    "user_id",
    "app_id",
    "cluster_id",
)
"""All but the headers, in the order of the AMQP specification."""

WHOLE_PROPERTIES: Final = {
    "delivery_mode": (0, 255),
    "priority": (0, 255),
    "timestamp": (0, (1 << 63) - 1),
}
"""The properties that are whole numbers, with their bounds; all others are strings."""


def _member(name: str) -> tuple[str, Any, None]:
    if name not in WHOLE_PROPERTIES:
        return name, str, None
    least, most = WHOLE_PROPERTIES[name]
    return name, Annotated[int, msgspec.Meta(ge=least, le=most)], None


Properties: Final = msgspec.defstruct(
    "Properties",
    [_member(name) for name in PROPERTIES],
    forbid_unknown_fields=True,
    omit_defaults=True,
    gc=False,
)
"""A member for each property, None if it is absent: decodes and encodes JSON at once.

It accepts what `property_fault` accepts, except that it does not limit the length of strings.
"""


class PropertyFault(NamedTuple):
    """Why a property is not acceptable.

    Attributes:
        cause: a fixed word to group by.
        words: the same for people.
    """

    cause: str
    words: str


def property_fault(name: str, value: object) -> PropertyFault | None:
    """Check one member of a JSON object of properties; None if it is acceptable."""
    if name not in PROPERTIES:
        hint = did_you_mean(name, PROPERTIES)
        return PropertyFault("unknown_property", f"is not an AMQP property{hint}")
    if name in WHOLE_PROPERTIES:
        least, most = WHOLE_PROPERTIES[name]
        if not isinstance(value, int) or isinstance(value, bool):
            return PropertyFault("wrong_type", f"expected a whole number, got {json_type(value)}")
        if not least <= value <= most:
            return PropertyFault("out_of_range", f"must be from {least} to {most}, not {value}")
        return None
    if not isinstance(value, str):
        return PropertyFault("wrong_type", f"expected a string, got {json_type(value)}")
    too_large = too_long(value)
    return PropertyFault("header_too_long", too_large) if too_large else None
