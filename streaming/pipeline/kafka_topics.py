"""The job's Kafka topics: found, made, numbered (D3)."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from topology.errors import DlxError

if TYPE_CHECKING:
    from streaming.config import JobConfig

HEADROOM_BYTES = 512 * 1024
"""Room for headers in outbound records, beyond the largest body."""


class KafkaUnreachableError(DlxError):
    """No broker answered, or a topic cannot be used."""


class KafkaTopics:
    """What the job needs to know of a cluster and its topics.

    Attributes:
        identities: topic -> `CLUSTER_ID/TOPIC_ID`.
        partitions: topic -> number of partitions.
    """

    def __init__(self, config: JobConfig, properties: dict[str, str]) -> None:
        self._config = config
        self._timeout_s = config.kafka.connect_timeout_ms / 1000
        self._admin = AdminClient({**properties, "log_level": 0})
        self.identities: dict[str, str] = {}
        self.partitions: dict[str, int] = {}

    def prepare(self) -> None:
        """Make what is missing and learn the rest.

        Raises:
            KafkaUnreachableError: no broker answers, a foreign topic is missing, or one cannot be
            made.
        """
        try:
            known = self._admin.list_topics(timeout=self._timeout_s).topics
        except KafkaException as error:
            servers = ",".join(self._config.kafka.bootstrap_servers)
            raise KafkaUnreachableError(
                f"kafka.bootstrap_servers: no answer from {servers} within {self._timeout_s:g} s "
                f"({error.args[0].str()}): is Kafka running there, and is the address right?"
            ) from error
        missing = []
        for each in self._config.inputs:
            if each.topic in known:
                continue
            if each.mapping is not None:
                raise KafkaUnreachableError(
                    f"inputs: the topic {each.topic!r} does not exist; a mapped topic is never "
                    "made by the job: make it, or correct its name"
                )
            missing.append(self._input_topic(each.topic, self._config.partitions_of(each)))
        missing += [
            self._outbound_topic(topic)
            for topic in self._config.outbound_topics().values()
            if topic not in known
        ]
        self._make(missing)
        self._describe()

    def _input_topic(self, name: str, partitions: int) -> NewTopic:
        wall = self._config.job.clock == "wall"
        properties = {
            "retention.ms": "-1",
            "cleanup.policy": "delete",
            "message.timestamp.type": "LogAppendTime" if wall else "CreateTime",
            "max.message.bytes": str(self._config.kafka.max_message_bytes),
        }
        if not wall:
            properties["message.timestamp.before.max.ms"] = str((1 << 63) - 1)
            properties["message.timestamp.after.max.ms"] = str((1 << 63) - 1)
        return self._new(name, partitions, properties)

    def _outbound_topic(self, name: str) -> NewTopic:
        outbound = self._config.outbound
        largest = self._config.flow.max_body_bytes + HEADROOM_BYTES
        properties = {
            "retention.ms": str(outbound.retention_ms),
            "cleanup.policy": "delete",
            "max.message.bytes": str(max(largest, self._config.kafka.max_message_bytes)),
        }
        return self._new(name, outbound.partitions, properties)

    def _new(self, name: str, partitions: int, properties: dict[str, str]) -> NewTopic:
        factor = self._config.kafka.replication_factor
        return NewTopic(
            name, num_partitions=partitions, replication_factor=factor, config=properties
        )

    def _make(self, topics: list[NewTopic]) -> None:
        if not topics:
            return
        for name, made in self._admin.create_topics(topics, request_timeout=30).items():
            try:
                made.result()
            except KafkaException as error:
                if error.args[0].name() != "TOPIC_ALREADY_EXISTS":
                    raise KafkaUnreachableError(
                        f"the topic {name!r} cannot be made: {error.args[0].str()}"
                    ) from error

    def _describe(self) -> None:
        """Learn ids and partitions; a topic just made is not known everywhere at once."""
        cluster = self._admin.describe_cluster(request_timeout=30).result()
        names = sorted(
            {each.topic for each in self._config.inputs}
            | {*self._config.outbound_topics().values()}
        )
        deadline_s = time.monotonic() + self._timeout_s
        while names:
            described = self._admin.describe_topics(TopicCollection(names), request_timeout=30)
            for name, future in described.items():
                try:
                    topic = future.result()
                except KafkaException as error:
                    if time.monotonic() > deadline_s or not _is_unknown(error):
                        raise KafkaUnreachableError(
                            f"the topic {name!r} cannot be used: {error.args[0].str()}"
                        ) from error
                    continue
                self.identities[name] = f"{cluster.cluster_id}/{topic.topic_id}"
                self.partitions[name] = len(topic.partitions)
                names.remove(name)
            if names:
                time.sleep(0.05)


def _is_unknown(error: KafkaException) -> bool:
    return bool(error.args[0].name() == "UNKNOWN_TOPIC_OR_PART")
