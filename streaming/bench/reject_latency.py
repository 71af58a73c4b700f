"""From a consumer's reject to the row in `dead_letters`, at a steady rate of messages.

    publisher --> Kafka --> job --> outbound topic --> consumer, which rejects each at once
                             ^---------------- reject ----------'

Publisher and consumer are a process of their own. A reject counts from the instant it is handed to
the Kafka client until the driver has committed the batch that holds its dead letter; the rows are
then read back from the table, copy by copy.
"""

from __future__ import annotations

import json
import multiprocessing
import time
import uuid
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow.parquet as pq
from confluent_kafka import Consumer, Producer
from deltalake import DeltaTable

from streaming.bench.pipeline_load import bodies
from streaming.protocol.headers import COPY_ID, EXCHANGE, KIND, OP, REF, ROUTING_KEY

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from streaming.bench.pipeline_environment import Done, Stand

WARM_UP_S: Final = 15
"""Seconds at the rate before the clock starts; not longer than what is measured."""

PATIENCE_S: Final = 60
_QUEUE: Final = "work"
_CHANNEL: Final = "worker"


class Latencies(NamedTuple):
    """`seconds` of each reject; their batches, Spark's progress, cores kept busy meanwhile."""

    seconds: list[float]
    batches: list[Done]
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


def reject_latencies(stand: Stand, rate: int, seconds: int) -> Latencies:
    """Run the load and look the dead letters up."""
    name = "latency"
    stand.log.make(name, 1)
    stand.declare(name, _topology())
    config = stand.config(name, name)
    topics = (name, f"{name}.commands", config.outbound_topics()[("/", "guest")])
    context = multiprocessing.get_context("spawn")
    with stand.job(config) as job:
        job.until(lambda: bool(job.done))
        mine, theirs = context.Pipe()
        client = context.Process(
            target=run_client,
            args=(stand.servers, topics, rate, min(WARM_UP_S, seconds) + seconds, theirs),
            daemon=True,
        )
        client.start()
        job.until(lambda: mine.poll(0))
        rejected_at: dict[int, float] = mine.recv()
        client.join()
        job.until(lambda: job.died >= len(rejected_at))
        committed_at = {done.batch.batch_id: done.at_s for done in job.done}
    visible = _rows(config.job.tables_location)
    measured = list(rejected_at.items())[-rate * seconds :]
    seconds_each = [committed_at[visible[copy_id]] - at_s for copy_id, at_s in measured]
    counted = {visible[copy_id] for copy_id, _at_s in measured}
    batches = [done for done in job.done if done.batch.batch_id in counted]
    cores = job.cpu.cores(batches[0].at_s, batches[-1].at_s)
    return Latencies(seconds_each, batches, job.progress, cores)


def _rows(tables: str) -> dict[int, int]:
    """Copy id -> batch of its row in `dead_letters`."""
    found: dict[int, int] = {}
    for uri in DeltaTable(f"{tables}/dead_letters").file_uris():
        table = pq.read_table(uri, columns=["copy_id", "batch_id"])
        found.update(zip(table["copy_id"].to_pylist(), table["batch_id"].to_pylist(), strict=True))
    return found


def run_client(
    servers: str, topics: tuple[str, str, str], rate: int, seconds: int, answer: Connection
) -> None:
    """Publish at a rate, reject what comes; tell when each copy was rejected (epoch seconds)."""
    publishes, commands, outbound = topics
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 2})
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": uuid.uuid4().hex,
            "auto.offset.reset": "earliest",
            "fetch.wait.max.ms": 10,
        }
    )
    consumer.subscribe([outbound])
    body = bodies()
    headers: list[tuple[str, str | bytes | None]] = [
        (EXCHANGE, b""),
        (ROUTING_KEY, _QUEUE.encode()),
    ]
    rejected_at: dict[int, float] = {}
    started = time.monotonic()
    sent = 0
    while len(rejected_at) < rate * seconds:
        passed = time.monotonic() - started
        if passed > seconds + PATIENCE_S:
            break
        due = min(int(passed * rate), rate * seconds)
        while sent < due:
            producer.produce(publishes, next(body), headers=headers)
            sent += 1
        producer.poll(0)
        for message in consumer.consume(500, 0.005):
            told: dict[str, bytes] = dict(message.headers() or [])  # type: ignore[arg-type] # always a list
            if message.error() is not None or told.get(KIND) != b"delivery":
                continue
            reject = {"op": "reject", "refs": [told[REF].decode()], "channel": _CHANNEL}
            rejected_at[int(told[COPY_ID])] = time.time()
            producer.produce(commands, json.dumps(reject).encode(), headers=[(OP, b"reject")])
    producer.flush(PATIENCE_S)
    consumer.close()
    answer.send(rejected_at)
