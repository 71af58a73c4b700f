"""OpenTelemetry spans of publishes and deliveries, linked by the message's own `traceparent`.

    publish --> the span's context travels in the message's Kafka headers
                    |
    receive, process, ack, nack, reject: linked to it, and part of its trace

It needs `dlx-stream[otel]`. A program that does not use OpenTelemetry has no spans: nothing here
loads it, except `start_tracing`.
"""

import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from types import ModuleType
from typing import Any, Final

from streaming.client.errors import ClientError
from streaming.client.messages import ReceivedMessage

Headers = list[tuple[str, bytes | None]]

_ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")


def is_wanted(environment: Mapping[str, str]) -> bool:
    """Return whether OpenTelemetry's variables ask for an export of spans."""
    exporter = environment.get("OTEL_TRACES_EXPORTER", "").strip()
    asks = exporter or any(environment.get(name) for name in _ENDPOINTS)
    return bool(asks) and not _is_off(environment)


def start_tracing(service_name: str) -> bool:
    """Export the spans of this process by OTLP over HTTP, as the variables OTEL_* say.

    A provider that the program has set itself stays.

    Args:
        service_name: the service, unless OTEL_SERVICE_NAME names another.

    Returns:
        Whether spans are exported: False if OTEL_SDK_DISABLED or OTEL_TRACES_EXPORTER says no.

    Raises:
        ClientError: OpenTelemetry is not installed, or the variables ask for another exporter.
    """
    if _is_off(os.environ):
        return False
    exporter = os.environ.get("OTEL_TRACES_EXPORTER", "").strip()
    if exporter not in {"", "otlp"}:
        raise ClientError(
            f"OTEL_TRACES_EXPORTER is {exporter!r}: dlx exports spans by otlp; for another "
            "exporter, set a tracer provider in your program"
        )
    try:
        from streaming.client import _spans  # noqa: PLC0415 - an extra

        _spans.export(service_name, named=bool(os.environ.get("OTEL_SERVICE_NAME")))
    except ModuleNotFoundError as error:
        raise ClientError(
            f"spans need OpenTelemetry, and the module {error.name} is not installed: "
            "pip install 'dlx-stream[otel]'"
        ) from None
    return True


@contextmanager
def processing(delivery: ReceivedMessage) -> Iterator[Any]:
    """Make a span for the time in which a program handles a delivery.

    Callbacks and functions with `consumer` have it without this; a loop over a consumer does not.
    An exception is recorded on the span and passes through.

    Yields:
        The span; None without OpenTelemetry.
    """
    spans = _loaded()
    if spans is None:
        yield None
        return
    with spans.processing(delivery) as span:
        yield span


# -- for the client's other modules


def start_publish(
    headers: Headers, vhost: str, exchange: str, routing_key: str, size: int
) -> Any | None:
    """Start the span of a publish, and add its context to the headers unless they have one.

    Args:
        headers: of the record, the program's own Kafka headers included.
        size: bytes of the body.

    Returns:
        The span; None without OpenTelemetry. `end_publish` ends it.
    """
    spans = _loaded()
    return None if spans is None else spans.publish(headers, vhost, exchange, routing_key, size)


def end_publish(span: Any, confirm: Future[None] | BaseException) -> None:
    """End the span of a publish with its confirm, or with the error that prevented it."""
    if isinstance(confirm, BaseException):
        failed(span, confirm)
    elif not confirm.cancelled() and (error := confirm.exception()) is not None:
        failed(span, error)
    span.end()


def failed(span: Any | None, error: BaseException) -> None:
    """Record an error on a span, if there is one."""
    spans = _loaded()
    if spans is not None and span is not None:
        spans.fail(span, error)


def received(deliveries: Iterable[ReceivedMessage | None]) -> None:
    """Make a span for deliveries that are handed to the program."""
    spans = _loaded()
    if spans is not None and (known := [one for one in deliveries if one is not None]):
        spans.short("receive", known)


def settled(operation: str, named: Any) -> None:
    """Make a span for a settlement that is sent; ids alone tell nothing of the messages."""
    spans = _loaded()
    if spans is not None:
        several = [named] if isinstance(named, str | ReceivedMessage) else named
        spans.short(operation, [one for one in several if isinstance(one, ReceivedMessage)])


def _loaded() -> ModuleType | None:
    """The module that makes spans, if the program has imported OpenTelemetry and uses it."""
    if "opentelemetry.trace" not in sys.modules:
        return None
    from streaming.client import _spans  # noqa: PLC0415 - an extra

    return _spans if _spans.is_used() else None


def _is_off(environment: Mapping[str, str]) -> bool:
    is_disabled = environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"
    return is_disabled or environment.get("OTEL_TRACES_EXPORTER", "").strip() == "none"
