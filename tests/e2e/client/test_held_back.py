"""Publishers while flow control really holds them back (D9): with our client and from a shell.

The mark is small, so that some hundred messages close the gate. Nobody consumes until the last
test, which opens it.
"""

import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Consumer, TopicPartition

from streaming.client import Address, Connection, FlowStoppedError
from streaming.client.address import address_of
from streaming.config import Absolute, FlowSettings, show_config
from tests.fixtures.pipeline import Pipeline
from tests.fixtures.waiting import WAIT_S

MARK_BYTES = 100_000
BODY = b"0123456789" * 100
FLOOD = 500
BLOCKED_S = 1.0


class Closed(NamedTuple):
    """A job whose gate is closed, a connection that knows it, and what closed the gate."""

    pipeline: Pipeline
    config: Path
    address: Address
    connection: Connection
    flood: list[Future[None]]

    def sent(self) -> int:
        """How many publishes are in Kafka."""
        consumer = Consumer(
            {"bootstrap.servers": self.address.bootstrap, "log_level": 0, "group.id": "ends"}
        )
        place = TopicPartition(self.address.publishes, 0)
        bounds = consumer.get_watermark_offsets(place, timeout=WAIT_S)
        consumer.close()
        assert bounds is not None
        return int(bounds[1])

    def wait_for_beat(self) -> None:
        """Wait until the heartbeat says that the gate is closed."""
        consumer = Consumer(
            {"bootstrap.servers": self.address.bootstrap, "log_level": 0, "group.id": "beats"}
        )
        consumer.assign([TopicPartition(self.address.alive, 0, 0)])
        said: list[bytes] = []

        def is_said() -> bool:
            record = consumer.poll(0.1)
            said.append(b"" if record is None else record.value() or b"")
            return b'"active": false' in said[-1]

        self.pipeline.until(is_said)
        consumer.close()


@pytest.fixture(scope="module")
def closed(
    tmp_path_factory: pytest.TempPathFactory, embedded_kafka: Any, spark: Any
) -> Iterator[Closed]:
    root = tmp_path_factory.mktemp("closed")
    flow = FlowSettings(vm_memory_high_watermark=Absolute(MARK_BYTES))
    job = {"max_batch_rows": 20}
    pipeline = Pipeline(root, embedded_kafka.bootstrap_servers, flow=flow, job=job)
    config = root / "dlx.toml"
    config.write_text(show_config(pipeline.config))
    address = address_of(pipeline.config)
    pipeline.start(spark)
    try:
        with Connection(address, timeout_s=WAIT_S) as connection:
            connection.channel().declare_queue("work")
            publisher = connection.publisher(blocked_timeout_s=BLOCKED_S)
            flood: list[Future[None]] = []
            with suppress(FlowStoppedError):  # on a machine that is quicker than any seen
                flood.extend(publisher.publish("", "work", BODY) for _ in range(FLOOD))
            pipeline.until(lambda: not connection.is_flowing)
            yield Closed(pipeline, config, address, connection, flood)
    finally:
        pipeline.stop()


def test_a_message_that_kafka_has_fails_after_the_blocked_timeout(closed):
    errors = [future.exception(WAIT_S) for future in closed.flood]

    held = [error for error in errors if error is not None]
    assert errors == [None] * (len(errors) - len(held)) + held
    assert {type(error) for error in held} == {FlowStoppedError}
    assert "The message was sent" in str(held[0])
    assert closed.sent() == len(errors)


def test_who_connects_while_it_is_closed_knows_it_before_publishing(closed):
    closed.wait_for_beat()

    with Connection(closed.address, timeout_s=WAIT_S) as connection:
        raising = connection.publisher(on_flow="raise")
        with pytest.raises(FlowStoppedError, match=r"above its high mark .* was not sent"):
            raising.publish("", "work", b"x")
        waiting = connection.publisher(blocked_timeout_s=0.5)
        with pytest.raises(FlowStoppedError, match=r"The message was not sent within 0\.5 s"):
            waiting.publish("", "work", b"x")
    assert closed.sent() == len(closed.flood)


def test_dlx_publish_reports_flow_control_and_ends_after_its_timeout(closed):
    closed.wait_for_beat()
    options = ["--routing-key", "work", "--lines", "--timeout", "8", "--config", str(closed.config)]

    finished = subprocess.run(
        [sys.executable, "-m", "streaming.cli", "publish", *options],
        input="one\ntwo\n",
        capture_output=True,
        text=True,
        check=False,
    )

    assert (finished.returncode, finished.stdout) == (1, "0 confirmed\n")
    waiting, ended = finished.stderr.splitlines()
    assert waiting.startswith("flow control")
    assert ended.startswith("line 1 and all that follow: flow control")
    assert ended.endswith("not sent within 8 s")
    assert closed.sent() == len(closed.flood)


def test_a_blocked_publisher_resumes_when_consumers_make_room(closed):
    sent: list[Future[None]] = []
    publisher = closed.connection.publisher()
    thread = threading.Thread(target=lambda: sent.append(publisher.publish("", "work", b"last")))
    thread.start()

    channel = closed.connection.channel()
    consumer = channel.consume("work", auto_ack=True)
    bodies = [delivery.body for _ in closed.flood if (delivery := consumer.next(WAIT_S))]
    thread.join(WAIT_S)
    last = consumer.next(WAIT_S)

    assert bodies == [BODY] * len(closed.flood)
    assert sent[0].exception(WAIT_S) is None
    assert last is not None
    assert last.body == b"last"
