"""Kafka records as any client of the job writes and reads them.

The demo's workers are examples of clients in any language: they follow the documentation of the
wire format and use none of this project's own code.
"""

import json
from collections.abc import Iterable
from typing import Any, NamedTuple

from streaming.demo.order_process import Order, compact_json

Headers = list[tuple[str, bytes]]


class Record(NamedTuple):
    """A record to write."""

    value: bytes
    headers: Headers


class OutboundRecord(NamedTuple):
    """A record from the outbound topic.

    Attributes:
        kind: delivery, confirm, return, answer or publish_error.
        value: the body of a delivery; otherwise a JSON object.
    """

    kind: str
    channel: str
    value: bytes
    headers: dict[str, bytes]

    @property
    def delivery_id(self) -> str:
        """The id that a settlement refers to."""
        return self.headers.get("dlx-delivery-id", b"").decode()

    @property
    def amqp_headers(self) -> dict[str, Any]:
        """The AMQP headers of a delivery, including x-death."""
        text = self.headers.get("dlx-headers")
        document = json.loads(text) if text else {}
        return document if isinstance(document, dict) else {}

    @property
    def document(self) -> dict[str, Any]:
        """The value of a record that is not a delivery."""
        document = json.loads(self.value)
        return document if isinstance(document, dict) else {}


def publish(message: Order, vhost: str, channel: str, flags: str = "confirm") -> Record:
    """The record of a publish."""
    return Record(
        message.body,
        [
            ("dlx-vhost", vhost.encode()),
            ("dlx-exchange", message.exchange.encode()),
            ("dlx-routing-key", message.routing_key.encode()),
            ("dlx-properties", compact_json(message.properties)),
            ("dlx-headers", compact_json(message.headers)),
            ("dlx-flags", flags.encode()),
            ("dlx-channel", channel.encode()),
        ],
    )


def command(document: dict[str, Any], vhost: str) -> Record:
    """The record of a command."""
    headers = [("dlx-op", str(document["op"]).encode()), ("dlx-vhost", vhost.encode())]
    return Record(compact_json(document), headers)


class Deduplicator:
    """Skips records that a replayed batch sent again, by the highest `dlx-seq` of each lane."""

    def __init__(self) -> None:
        self._highest: dict[tuple[bytes, bytes], int] = {}

    def read(
        self, value: bytes | None, headers: Iterable[tuple[str, bytes | None]]
    ) -> OutboundRecord | None:
        """A record from the outbound topic, or None if it was seen before."""
        by_name = {name: text or b"" for name, text in headers}
        lane = (by_name.get("dlx-vhost", b""), by_name.get("dlx-lane", b""))
        seq = int(by_name.get("dlx-seq", b"0"))
        if seq <= self._highest.get(lane, -1):
            return None
        self._highest[lane] = seq
        kind, channel = (by_name.get(name, b"").decode() for name in ("dlx-kind", "dlx-channel"))
        return OutboundRecord(kind, channel, value or b"", by_name)
