"""`dlx run --log-format json` on a mapped topic: every line is JSON, faults become warnings."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from streaming.config import InputSettings, JsonValue, RecordField, RecordHeader, TopicMapping
from tests.fixtures.dlx_run import DlxRun
from tests.fixtures.pipeline import Pipeline

MAPPING = TopicMapping(
    exchange="",
    routing_key="{json.$.queue}",
    message_id="{record.topic}/{record.offset}",
    timestamp=RecordField("timestamp"),
    correlation_id=RecordHeader("correlation", optional=True),
    headers={"tags": JsonValue("$.tags", otherwise="none"), "origin": RecordHeader("origin")},
)
GOOD = b'{"queue": "work", "tags": ["new", "vip"]}'
UNROUTABLE = b'{"queue": "nowhere"}'
ORIGIN: list[tuple[str, str | bytes | None]] = [("origin", b"shop")]
TIME_S = 1_700_000_000


@pytest.fixture
def job(tmp_path: Path, embedded_kafka: Any, new_topic: Any) -> Any:
    inputs = [InputSettings(topic=new_topic(), mapping=MAPPING)]
    pipeline = Pipeline(tmp_path, embedded_kafka.bootstrap_servers, inputs=inputs)
    run = DlxRun(tmp_path, pipeline.config)
    yield pipeline, run
    run.kill()


def lines_of(file: Path) -> list[dict[str, Any]]:
    """The lines of a log, each of which must be a JSON object."""
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert all(isinstance(line, dict) for line in lines)
    assert all({"time", "level", "message"} <= line.keys() for line in lines)
    return lines


def test_every_line_is_json_and_faults_of_a_mapped_topic_are_warned_about(job):
    pipeline, run = job
    topic = pipeline.config.inputs[2].topic
    producer = Producer({"bootstrap.servers": pipeline.servers, "log_level": 0})

    run.start(options=("--log-format", "json"))

    def batches(kind: str) -> int:
        return sum(line.get(kind, 0) for line in lines_of(run.log) if line.get("event") == "batch")

    pipeline.command(op="declare_queue", queue={"name": "work"})
    pipeline.producer.flush()
    run.until(lambda: batches("events") >= 1)  # the queue exists
    sent: list[tuple[bytes, Any]] = [
        (GOOD, [*ORIGIN, ("correlation", b"c1")]),
        (UNROUTABLE, ORIGIN),
        (GOOD, []),
        (b"<order/>", ORIGIN),
    ]
    for body, headers in sent:
        producer.produce(topic, body, headers=headers, timestamp=TIME_S * 1000 + 7)
    producer.flush()
    run.until(lambda: batches("quarantined") == 2 and batches("publishes") == 2)
    run.stop(group=True)  # as systemd does

    lines = lines_of(run.log)
    warnings = [line["message"] for line in lines if line["level"] == "WARNING"]
    [lacking] = [line for line in warnings if "(unmapped)" in line]
    assert f"topic {topic} " in lacking
    assert "header 'origin', from which" in lacking
    assert "mapping.headers.origin is made, is missing" in lacking
    assert len([line for line in warnings if "(bad_json)" in line]) == 1
    assert len([line for line in warnings if "reached no queue" in line]) == 1
    assert lines[-1]["message"].startswith("stopped")
    assert (batches("unroutable"), batches("returned"), batches("publish_errors")) == (1, 0, 0)

    logs = Path(pipeline.config.job.log_dir)
    kept = lines_of(logs / "dlx.log")
    assert [line["message"] for line in kept] == [line["message"] for line in lines]
    for name in ("spark.log", "spark.out"):
        lines_of(logs / name)

    check = [sys.executable, "-P", "-m", "streaming.cli", "config", "check", str(run.file)]
    shown = subprocess.run([*check, "--online"], capture_output=True, text=True, check=False)
    assert (shown.returncode, shown.stderr) == (1, "")
    assert f"{topic}: 2 of the last 4 records fit the mapping" in shown.stdout
    last = subprocess.run(
        [*check, "--online", "--json", "--last", "3"], capture_output=True, text=True, check=False
    )
    tried = [json.loads(line) for line in last.stdout.splitlines()]
    assert [(each["offset"], each.get("cause")) for each in tried] == [
        (1, None),
        (2, "unmapped"),
        (3, "bad_json"),
    ]
    assert (tried[0]["routing_key"], tried[0]["headers"]) == (
        "nowhere",
        {"tags": "none", "origin": "shop"},
    )
    assert tried[1]["detail"] in lacking

    first, _second = pipeline.query("messages", "routing_key, properties, headers", '"offset"')
    assert first[0] == "work"
    properties = first[1]
    assert properties["message_id"] == f"{topic}/0"
    assert (properties["timestamp"], properties["correlation_id"]) == (TIME_S, "c1")
    assert json.loads(first[2]) == {"tags": ["new", "vip"], "origin": "shop"}
    details = pipeline.query("quarantine", "cause, detail", "cause")
    assert [cause for cause, _detail in details] == ["bad_json", "unmapped"]
    assert "dlx-" not in "".join(detail for _cause, detail in details)
