"""Kafka records as a client of the job writes and reads them: the wire page, and nothing of ours.

The demo's workers are examples of clients, hence these few lines rather than a library.
"""

import json
from collections.abc import Iterable
from typing import Any, NamedTuple

from streaming.demo.story import Order

Headers = list[tuple[str, bytes]]


class Record(NamedTuple):
    """A record to write."""

    value: bytes
    headers: Headers


class Inbox(NamedTuple):
    """A record of the outbound topic.

    Attributes:
        kind: delivery, confirm, return, answer or publish_error.
        value: a delivery's body; of others a JSON object.
        headers: by name, the last value of each.
    """

    kind: str
    channel: str
    value: bytes
    headers: dict[str, bytes]

    @property
    def delivery_id(self) -> str:
        """What a settlement names."""
        return self.headers.get("dlx-delivery-id", b"").decode()

    @property
    def amqp_headers(self) -> dict[str, Any]:
        """The AMQP headers of a delivery, x-death among them."""
        text = self.headers.get("dlx-headers")
        document = json.loads(text) if text else {}
        return document if isinstance(document, dict) else {}

    @property
    def document(self) -> dict[str, Any]:
        """The value of what is no delivery."""
        document = json.loads(self.value)
        return document if isinstance(document, dict) else {}


def publish(message: Order, vhost: str, channel: str, flags: str = "confirm") -> Record:
    """A publish."""
    return Record(
        message.body,
        [
            ("dlx-vhost", vhost.encode()),
            ("dlx-exchange", message.exchange.encode()),
            ("dlx-routing-key", message.routing_key.encode()),
            ("dlx-properties", _json(message.properties)),
            ("dlx-headers", _json(message.headers)),
            ("dlx-flags", flags.encode()),
            ("dlx-channel", channel.encode()),
        ],
    )


def command(document: dict[str, Any], vhost: str) -> Record:
    """A command."""
    headers = [("dlx-op", str(document["op"]).encode()), ("dlx-vhost", vhost.encode())]
    return Record(_json(document), headers)


class Repeats:
    """Drops what a replayed batch sent again: nothing but the highest seq must be remembered."""

    def __init__(self) -> None:
        self._highest: dict[tuple[bytes, bytes], int] = {}

    def inbox(
        self, value: bytes | None, headers: Iterable[tuple[str, bytes | None]]
    ) -> Inbox | None:
        """A record of the outbound topic, or None if it was seen before."""
        by_name = {name: text or b"" for name, text in headers}
        shard = (by_name.get("dlx-vhost", b""), by_name.get("dlx-lane", b""))
        seq = int(by_name.get("dlx-seq", b"0"))
        if seq <= self._highest.get(shard, -1):
            return None
        self._highest[shard] = seq
        kind = by_name.get("dlx-kind", b"").decode()
        return Inbox(kind, by_name.get("dlx-channel", b"").decode(), value or b"", by_name)


def _json(document: dict[str, Any]) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode()
