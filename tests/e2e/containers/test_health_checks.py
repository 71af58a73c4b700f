"""The scripts of the image, as Docker runs them."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

from confluent_kafka import Producer

from streaming.amqp.clocks import WallClock
from streaming.amqp.memory import MemoryBroker
from streaming.embedded.kafka.ports import LOOPBACK
from streaming.front_metrics.service import FrontMetrics
from streaming.ledger.schema.table_setup import open_table
from streaming.metrics.figures import JobFigures
from streaming.metrics.health import Health
from streaming.metrics.server import job_server
from streaming.storage.location import Location

CHECKOUT = Path(__file__).resolve().parents[3]
NOWHERE = f"{LOOPBACK}:1"


def run_script(name, *arguments, environment=None):
    """Run a script of the image; return its exit status and the lines of stdout.

    Args:
        environment: its environment variables, besides PYTHONPATH and HOME.
    """
    finished = subprocess.run(
        [sys.executable, str(CHECKOUT / "docker" / name), *map(str, arguments)],
        env={**(environment or {}), "PYTHONPATH": str(CHECKOUT), "HOME": str(Path.home())},
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.stderr == ""
    return finished.returncode, finished.stdout.splitlines()


def config_for(folder, address, publishes, commands):
    """A configuration file for a Kafka and two topics."""
    file = folder / "dlx.toml"
    file.write_text(
        f"[kafka]\nbootstrap_servers = [{json.dumps(address)}]\n"
        f'[[inputs]]\nsource = "publishes"\ntopic = "{publishes}"\n'
        f'[[inputs]]\nsource = "commands"\ntopic = "{commands}"\n'
    )
    return file


def test_the_job_is_healthy_while_it_says_so(tmp_path):
    health = Health(300.0)
    server = job_server("127.0.0.1", 0, JobFigures("dlx"), health, 1_000)
    config = tmp_path / "dlx.toml"
    config.write_text(f'[metrics]\nlisten = "0.0.0.0:{server.port}"\n')
    server.start()

    assert run_script("health.py", "job", config) == (1, ["the job starts"])
    health.started(needs_batch=False)
    assert run_script("health.py", "job", config) == (0, [])
    server.stop()
    status, (said,) = run_script("health.py", "job", config)
    assert (status, said.startswith("the job does not answer: ")) == (1, True)


def test_the_front_is_healthy_once_clients_can_come(tmp_path):
    reasons = ["another front leads", ""]

    async def run():
        metrics = FrontMetrics(
            MemoryBroker(WallClock()).server, "front", not_ready=lambda: reasons.pop(0)
        )
        port = metrics.serve("--metrics", LOOPBACK, 0)
        config = tmp_path / "dlx.toml"
        config.write_text(f"[amqp]\nmetrics_port = {port}\n")
        answers = [
            await asyncio.to_thread(run_script, "health.py", "front", config) for _ in range(2)
        ]
        metrics.stop()
        return [*answers, await asyncio.to_thread(run_script, "health.py", "front", config)]

    before, after, (status, (said,)) = asyncio.run(run())

    assert before == (1, ["another front leads"])
    assert after == (0, [])
    assert (status, said.startswith("the front does not answer: ")) == (1, True)


def test_tables_are_healthy_once_they_exist(tmp_path):
    config = config_for(tmp_path, NOWHERE, "publishes", "commands")
    no_table = f"there is no table {tmp_path}/tables/events"

    assert run_script("health.py", "tables", config) == (1, [no_table])

    open_table(Location(str(tmp_path / "tables")), "events")

    assert run_script("health.py", "tables", config) == (0, [])


def test_traffic_is_healthy_while_it_publishes(embedded_kafka, new_topic, tmp_path):
    address = embedded_kafka.bootstrap_servers
    publishes = new_topic(partitions=2)
    config = config_for(tmp_path, address, publishes, new_topic())
    producer = Producer({"bootstrap.servers": address, "log_level": 0})

    assert run_script("health.py", "traffic", config) == (1, ["nothing was published yet"])

    producer.produce(publishes, b"old", partition=0, timestamp=1_000)
    producer.flush()
    status, (said,) = run_script("health.py", "traffic", config)
    assert (status, said.startswith("nothing was published for ")) == (1, True)

    producer.produce(publishes, b"new", partition=1)
    producer.flush()
    assert run_script("health.py", "traffic", config) == (0, [])


def test_without_kafka_a_container_is_unhealthy_with_the_reason(tmp_path):
    config = config_for(tmp_path, NOWHERE, "publishes", "commands")

    status, (said,) = run_script("health.py", "traffic", config)

    assert status == 1
    assert said.startswith("Kafka: ")


def test_the_image_contains_everything_it_needs_at_run_time():
    status, _fetched = run_script("fill_cache.py", environment=os.environ)  # proxy, certificates

    assert status == 0
    assert run_script("fill_cache.py") == (0, [])
