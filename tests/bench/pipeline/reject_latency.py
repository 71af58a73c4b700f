"""Measures the time from a consumer's reject to the row in `dead_letters`, at a steady rate.

    publisher --> Kafka --> job --> outbound topic --> consumer, which rejects each at once
                             ^---------------- reject ----------'

A process of its own publishes and consumes. The time of a reject starts when the Kafka client gets
it, and ends when the driver has committed the batch with its dead letter. The rows are read back
from the table, copy by copy.
"""

from __future__ import annotations

import json
import multiprocessing
import time
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import unquote

import pyarrow.parquet as pq
from confluent_kafka import Producer
from deltalake import DeltaTable

from streaming.protocol.record_headers import COPY_ID, EXCHANGE, KIND, OP, REF, ROUTING_KEY
from tests.bench.kafka_log import Headers, whole_topic
from tests.bench.pipeline.traffic import bodies

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from tests.bench.pipeline.environment import BenchEnvironment, CommittedBatch

WARM_UP_S: Final = 60
"""Seconds of traffic before the measurement, at most twice the measurement: the JVMs of Spark and
Kafka compile for about a minute."""

TIMEOUT_S: Final = 60
_QUEUE: Final = "work"
_CHANNEL: Final = "worker"


class Latencies(NamedTuple):
    """The latency of each reject in seconds, with the batches, progress and cores meanwhile."""

    seconds: list[float]
    batches: list[CommittedBatch]
    progress: list[Any]
    cores: dict[str, float]


def _topology() -> list[dict[str, Any]]:
    work = {"name": _QUEUE, "arguments": {"x-dead-letter-exchange": "dlx"}}
    return [
        {"op": "declare_exchange", "exchange": {"name": "dlx", "type": "fanout"}},
        {"op": "declare_queue", "queue": {"name": "dlq"}},
        {"op": "bind", "binding": {"source": "dlx", "destination": "dlq"}},
        {"op": "declare_queue", "queue": work},
        {"op": "consume", "queue": _QUEUE, "as": "c", "prefetch": 0, "channel": _CHANNEL},
    ]


def reject_latencies(
    environment: BenchEnvironment, name: str, rate: int, seconds: int
) -> Latencies:
    """Run the traffic and look up its dead letters."""
    environment.traffic.create_topic(name, 1)
    environment.declare(name, _topology())
    config = environment.config(name, name)
    topics = (name, f"{name}.commands", config.outbound_topics()[("/", "guest")])
    context = multiprocessing.get_context("spawn")
    with environment.job(config) as job:
        job.wait_until(lambda: bool(job.batches))
        mine, theirs = context.Pipe()
        client = context.Process(
            target=run_client,
            args=(environment.servers, topics, rate, min(WARM_UP_S, 2 * seconds) + seconds, theirs),
            daemon=True,
        )
        client.start()
        job.wait_until(lambda: mine.poll(0))
        rejected_at: dict[int, float] = mine.recv()
        client.join()
        job.wait_until(lambda: job.died >= len(rejected_at))
        committed_at = {each.batch.batch_id: each.at_s for each in job.batches}
    visible = _rows(config.job.tables_location)
    measured = list(rejected_at.items())[-rate * seconds :]
    seconds_each = [committed_at[visible[copy_id]] - at_s for copy_id, at_s in measured]
    counted = {visible[copy_id] for copy_id, _at_s in measured}
    batches = [each for each in job.batches if each.batch.batch_id in counted]
    cores = job.cpu.cores(batches[0].at_s, batches[-1].at_s)
    return Latencies(seconds_each, batches, job.progress, cores)


def _rows(tables: str) -> dict[int, int]:
    """Copy id -> batch of its row in `dead_letters`."""
    found: dict[int, int] = {}
    for uri in DeltaTable(f"{tables}/dead_letters").file_uris():
        table = pq.read_table(unquote(uri), columns=["copy_id", "batch_id"])
        found.update(zip(table["copy_id"].to_pylist(), table["batch_id"].to_pylist(), strict=True))
    return found


def run_client(
    servers: str, topics: tuple[str, str, str], rate: int, seconds: int, answer: Connection
) -> None:
    """Publish at a rate, reject every delivery, and send when each copy was rejected."""
    publishes, commands, outbound = topics
    producer = Producer({"bootstrap.servers": servers, "log_level": 0, "linger.ms": 2})
    consumer = whole_topic(servers, outbound)
    body = bodies()
    headers: Headers = [(EXCHANGE, b""), (ROUTING_KEY, _QUEUE.encode())]
    rejected_at: dict[int, float] = {}
    start_s = time.monotonic()
    sent = 0
    while len(rejected_at) < rate * seconds:
        passed = time.monotonic() - start_s
        if passed > seconds + TIMEOUT_S:
            break
        due = min(int(passed * rate), rate * seconds)
        while sent < due:
            producer.produce(publishes, next(body), headers=headers)
            sent += 1
        producer.poll(0)
        for message in consumer.consume(500, 0.005):
            received: dict[str, bytes] = dict(message.headers() or [])  # type: ignore[arg-type] # always a list
            if message.error() is not None or received.get(KIND) != b"delivery":
                continue
            reject = {"op": "reject", "refs": [received[REF].decode()], "channel": _CHANNEL}
            rejected_at[int(received[COPY_ID])] = time.time()
            producer.produce(commands, json.dumps(reject).encode(), headers=[(OP, b"reject")])
    producer.flush(TIMEOUT_S)
    consumer.close()
    answer.send(rejected_at)
