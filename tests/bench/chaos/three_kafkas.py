"""Three Kafka brokers on this machine: each topic has three replicas, and a write needs two."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, Self

from streaming.embedded.kafka.broker import EmbeddedKafka
from streaming.embedded.kafka.broker_properties import BrokerLimits
from streaming.embedded.kafka.data_folder import new_cluster_id
from streaming.embedded.kafka.ports import LOOPBACK, free_port

NODES: Final = (1, 2, 3)
HEAP_MB: Final = 256
REPLICATED: Final = {
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "share.coordinator.state.topic.replication.factor": "3",
    "share.coordinator.state.topic.min.isr": "2",
    "metadata.max.idle.interval.ms": "500",  # brokers must notice that the controller is away
    "unclean.leader.election.enable": "false",
}


class ThreeKafkas:
    """Brokers that are controllers too, so one of them may be away; a context manager.

    Args:
        directory: has a folder for each broker.

    Attributes:
        nodes: the brokers by number.
    """

    def __init__(self, directory: Path) -> None:
        taken: frozenset[int] = frozenset()
        ports = {}
        for node in NODES:
            ports[node] = (port := free_port(taken), free_port(taken | {port}))
            taken |= {*ports[node]}
        voters = ",".join(f"{node}@{LOOPBACK}:{ports[node][1]}" for node in NODES)
        self._servers = [f"{LOOPBACK}:{ports[node][0]}" for node in NODES]
        cluster_id = new_cluster_id()
        self.nodes = {}
        for node in NODES:
            folder = directory / f"broker-{node}"
            folder.mkdir(parents=True)
            port, controller_port = ports[node]
            chosen = {"port": port, "controller_port": controller_port}
            (folder / "ports.json").write_text(json.dumps(chosen))
            more = {**REPLICATED, "node.id": str(node), "controller.quorum.voters": voters}
            limits = BrokerLimits(heap_mb=HEAP_MB, properties=more)
            self.nodes[node] = EmbeddedKafka(
                folder, port=port, limits=limits, cluster_id=cluster_id
            )

    @property
    def bootstrap_servers(self) -> str:
        """The addresses of all brokers, separated by commas."""
        return ",".join(self._servers)

    def __enter__(self) -> Self:
        with ThreadPoolExecutor() as threads:  # no broker is ready before a second one runs
            started = [threads.submit(kafka.start) for kafka in self.nodes.values()]
        try:
            for each in started:
                each.result()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Stop all brokers."""
        with ThreadPoolExecutor() as threads:
            list(threads.map(EmbeddedKafka.stop, self.nodes.values()))
