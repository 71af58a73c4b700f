"""Kills between "files written" and "committed", with inputs of 1, 2, 3 and 8 partitions.

One batch has records of every partition, for vhosts of 1, 2 and 4 lanes. The job is killed at steps
of that stretch in turn, at night at every step; each start runs the batch again, with its
partitions given to other tasks. In the end every record has had its effect once.

`DLX_KILLS=all` in the environment repeats the steps with each order of tasks as the first, and
kills a cluster at each step of its driver.
"""

import json
import os
from collections import Counter
from contextlib import closing
from itertools import cycle
from pathlib import Path
from typing import Any, Final

import pytest

from streaming.config import JobConfig, show_config
from streaming.config.inputs import InputSettings
from streaming.config.kafka import KafkaSettings
from streaming.config.outbound import OutboundSettings
from streaming.config.vhosts import VhostSettings
from streaming.embedded.cluster import LocalCluster, can_isolate
from streaming.embedded.kafka.broker import EmbeddedKafka
from streaming.job_locations import checkpoint_place, tables_place
from streaming.pipeline.checkpoint.spark_logs import SparkLogs
from streaming.protocol.record_headers import KIND
from streaming.queries.audit.balance import balance
from streaming.queries.duckdb_tables import Tables
from tests.bench.chaos.compare import outbound_records
from tests.bench.kafka_log import Headers, KafkaLog
from tests.bench.processes import Process
from tests.fixtures.settings import job_settings
from tests.fixtures.stopping_run import ORDERS, STEPS, STEPS_IN_TASKS
from tests.fixtures.waiting import wait_until

PARTITIONS: Final = (1, 2, 3, 8)
LANES: Final = {"/": 1, "two": 2, "four": 4}
LANE_BY: Final = {"four": "header:number"}
KEPT, DEAD = 4, 3
"""Per partition and vhost: the messages of the queue `work`, and those that die in `short`."""

WAIT_S: Final = 600.0
"""A start on a busy machine takes a minute."""

AT_NIGHT: Final = {
    "all messages written",
    "messages committed",
    "quarantine committed",
    "events committed",
}
"""Between two stages all is as before the next; one table in the middle stands for the others."""

IS_WHOLE: Final = os.environ.get("DLX_KILLS") == "all"


class KilledJob:
    """A job with inputs of several partitions, and its log."""

    def __init__(self, root: Path, servers: str, cluster: LocalCluster | None = None) -> None:
        self.root = root
        self.log = KafkaLog(servers)
        self.servers = servers
        config = JobConfig(
            job=job_settings(root, lease_ms=10_000, driver_memory="1g"),
            kafka=KafkaSettings(bootstrap_servers=(servers,)),
            vhosts={
                name: VhostSettings(lanes=lanes, lane_by=LANE_BY.get(name, "partition"))
                for name, lanes in LANES.items()
            },
            inputs=tuple(
                InputSettings(topic=f"{source}-{count}", source=source)
                for count in PARTITIONS
                for source in ("publishes", "commands")
            ),
            outbound=OutboundSettings(topic="out.{vhost}.{user}"),
        )
        for each in config.inputs:
            self.log.create(each.topic, int(each.topic.rpartition("-")[2]), {"retention.ms": "-1"})
        self.config = config if cluster is None else cluster.config(config, "killed")
        self.logs = SparkLogs(checkpoint_place(self.config, os.environ))
        self.where = "local" if cluster is None else "cluster"
        self.file = root / "dlx.toml"
        self.file.write_text(show_config(self.config))
        self.process: Process | None = None

    def start(self, step: str, order: str) -> Process:
        """Start the job, to halt at a step."""
        arguments = (step, order, str(self.root), self.where, "run", "--config", str(self.file))
        self.process = Process(self.root, "run", "tests.fixtures.stopping_run", *arguments)
        self.process.start()
        return self.process

    def until(self, condition: Any) -> None:
        """Wait for a condition while the job runs."""
        process = self.process
        assert process is not None

        def holds() -> bool:
            process.check()
            return bool(condition())

        wait_until(holds, process.log_end, WAIT_S)

    def kill_at(self, step: str, order: str) -> None:
        """Start the job, and kill it at a step."""
        process = self.start(step, order)
        self.until((self.root / step).exists)
        process.kill()
        (self.root / step).unlink()

    def command(self, vhost: str, topic: str, partition: int, **members: Any) -> None:
        headers: Headers = [("dlx-op", members["op"].encode()), ("dlx-vhost", vhost.encode())]
        self.log.send(topic, json.dumps(members).encode(), headers, partition=partition)

    def declare(self) -> None:
        """Declare the queues of each vhost."""
        dead = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
        queues = {"work": {}, "dead": {}, "short": {"x-message-ttl": 0, **dead}}
        for vhost in LANES:
            for name, arguments in queues.items():
                queue = {"name": name, "arguments": arguments}
                self.command(vhost, "commands-1", 0, op="declare_queue", queue=queue)
        self.log.flush()

    def fill(self) -> set[tuple[str, bytes]]:
        """Write records to every partition; return vhost and body of each message."""
        sent: set[tuple[str, bytes]] = set()
        for count in PARTITIONS:
            for partition in range(count):
                for vhost in LANES:
                    self._fill(count, partition, vhost, sent)
                self.log.send(
                    f"publishes-{count}", b"", [("dlx-flags", b"odd")], partition=partition
                )
                self.log.send(f"commands-{count}", b"{", [("dlx-op", b"get")], partition=partition)
        self.log.flush()
        return sent

    def _fill(self, count: int, partition: int, vhost: str, sent: set[tuple[str, bytes]]) -> None:
        for number in range(KEPT + DEAD):
            queue = b"work" if number < KEPT else b"short"
            body = f"{vhost} {count} {partition} {number}".encode()
            headers: Headers = [
                ("dlx-routing-key", queue),
                ("dlx-vhost", vhost.encode()),
                ("dlx-headers", b'{"number": %d}' % number),
            ]
            self.log.send(f"publishes-{count}", body, headers, partition=partition)
            sent.add((vhost, body))
        self._get(vhost, count, partition, "work", 1, f"c{partition}")

    def take_all(self) -> None:
        """Take what is in the queues; a get takes from the lane of its partition."""
        for vhost, lanes in LANES.items():
            for queue in ("work", "dead"):
                for partition in range(lanes):
                    self._get(vhost, 8, partition, queue, 1000, "last")
        self.log.flush()

    def _get(
        self, vhost: str, inputs: int, partition: int, queue: str, count: int, channel: str
    ) -> None:
        self.command(
            vhost,
            f"commands-{inputs}",
            partition,
            op="get",
            queue=queue,
            count=count,
            auto_ack=True,
            channel=channel,
        )

    def delivered(self) -> Counter[tuple[str, bytes]]:
        """Vhost and body of each delivery that a client would see."""
        found: Counter[tuple[str, bytes]] = Counter()
        for vhost in LANES:
            topic = self.config.outbound_topics()[vhost, "guest"]
            for _key, value, headers in outbound_records(self.servers, topic):
                if (KIND, b"delivery") in headers:
                    found[vhost, value] += 1
        return found

    def tables(self) -> Tables:
        place = tables_place(self.config, os.environ)
        return Tables(place.url, place.options)


def orders_by_batch(root: Path) -> dict[int, set[str]]:
    """How many distinct assignments of partitions to tasks each batch was run with."""
    found: dict[int, dict[str, dict[int, Any]]] = {}
    for line in (root / "tasks").read_text().splitlines():
        batch_id, order, task, places = json.loads(line)
        found.setdefault(batch_id, {}).setdefault(order, {})[task] = places
    return {
        batch_id: {json.dumps(tasks, sort_keys=True) for tasks in orders.values()}
        for batch_id, orders in found.items()
    }


def run_killed(job: KilledJob, steps: list[str]) -> None:
    """Kill the job at these steps, and check what it leaves."""
    orders = cycle(ORDERS)
    partitions = sum(PARTITIONS)
    messages = partitions * len(LANES) * (KEPT + DEAD)
    try:
        process = job.start("", next(orders))
        job.declare()
        job.until(lambda: job.logs.next_positions().get("commands-1", {}).get("0"))
        process.kill()
        sent = job.fill()
        for step in steps:
            job.kill_at(step, next(orders))
        job.start("", next(orders))
        job.take_all()
        job.until(lambda: len(job.delivered()) >= len(sent))
        assert job.process is not None
        job.process.stop()
    finally:
        if job.process is not None:
            job.process.kill()

    assert job.delivered() == Counter(dict.fromkeys(sent, 1))
    with closing(job.tables()) as tables:
        assert balance(tables, whole=True).findings == []
        for name in ("messages", "quarantine", "dead_letters"):
            tables.view(name)
        key = 'count(*), count(DISTINCT (topic_number, "partition", "offset"))'
        assert tables.values(f"SELECT {key} FROM messages") == [(messages, messages)]
        assert tables.values(f"SELECT {key} FROM quarantine") == [(2 * partitions, 2 * partitions)]
        deaths = tables.values(
            "SELECT vhost, body FROM dead_letters WHERE queue = 'short' ORDER BY ALL"
        )
    assert len(deaths) == partitions * len(LANES) * DEAD
    assert {(vhost, bytes(body)) for vhost, body in deaths} <= sent
    assert len(set(deaths)) == len(deaths)


@pytest.mark.long
@pytest.mark.timeout(3600)  # many starts, on a machine that may be busy
@pytest.mark.parametrize(
    "steps",
    [
        pytest.param([step for step in STEPS if step not in AT_NIGHT], id="some"),
        *(
            pytest.param(list(STEPS), id=f"all-{number}", marks=pytest.mark.nightly)
            for number in range(len(ORDERS) if IS_WHOLE else 1)
        ),
    ],
)
def test_a_job_of_many_partitions_survives_a_kill_at_each_step(tmp_path, steps):
    with EmbeddedKafka(tmp_path / "kafka") as kafka:
        job = KilledJob(tmp_path, kafka.bootstrap_servers)
        run_killed(job, steps)

    batches = orders_by_batch(tmp_path)
    assert max(map(len, batches.values())) == len(ORDERS), "no two starts had the same tasks"


@pytest.mark.nightly  # kills of a cluster at random instants are tested with `dlx bench chaos`
@pytest.mark.timeout(3600)  # many starts, on a machine that may be busy
def test_a_cluster_survives_a_kill_of_its_driver_before_a_commit(tmp_path):
    if not can_isolate():
        assert "CI" not in os.environ, "mount namespaces take root: give it to this runner"
        pytest.skip("mount namespaces take root on Linux")
    steps = [step for step in STEPS if step not in STEPS_IN_TASKS]
    root = tmp_path / "job"
    root.mkdir()
    with (
        EmbeddedKafka(tmp_path / "kafka") as kafka,
        LocalCluster(tmp_path / "cluster", hidden=[root, tmp_path / "kafka"]) as cluster,
    ):
        job = KilledJob(root, kafka.bootstrap_servers, cluster)
        run_killed(job, steps if IS_WHOLE else ["all files written", "dead_letters committed"])
