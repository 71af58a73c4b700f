"""Records of mapped topics: vhost, exchange and routing key from literals, key or headers (D3)."""

from typing import Any

from streaming.config.inputs import RecordKey, Selector, TopicMapping
from streaming.protocol.record_headers import MalformedRecordError

ForeignHeaders = tuple[tuple[str, bytes | None], ...]


def mapped_headers(
    mapping: TopicMapping, record_key: bytes | None, headers: ForeignHeaders
) -> tuple[Any, ...]:
    """Return the values of the headers of dlx (`record_headers.INBOUND`), and the foreign headers.

    If a selector finds no value, an error that quarantines the record replaces its own headers.
    """
    last = dict(headers)
    try:
        vhost = _select(mapping.vhost, "vhost", record_key, last)
        exchange = _select(mapping.exchange, "exchange", record_key, last)
        routing_key = _select(mapping.routing_key, "routing_key", record_key, last)
    except MalformedRecordError as error:
        return (*(None,) * 8, error)
    return (None, vhost, exchange, routing_key, None, None, None, None, headers or None)


def _select(
    selector: Selector, what: str, record_key: bytes | None, headers: dict[str, bytes | None]
) -> bytes:
    if isinstance(selector, str):
        return selector.encode()
    if isinstance(selector, RecordKey):
        value, place = record_key, "the record key"
    else:
        value, place = headers.get(selector.name), f"the header {selector.name!r}"
    if value is None:
        if selector.otherwise is None:
            raise MalformedRecordError("unmapped", f"{what} comes from {place}, which is missing")
        return selector.otherwise.encode()
    return bytes(value)
