"""A delivery as the recorded outcomes show it."""

from decimal import Decimal
from typing import Any

from streaming.broker.message import Envelope
from streaming.broker.outbound import DeliveryOut
from streaming.protocol.headers import delivered_headers
from streaming.protocol.properties import PROPERTIES
from topology.values import Timestamp


def normalised(value: Any) -> Any:
    """An AMQP value as JSON, as recorded: timestamps become a placeholder, bytes text."""
    match value:
        case Timestamp():
            return "<timestamp>"
        case bytes():
            return value.decode("utf-8", "backslashreplace")
        case Decimal():
            return str(value)
        case dict():
            return {name: normalised(item) for name, item in value.items()}
        case list():
            return [normalised(item) for item in value]
        case _:
            return value


def envelope_record(
    envelope: Envelope, body: str, headers: dict[str, Any] | None
) -> dict[str, Any]:
    """Body, exchange, routing key, properties and headers."""
    properties = dict(envelope.properties)
    if envelope.expiration is not None:
        properties["expiration"] = envelope.expiration
    return {
        "body": body,
        "exchange": envelope.exchange,
        "routing_key": envelope.routing_keys[0],
        "properties": {
            name: normalised(properties[name]) for name in PROPERTIES if name in properties
        },
        "headers": normalised(headers),
    }


def delivery_record(delivery: DeliveryOut, body: str, compat: str) -> dict[str, Any]:
    """A delivery, without its ref."""
    record = envelope_record(delivery.copy.envelope, body, delivered_headers(delivery, compat))
    record["redelivered"] = bool(delivery.delivery_count)
    return record
