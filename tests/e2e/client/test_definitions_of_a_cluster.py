"""A job starts with the unchanged export of a whole RabbitMQ cluster."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest
from confluent_kafka import Producer
from typer.testing import CliRunner

from streaming.cli.job.definitions import app as definitions_app
from streaming.client import AccessRefusedError, NotFoundError
from streaming.config import show_config
from streaming.config.definitions_files import load_vhost_definitions
from streaming.config.inputs import InputSettings, TopicMapping
from streaming.config.vhosts import UserSettings, VhostSettings
from tests.fixtures.jobs import RunningJob
from tests.fixtures.waiting import WAIT_S
from tests.unit.topology.definitions.cluster_export import CLUSTER

MAPPING = TopicMapping(vhost="shop", exchange="orders", routing_key="order.old")
LEFT_OUT = [
    "exchanges[2].type",
    "queues[1]",
    "queues[2]",
    "policies[0].definition.ha-mode",
    "policies[0].definition.novel-key",
    "parameters[1]",
    "global_parameters[2]",
    "bindings[3]",
    "bindings[1]",
    "bindings[2]",
]


MANY = 2_500
"""So many bindings more make the document too large for a record that is not packed."""


def large(word: str) -> dict[str, Any]:
    """The export of the cluster, and many more bindings of the queue `work`."""
    more = [
        {
            "source": "orders",
            "vhost": "shop",
            "destination": "work",
            "destination_type": "queue",
            "routing_key": f"{word}.{number}",
            "arguments": {"note": "x" * 1000},
        }
        for number in range(MANY)
    ]
    return {**CLUSTER, "bindings": [*CLUSTER["bindings"], *more]}


@pytest.fixture
def cluster_job(tmp_path: Path, embedded_kafka: Any, new_topic: Any) -> Iterator[RunningJob]:
    file = tmp_path / "cluster.json"
    file.write_text(json.dumps(large("started")))
    job = RunningJob(tmp_path, embedded_kafka.bootstrap_servers)
    assert file.stat().st_size > job.config.kafka.max_message_bytes
    own = job.config.inputs[0].topic.replace("publishes", "app")
    job.config = attrs.evolve(
        job.config,
        vhosts={name: VhostSettings(definitions=str(file)) for name in ("/", "shop")},
        users={
            "guest": UserSettings(administrator=True),
            "admin": UserSettings(administrator=True),
            "app": UserSettings(),
        },
        inputs=(
            *(each for each in job.config.inputs if each.user == "guest"),
            InputSettings(topic=own, source="commands", user="app"),
            InputSettings(topic=new_topic(), mapping=MAPPING),
        ),
    )
    yield job
    job.stop()


def test_an_export_of_a_whole_cluster_is_imported_unchanged(cluster_job, spark, tmp_path):
    waiting = Producer({"bootstrap.servers": cluster_job.servers, "log_level": 0})
    waiting.produce(cluster_job.config.inputs[-1].topic, b"older than the job")
    assert waiting.flush(WAIT_S) == 0
    told: list[str] = []
    definitions = load_vhost_definitions(cluster_job.config, told.append)

    cluster_job.start(spark, definitions)
    with cluster_job.connect("app", "shop") as app, cluster_job.connect("app") as outside:
        publisher = app.publisher()
        publisher.publish("orders", "order.paid", b"allowed").result(WAIT_S)
        with pytest.raises(AccessRefusedError):
            publisher.publish("dead", "", b"not allowed").result(WAIT_S)
        found = app.channel().get_many("work", 9, auto_ack=True)
        assert sorted(each.body for each in found) == [b"allowed", b"older than the job"]
        with pytest.raises(AccessRefusedError):
            app.channel().declare_queue("mine")
        with pytest.raises(AccessRefusedError):
            outside.publisher().publish("amq.fanout", "", b"no rights here").result(WAIT_S)

    again = tmp_path / "again.json"
    again.write_text(json.dumps(large("imported")))
    (tmp_path / "dlx.toml").write_text(show_config(cluster_job.config))
    command = ["import", str(again), "--vhost", "shop", "--config", str(tmp_path / "dlx.toml")]
    assert CliRunner().invoke(definitions_app, command).exit_code == 0
    with cluster_job.connect("app", "shop") as app:
        for key in (f"started.{MANY - 1}", f"imported.{MANY - 1}"):
            app.publisher().publish("orders", key, b"large", mandatory=True).result(WAIT_S)

    with cluster_job.connect(vhost="shop") as guest:
        for name in ("log", "later"):  # a stream, and an exchange of a plugin
            with pytest.raises(NotFoundError):
                guest.channel().declare_queue(name, passive=True)
    assert [words.split(": ", 2)[1] for words in told] == LEFT_OUT
