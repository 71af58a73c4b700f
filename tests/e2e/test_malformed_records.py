"""Malformed records of every kind among as many good ones: all are found, nothing is lost."""

import itertools
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from streaming.config import FlowSettings
from tests.fixtures.pipeline import Pipeline

MOST_BODY_BYTES, MOST_HEADER_BYTES = 4_000, 2_000


class Bad(NamedTuple):
    """A malformed record, and its cause in `quarantine`."""

    cause: str
    value: bytes | None
    headers: list[tuple[str, bytes]]
    is_command: bool = False


def publish(cause: str, value: bytes | None = b"bad", **headers: bytes) -> Bad:
    named = [(f"dlx-{name.replace('_', '-')}", text) for name, text in headers.items()]
    return Bad(cause, value, named)


def command(cause: str, value: bytes | None, op: bytes = b"") -> Bad:
    return Bad(cause, value, [("dlx-op", op)], is_command=True)


KINDS = [
    publish("bad_json", properties=b"{"),
    publish("bad_json", headers=b"\xff\xfe"),
    publish("bad_json", properties=b'{"a":' * 200),
    publish("wrong_type", properties=b"[]"),
    publish("wrong_type", properties=b'{"priority": "high"}'),
    publish("wrong_type", properties=b'{"delivery_mode": true}'),
    publish("wrong_type", headers=b'"x"'),
    publish("wrong_type", headers=b'{"x": {"$bytes": 1}}'),
    publish("out_of_range", properties=b'{"priority": 256}'),
    publish("unknown_property", properties=b'{"prority": 1}'),
    publish("not_utf8", exchange=b"\xff"),
    publish("not_utf8", routing_key=b"\xc3("),
    publish("header_too_long", routing_key=b"k" * 256),
    publish("header_too_long", properties=json.dumps({"type": "t" * 256}).encode()),
    publish("unknown_flag", flags=b"mandatory,urgent"),
    publish("unlisted_vhost", vhost=b"nowhere"),
    publish("null_body", None, routing_key=b"work"),
    publish("body_too_large", b"x" * (MOST_BODY_BYTES + 1), routing_key=b"work"),
    Bad("headers_too_large", b"bad", [("x", b"y" * (MOST_HEADER_BYTES + 1))]),
    command("null_body", None, b"get"),
    command("bad_json", b"", b"get"),
    command("bad_json", b"{'op': 'get'}"),
    command("bad_json", b"[" * 20_000),
    command("wrong_type", b"[]"),
    command("wrong_type", b"7"),
    command("unknown_op", b'{"op": "jump"}'),
    command("unknown_op", b"{}", b"publish"),
    command("op_mismatch", b'{"op": "ack", "refs": []}', b"get"),
    command("bad_command", b'{"op": "get"}'),
    command("bad_command", b'{"op": "get", "queue": 7}'),
    command("bad_command", b'{"op": "ack", "refs": "a/0"}'),
    command("bad_command", json.dumps({"op": "get", "queue": "q" * 256}).encode()),
    command("bad_command", json.dumps({"op": "renew", "channel": "c" * 256}).encode()),
    command("bad_command", b'{"op": "declare_queue", "queue": {"name": "q", "arguments": 1}}'),
    command("not_utf8", b"{}", b"\xff"),
    # about as deep as Python can read: perhaps in the first stage, but not in the fold
    *(
        command(
            "bad_json",
            b'{"op": "import_definitions", "definitions": {"x": '
            + b"[" * levels
            + b"]" * levels
            + b"}}",
        )
        for levels in range(700, 1_000, 20)
    ),
]


@pytest.fixture
def pipeline(tmp_path: Path, embedded_kafka: Any) -> Iterator[Pipeline]:
    flow = FlowSettings(max_body_bytes=MOST_BODY_BYTES, max_header_bytes=MOST_HEADER_BYTES)
    pipeline = Pipeline(tmp_path, embedded_kafka.bootstrap_servers, flow=flow)
    yield pipeline
    pipeline.stop()


@pytest.mark.parametrize(
    "count", [1_000, pytest.param(100_000, marks=pytest.mark.nightly, id="100,000")]
)  # the same kinds, a hundred times as often
def test_all_bad_records_are_quarantined_and_all_good_ones_processed(pipeline, spark, count):
    pipeline.start(spark)
    pipeline.command(op="declare_queue", queue={"name": "work"})
    pipeline.until(lambda: any(batch.events for batch in pipeline.batches))

    expected: Counter[tuple[str, bytes | None]] = Counter()
    for number, bad in zip(range(count), itertools.cycle(KINDS), strict=False):
        expected[bad.cause, bad.value] += 1
        topic = pipeline.commands if bad.is_command else pipeline.publishes
        pipeline.producer.produce(topic, bad.value, headers=list(bad.headers))
        pipeline.publish(f"good {number}".encode(), routing_key=b"work")
        if number % 1_000 == 0:
            pipeline.producer.flush(30)
    pipeline.until(lambda: pipeline.resident() == count)
    found = ("quarantine", "cause, record_value, count(*)", "ALL", "cause, record_value")
    pipeline.until(lambda: sum(many for *_, many in pipeline.query(*found)) >= count)

    assert {(cause, value): many for cause, value, many in pipeline.query(*found)} == expected
    assert pipeline.query("messages", "count(distinct body), min(body), count(*)", "1") == [
        (count, b"good 0", count)
    ]
    [(whole,)] = pipeline.query(
        "quarantine", "count(*) filter (detail is null or kafka_headers is null)", "1"
    )
    assert whole == 0
