"""Spans of publishes and deliveries, with OpenTelemetry's exporter in memory."""

import subprocess
import sys
from concurrent.futures import Future

import pytest
from opentelemetry import trace
from opentelemetry.trace import SpanKind, StatusCode

from streaming.client import ClientError, Delivery, NackedError, tracing
from tests.fixtures.spans import TRACE, TRACEPARENT, exporter, hex_trace

__all__ = ["exporter"]


def delivery_with(*headers, queue="work"):
    return Delivery(
        body=b"abc",
        exchange="",
        routing_key=queue,
        properties={"message_id": "m-1"},
        headers={},
        kafka_headers=headers,
        queue=queue,
        consumer_tag="c",
        redelivered=True,
        delivery_count=1,
        delivery_id="c/0",
    )


def test_a_publish_carries_the_context_of_its_span(exporter):
    headers: list[tuple[str, bytes | None]] = [("dlx-vhost", b"/")]

    span = tracing.start_publish(headers, "/", "shop", "orders.eu", 3)
    confirm: Future[None] = Future()
    confirm.set_result(None)
    tracing.end_publish(span, confirm)

    [ended] = exporter.get_finished_spans()
    assert (ended.name, ended.kind) == ("publish shop", SpanKind.PRODUCER)
    [(name, value)] = headers[1:]
    assert name == "traceparent"
    assert value
    assert value.startswith(f"00-{hex_trace(ended)}-{ended.context.span_id:016x}-".encode())
    assert ended.attributes["messaging.rabbitmq.destination.routing_key"] == "orders.eu"
    assert ended.status.status_code == StatusCode.UNSET


def test_a_publish_is_part_of_the_span_around_it(exporter):
    headers: list[tuple[str, bytes | None]] = []
    with trace.get_tracer("shop").start_as_current_span("order") as order:
        span = tracing.start_publish(headers, "/", "", "work", 3)
        tracing.end_publish(span, NackedError("full"))

    publish, _order = exporter.get_finished_spans()
    assert publish.parent.span_id == order.get_span_context().span_id
    assert publish.status.status_code == StatusCode.ERROR
    assert publish.attributes["error.type"] == "NackedError"
    assert (dict(headers)["traceparent"] or b"").split(b"-")[1].decode() == hex_trace(publish)


@pytest.mark.parametrize("own", [TRACEPARENT, b"00-ab", b"\xff"], ids=["valid", "short", "bytes"])
def test_a_traceparent_of_the_program_stays(exporter, own):
    headers = [("traceparent", own)]

    tracing.end_publish(tracing.start_publish(headers, "/", "", "work", 3), NackedError("full"))

    [ended] = exporter.get_finished_spans()
    assert headers == [("traceparent", own)]
    assert [f"{link.context.trace_id:032x}" for link in ended.links] == (
        [TRACE] if own == TRACEPARENT else []
    )


def test_handling_a_delivery_continues_the_trace_of_its_message(exporter):
    delivery = delivery_with(("ce_id", b"\xff"), ("traceparent", TRACEPARENT), ("nothing", None))

    tracing.received([delivery, None])
    with tracing.processing(delivery):
        tracing.settled("ack", delivery)
    with pytest.raises(ValueError, match="bad"), tracing.processing(delivery):
        raise ValueError("bad")

    spans = exporter.get_finished_spans()
    assert [span.name for span in spans] == [
        *("receive work", "ack work", "process work", "process work")
    ]
    assert {hex_trace(span) for span in spans} == {TRACE}
    assert {len(span.links) for span in spans} == {1}
    _receive, ack, process, failed = spans
    assert ack.parent.span_id == process.context.span_id
    assert ack.attributes["messaging.operation.type"] == "settle"
    assert failed.status.status_code == StatusCode.ERROR
    assert failed.attributes["error.type"] == "ValueError"


def test_spans_of_several_messages_link_each_of_them(exporter):
    known, unknown = delivery_with(("traceparent", TRACEPARENT)), delivery_with(queue="other")

    tracing.settled("nack", iter([known, unknown, "c/7"]))

    [span] = exporter.get_finished_spans()
    assert span.name == "nack other, work"
    assert span.attributes["messaging.batch.message_count"] == 2
    assert [f"{link.context.trace_id:032x}" for link in span.links] == [TRACE]


@pytest.mark.parametrize(
    ("environment", "wanted"),
    [
        ({}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://localhost:4318"}, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://localhost:4318/v1/traces"}, True),
        ({"OTEL_TRACES_EXPORTER": "otlp"}, True),
        ({"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://c"}, False),
        ({"OTEL_TRACES_EXPORTER": "otlp", "OTEL_SDK_DISABLED": "TRUE"}, False),
    ],
)
def test_the_environment_says_whether_spans_are_exported(environment, wanted):
    assert tracing.is_wanted(environment) == wanted


def test_another_exporter_is_refused(monkeypatch):
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "zipkin")

    with pytest.raises(ClientError, match="zipkin"):
        tracing.start_tracing("shop")


def test_without_opentelemetry_nothing_is_loaded_and_start_names_the_package():
    program = """
import sys
sys.modules["opentelemetry"] = None
from streaming.client import ClientError, tracing
headers = []
assert tracing.start_publish(headers, "/", "", "work", 3) is None
tracing.received([None])
tracing.settled("ack", "c/0")
with tracing.processing(None) as span:
    assert span is None
assert headers == []
try:
    tracing.start_tracing("shop")
except ClientError as error:
    print(error)
"""
    finished = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env={}
    )

    assert "pip install 'dlx-stream[otel]'" in finished.stdout
