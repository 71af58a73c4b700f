"""The spans themselves, in the words of OpenTelemetry's conventions for messaging.

`streaming.client.tracing` imports this module once a program uses OpenTelemetry. A span about one
message continues its trace, unless another span surrounds it; it is linked to it in any case.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from opentelemetry import propagate, trace
from opentelemetry.context import Context
from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode, get_current_span

from streaming.client.messages import ReceivedMessage

SYSTEM: Final = "dlx"
"""`messaging.system` of every span, and the name of the tracer."""

MAX_LINKS: Final = 128
"""The most messages that a span links; the SDK keeps no more by default."""

Header = tuple[str, bytes | None]

_ROUTING_KEY: Final = "messaging.rabbitmq.destination.routing_key"
_SIZE: Final = "messaging.message.body.size"
_TYPES: Final = {"publish": "send", "redrive": "send", "receive": "receive", "process": "process"}
"""The type of an operation by its name; all others settle."""


def is_used() -> bool:
    """Return whether the program has set a tracer provider, or a span is current."""
    return (
        not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider)
        or get_current_span().get_span_context().is_valid
    )


def export(service_name: str, *, named: bool) -> None:
    """Set a tracer provider that exports by OTLP over HTTP, unless the program has set one.

    Args:
        named: whether the environment names the service.
    """
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import (  # noqa: PLC0415 - slow
        OTLPSpanExporter,
    )
    from opentelemetry.sdk.resources import SERVICE_NAME, Resource  # noqa: PLC0415
    from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
    from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415

    if not isinstance(trace.get_tracer_provider(), TracerProvider):
        provider = TracerProvider(
            resource=Resource.create({} if named else {SERVICE_NAME: service_name})
        )
        provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        trace.set_tracer_provider(provider)


def publish(headers: list[Header], vhost: str, exchange: str, routing_key: str, size: int) -> Span:
    """Start the span of a publish; see `tracing.start_publish`."""
    own = context_of(headers)
    destination = exchange or routing_key
    span = trace.get_tracer(SYSTEM).start_span(
        f"publish {destination}",
        kind=SpanKind.PRODUCER,
        links=_links([own]),
        attributes={
            **_operation("publish", destination),
            _ROUTING_KEY: routing_key,
            _SIZE: size,
            "dlx.vhost": vhost,
        },
    )
    if own is None:
        carrier: dict[str, str] = {}
        propagate.inject(carrier, context=trace.set_span_in_context(span))
        known = {name for name, _value in headers}
        headers += [(name, text.encode()) for name, text in carrier.items() if name not in known]
    return span


@contextmanager
def processing(delivery: ReceivedMessage) -> Iterator[Span]:
    """Make a span around the handling of a delivery; see `tracing.processing`."""
    tracer = trace.get_tracer(SYSTEM)
    options = _about("process", [delivery])
    with tracer.start_as_current_span(
        **options, record_exception=False, set_status_on_exception=False
    ) as span:
        try:
            yield span
        except Exception as error:
            fail(span, error)
            raise


def short(operation: str, deliveries: Sequence[ReceivedMessage]) -> None:
    """Make a span without duration: deliveries were received or settled."""
    trace.get_tracer(SYSTEM).start_span(**_about(operation, deliveries)).end()


def redrive(headers: Iterable[Header], move: Mapping[str, Any], at_ns: int) -> None:
    """Make the span of a letter that a redrive moved.

    Args:
        headers: the Kafka headers of its message.
        move: vhost, queue, message_id, and of the redrive its id, action, targets and count.
        at_ns: when it moved, in epoch nanoseconds.
    """
    own = context_of(headers)
    span = trace.get_tracer(SYSTEM).start_span(
        f"redrive {move['queue']}",
        context=own or Context(),
        kind=SpanKind.PRODUCER,
        links=_links([own]),
        start_time=at_ns,
        attributes={
            **_operation("redrive", move["queue"]),
            **{f"dlx.{name}": value for name, value in move.items() if name != "queue"},
        },
    )
    span.end(at_ns)


def fail(span: Span, error: BaseException) -> None:
    """Record an error on a span."""
    span.record_exception(error)
    span.set_attribute("error.type", type(error).__qualname__)
    span.set_status(Status(StatusCode.ERROR, str(error)))


def context_of(headers: Iterable[Header]) -> Context | None:
    """Return the context that a message carries; None if it has none, or none that is valid."""
    carrier = {name.lower(): value.decode("ascii", "replace") for name, value in headers if value}
    context = propagate.extract(carrier, context=Context())
    return context if get_current_span(context).get_span_context().is_valid else None


def _operation(name: str, destination: str) -> dict[str, str]:
    return {
        "messaging.system": SYSTEM,
        "messaging.operation.name": name,
        "messaging.operation.type": _TYPES.get(name, "settle"),
        "messaging.destination.name": destination,
    }


def _about(operation: str, deliveries: Sequence[ReceivedMessage]) -> dict[str, Any]:
    """The arguments of a span about deliveries."""
    contexts = [context_of(one.kafka_headers) for one in deliveries[:MAX_LINKS]]
    destination = ", ".join(sorted({one.queue for one in deliveries}))
    attributes: dict[str, Any] = dict(_operation(operation, destination))
    parent = None
    if len(deliveries) == 1:
        [only] = deliveries
        attributes |= {
            _ROUTING_KEY: only.routing_key,
            _SIZE: len(only.body),
            "dlx.redelivered": only.redelivered,
            "dlx.deaths": sum(death.count for death in only.x_death),
        }
        if "message_id" in only.properties:
            attributes["messaging.message.id"] = str(only.properties["message_id"])
        if not get_current_span().get_span_context().is_valid:
            parent = contexts[0]
    else:
        attributes["messaging.batch.message_count"] = len(deliveries)
    return {
        "name": f"{operation} {destination}".rstrip(),
        "context": parent,
        "kind": SpanKind.CLIENT if operation not in _TYPES else SpanKind.CONSUMER,
        "links": _links(contexts),
        "attributes": attributes,
    }


def _links(contexts: Iterable[Context | None]) -> list[Link]:
    return [
        Link(get_current_span(context).get_span_context())
        for context in contexts
        if context is not None
    ]
