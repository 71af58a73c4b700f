"""Exactly once: a job that is killed again and again leaves what an undisturbed one leaves.

One log, two jobs, each with a checkpoint, tables and outbound topics of its own. The first runs
in peace; the second is killed (SIGKILL, the JVM and every Python process at once) at random
instants and started again. With `clock = event` and one partition the outcome does not depend on
where batches are cut, so the tables, `batch_id` and file places aside, and the outbound records
after dropping repeats, must be equal.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import pyarrow.parquet as pq
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]
from deltalake import DeltaTable

from streaming.config import JobConfig, show_config
from streaming.config.inputs import InputSettings
from streaming.config.job import JobSettings
from streaming.config.kafka import KafkaSettings
from streaming.config.topics import OutboundSettings
from streaming.pipeline.checkpoint import Checkpoint

LOG = "chaos"
START_MS = 1_700_000_000_000
WORK_QUEUES = 4
WAIT_S = 1_800
COMPARED = ("messages", "quarantine", "dead_letters", "events")


class ChaosResult(NamedTuple):
    """What came of it; `differences` names tables and topics that are not equal."""

    messages: int
    kills: int
    rows: dict[str, int]
    differences: list[str]


def produce_log(servers: str, messages: int) -> int:
    """Write the log: publishes, gets, rejections and acks; returns where it ends."""
    admin = AdminClient({"bootstrap.servers": servers})
    limits = {"message.timestamp.before.max.ms": str((1 << 63) - 1), "retention.ms": "-1"}
    topics = [
        NewTopic(LOG, num_partitions=1, replication_factor=1, config=limits),
        NewTopic(f"{LOG}-empty", num_partitions=1, replication_factor=1, config=limits),
    ]
    for made in admin.create_topics(topics).values():
        made.result()
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 20})

    def send(value: bytes, headers: list[tuple[str, str | bytes | None]], at_ms: int) -> None:
        while True:
            try:
                producer.produce(LOG, value, headers=headers, timestamp=at_ms, partition=0)
            except BufferError:
                producer.poll(0.5)
                continue
            return

    def command(at_ms: int, **members: Any) -> None:
        send(json.dumps(members).encode(), [("dlx-op", members["op"].encode())], at_ms)

    for name, kind in (("orders", "topic"), ("dead", "fanout")):
        command(START_MS, op="declare_exchange", exchange={"name": name, "type": kind})
    command(START_MS, op="declare_queue", queue={"name": "graveyard"})
    command(START_MS, op="bind", binding={"source": "dead", "destination": "graveyard"})
    variants: list[dict[str, Any]] = [
        {"x-message-ttl": 500},
        {"x-max-length": 50},
        {},
        {"x-queue-type": "quorum"},
    ]
    for number in range(WORK_QUEUES):
        arguments = {"x-dead-letter-exchange": "dead", **variants[number % len(variants)]}
        name = f"work{number}"
        command(START_MS, op="declare_queue", queue={"name": name, "arguments": arguments})
        binding = {"source": "orders", "destination": name, "routing_key": f"order.{number}.#"}
        command(START_MS, op="bind", binding=binding)
    at_ms = START_MS
    for number in range(messages):
        at_ms += 1
        key = f"order.{number % WORK_QUEUES}.created".encode()
        headers: list[tuple[str, str | bytes | None]] = [
            ("dlx-exchange", b"orders"),
            ("dlx-routing-key", key),
        ]
        if number % 50 == 0:
            headers.append(("dlx-flags", b"confirm"))
        send(f"body {number}".encode(), headers, at_ms)
        if number % 100 == 99:  # noqa: PLR2004 - every hundred
            label = f"g{number}"
            queue = f"work{2 + number // 100 % 2}"
            command(at_ms, op="get", queue=queue, count=20, channel="worker", **{"as": label})
            refs = [f"{label}/{place}" for place in range(20)]
            command(at_ms, op="reject", refs=refs[:10], channel="worker")
            command(at_ms, op="nack", refs=refs[10:12], requeue=True, channel="worker")
            command(at_ms, op="ack", refs=refs[12:], channel="worker")
    left = producer.flush(120)
    if left:
        raise RuntimeError(f"{left} records could not be produced")
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "chaos-end"})
    _low, high = consumer.get_watermark_offsets(TopicPartition(LOG, 0), timeout=30)
    consumer.close()
    return int(high)


class ChaosJob:
    """A job as a process: `dlx run` on a configuration of its own."""

    def __init__(self, root: Path, servers: str, name: str, batch_rows: int) -> None:
        self.root = root / name
        self.root.mkdir(parents=True)
        self.tables = self.root / "tables"
        self.config = JobConfig(
            job=JobSettings(
                checkpoint_location=str(self.root / "checkpoints"),
                tables_location=str(self.tables),
                log_dir=str(self.root / "logs"),
                shuffle_partitions=2,
                clock="event",
                max_batch_rows=batch_rows,
                driver_memory="1g",
            ),
            kafka=KafkaSettings(bootstrap_servers=(servers,)),
            inputs=(
                InputSettings(topic=f"{LOG}-empty", source="publishes"),
                InputSettings(topic=LOG, source="commands"),
            ),
            outbound=OutboundSettings(topic=f"{LOG}-{name}.{{vhost}}.{{user}}"),
        )
        self.file = self.root / "dlx.toml"
        self.file.write_text(show_config(self.config))
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the process."""
        with (self.root / "run.log").open("ab") as log:
            command = [sys.executable, "-m", "streaming.cli", "run", "--config", str(self.file)]
            self.process = subprocess.Popen(command, stdout=log, stderr=log)  # noqa: S603 - ours

    def kill(self) -> None:
        """Kill it and everything it started, at once."""
        assert self.process is not None
        family = [psutil.Process(self.process.pid)]
        family += family[0].children(recursive=True)
        for member in family:
            try:
                member.kill()
            except psutil.NoSuchProcess:
                continue
        self.process.wait()

    def stop(self) -> None:
        """End it as an operator would."""
        assert self.process is not None
        self.process.terminate()
        self.process.wait(timeout=180)

    def read_to(self) -> int:
        """How far the last finished batch has read the log."""
        checkpoint = Checkpoint(self.root / "checkpoints")
        commits = self.root / "checkpoints" / "commits"
        if not commits.is_dir():
            return 0
        done = [int(file.name) for file in commits.iterdir() if file.name.isdigit()]
        if not done:
            return 0
        return int(checkpoint.offsets(max(done)).ends.get(LOG, {}).get("0", 0))

    def wait(self, end: int, until: Callable[[], bool] | None = None) -> bool:
        """Wait until the log is read to its end; False if `until` came first."""
        deadline = time.monotonic() + WAIT_S
        while self.read_to() < end:
            assert self.process is not None
            if self.process.poll() is not None:
                log = (self.root / "run.log").read_text(errors="replace")
                raise RuntimeError(f"the job ended by itself:\n{log[-4000:]}")
            if time.monotonic() > deadline:
                raise RuntimeError(f"the log was not read within {WAIT_S} s")
            if until is not None and until():
                return False
            time.sleep(0.05)
        return True


def run_chaos(
    root: Path,
    servers: str,
    messages: int,
    kills: int,
    *,
    seed: int = 1,
    say: Callable[[str], None] = print,
) -> ChaosResult:
    """Run both jobs and compare.

    Args:
        root: an empty folder.
        servers: a Kafka without topics of these names.
        kills: how often the second job is killed.
    """
    end = produce_log(servers, messages)
    batch_rows = max(200, end // (2 * kills + 4))
    say(f"{end} records; batches of {batch_rows}")
    peaceful = ChaosJob(root, servers, "peace", batch_rows * 3)
    peaceful.start()
    peaceful.wait(end)
    peaceful.stop()
    say("undisturbed run done")
    chances = random.Random(seed)  # noqa: S311 - not for secrets
    hunted = ChaosJob(root, servers, "chaos", batch_rows)
    done = 0
    hunted.start()
    while done < kills:
        before = hunted.read_to()
        alive = time.monotonic()
        goal = before + 1 if done % 3 else 0  # two of three kills come after some progress
        delay = chances.uniform(0.0, 2.5)

        def due(goal: int = goal, alive: float = alive, delay: float = delay) -> bool:
            waited = time.monotonic() - alive
            return hunted.read_to() >= goal and waited > delay + (8 if goal == 0 else 0)

        if hunted.wait(end, due):
            break
        hunted.kill()
        done += 1
        say(f"kill {done} of {kills} at offset {hunted.read_to()} of {end}")
        hunted.start()
    hunted.wait(end)
    hunted.stop()
    differences = compare(peaceful, hunted, servers)
    rows = {table: _count(peaceful, table) for table in COMPARED}
    return ChaosResult(messages, done, rows, differences)


def compare(first: ChaosJob, second: ChaosJob, servers: str) -> list[str]:
    """The tables and outbound topics in which two jobs differ, in words."""
    differences = []
    for table in COMPARED:
        one, other = (_rows(job, table) for job in (first, second))
        if one != other:
            known, others = set(one), set(other)
            only = [row for row in one if row not in others][:2]
            more = [row for row in other if row not in known][:2]
            differences.append(
                f"{table}: {len(one)} rows against {len(other)}; "
                f"only the first has {only}, only the second {more}"
            )
    one_out, other_out = (_outbound(job, servers) for job in (first, second))
    if one_out != other_out:
        differences.append(f"outbound: {len(one_out)} records against {len(other_out)}")
    return differences


def _rows(job: ChaosJob, table: str) -> list[str]:
    """The rows of a table as texts, sorted, without what says which job and batch wrote them."""
    rows: list[str] = []
    for uri in DeltaTable(str(job.tables / table)).file_uris():
        found = pq.read_table(uri).drop_columns(["query_id", "batch_id"])
        rows += [repr(row) for row in found.to_pylist() if row.get("kind") != "batch"]
    return sorted(rows)


def _count(job: ChaosJob, table: str) -> int:
    return len(_rows(job, table))


def _outbound(job: ChaosJob, servers: str) -> list[tuple[Any, ...]]:
    """Outbound records after dropping repeats: what is not above the highest number seen."""
    topic = job.config.outbound_topics()[("/", "guest")]
    consumer = Consumer(
        {"bootstrap.servers": servers, "group.id": topic, "isolation.level": "read_committed"}
    )
    partition = TopicPartition(topic, 0, 0)
    _low, high = consumer.get_watermark_offsets(partition, timeout=30)
    consumer.assign([partition])
    found: list[tuple[Any, ...]] = []
    highest = 0
    position = 0
    while position < high:
        message = consumer.poll(5)
        if message is None or message.error() is not None:
            continue
        position = (message.offset() or 0) + 1
        headers = dict(message.headers() or [])
        if headers["dlx-kind"] == b"flow":  # says where the gate stood, not what became of the log
            continue
        number = int(headers["dlx-seq"] or 0)
        if number > highest:
            highest = number
            found.append((message.key(), message.value(), sorted(headers.items())))
    consumer.close()
    return found
