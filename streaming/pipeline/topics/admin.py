"""Finds, creates and describes the job's Kafka topics (D3)."""

import logging
import time
from collections.abc import Iterable, Mapping
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined] # not in its stubs
    AdminClient,
    NewTopic,
)

from streaming.config import JobConfig
from streaming.config.outbound import outbound_topic_bytes
from streaming.kafka_errors import KafkaErrors
from streaming.kafka_offsets import ELECTION_S, all_known, first_offsets, next_offsets
from streaming.log_topics import ANY_TIME_MS, FUTURE_MS, log_topic_settings, new_topic
from streaming.pipeline.topics.record_limits import TopicLimitError, outbound_record_bytes
from streaming.protocol.addressing import alive_topic
from streaming.topic_ids import describe_topics, topic_identity
from topology.errors import DlxError

REQUEST_TIMEOUT_S = 30

ALIVE_SEGMENT_MS = 600_000

logger = logging.getLogger(__name__)


class KafkaUnreachableError(DlxError):
    """No broker answers, or a topic cannot be used."""

    help_code = "kafka-unreachable"


class MissingTopicError(KafkaUnreachableError):
    """Kafka answers, but has no such topic."""


class KafkaTopics:
    """The topics of a job, with their ids and limits.

    Args:
        creates_mapped: create mapped topics that are missing, instead of refusing them.

    Attributes:
        identities: topic -> its identity, see `topic_identity`.
        record_bytes: the largest record that every outbound topic accepts.
        logs: the topics with the logs of sequenced vhosts.
    """

    def __init__(
        self, config: JobConfig, properties: dict[str, str], *, creates_mapped: bool = False
    ) -> None:
        self._config = config
        self._letters = config.outbound.dead_letters.topic
        self._creates_mapped = creates_mapped
        self._timeout_s = config.kafka.connect_timeout_ms / 1000
        self._kafka_errors = KafkaErrors()
        settings: dict[str, Any] = {"log_level": 0, "error_cb": self._kafka_errors.note}
        self._admin = AdminClient({**properties, **settings})
        self.identities: dict[str, str] = {}
        self.partitions: dict[str, int] = {}
        self.record_bytes = 0
        self.logs = frozenset(config.log_topics().values())
        self._cluster: str | None = None
        self._brokers: list[int] = []

    def prepare(self) -> None:
        """Create missing topics and describe all of them.

        If the job then refuses them, those that were created are deleted again.

        Raises:
            KafkaUnreachableError: no broker answers, or a topic cannot be used or created.
            TopicLimitError: an outbound topic does not accept the largest message.
        """
        known = self.known_topics()
        missing = [
            self._input_topic(
                each.topic, self._config.partitions_of(each) if each.mapping is None else 1
            )
            for each in self._config.inputs
            if each.topic not in known
        ]
        missing += [
            log_topic_settings(self._config, topic)
            for topic in self._config.log_topics().values()
            if topic not in known
        ]
        for topic in self._config.outbound_topics().values():
            if topic not in known:
                missing.append(self._outbound_topic(topic))
            if alive_topic(topic) not in known:
                missing.append(self._alive_topic(topic))
        if self._letters is not None and self._letters not in known:
            missing.append(self._dead_letter_topic(self._letters))
        self._create(missing)
        if made := sorted(self._mapped_topics() - known):
            logger.info("created mapped topics, with one partition each: %s", ", ".join(made))
        self._describe(REQUEST_TIMEOUT_S)  # hundreds of new topics take time
        outbound = [*self._config.outbound_topics().values(), *filter(None, [self._letters])]
        try:
            self.record_bytes = outbound_record_bytes(
                self._admin, self._config, outbound, self._brokers
            )
        except TopicLimitError:
            self._delete([topic.topic for topic in missing])
            raise

    def known_topics(self) -> set[str]:
        """Return the names of existing topics; wait for mapped topics that are being created.

        Raises:
            KafkaUnreachableError: no broker answers, or a mapped topic is missing and must not be
                created.
        """
        mapped = self._mapped_topics()
        deadline_s = time.monotonic() + self._timeout_s
        while True:
            known = set(self._ask_for_topics())
            missing = sorted(mapped - known)
            if not missing or self._creates_mapped:
                return known
            if time.monotonic() > deadline_s:
                names = ", ".join(map(repr, missing))
                servers = ",".join(self._config.kafka.bootstrap_servers)
                raise KafkaUnreachableError(
                    f"inputs: there is no topic {names}, which has a mapping. Correct the name, or "
                    f"create it: `kafka-topics --create --topic {missing[0]} --bootstrap-server "
                    f"{servers}`. Only `dlx run --with-kafka` creates mapped topics"
                )
            time.sleep(0.1)

    def _mapped_topics(self) -> set[str]:
        return {each.topic for each in self._config.inputs if each.mapping is not None}

    def _ask_for_topics(self) -> Iterable[str]:
        try:
            return self._admin.list_topics(timeout=self._timeout_s).topics
        except KafkaException as error:
            raise self._no_answer(error, self._timeout_s) from error

    def _no_answer(self, error: KafkaException, timeout_s: float) -> KafkaUnreachableError:
        servers = ",".join(self._config.kafka.bootstrap_servers)
        self._admin.poll(0)  # delivers the errors
        why = self._kafka_errors.explain(error.args[0].str())
        return KafkaUnreachableError(
            f"kafka.bootstrap_servers: no answer from {servers} within {timeout_s:g} s {why}"
        )

    def _input_topic(self, name: str, partitions: int) -> NewTopic:
        is_wall = self._config.job.clock == "wall"
        properties = {
            "retention.ms": "-1",
            "message.timestamp.type": "LogAppendTime" if is_wall else "CreateTime",
            "max.message.bytes": str(self._config.kafka.max_message_bytes),
        }
        if not is_wall:
            properties["message.timestamp.before.max.ms"] = ANY_TIME_MS
            properties["message.timestamp.after.max.ms"] = FUTURE_MS
        return self._new_topic(name, partitions, properties)

    def _outbound_topic(self, name: str) -> NewTopic:
        max_bytes = outbound_topic_bytes(self._config.flow, self._config.kafka)
        retention_ms = self._config.outbound.retention_ms
        properties = {"retention.ms": str(retention_ms), "max.message.bytes": str(max_bytes)}
        return self._new_topic(name, self._config.outbound.partitions, properties)

    def _dead_letter_topic(self, name: str) -> NewTopic:
        max_bytes = outbound_topic_bytes(self._config.flow, self._config.kafka)
        settings = self._config.outbound.dead_letters
        properties = {
            "retention.ms": str(settings.retention_ms),
            "max.message.bytes": str(max_bytes),
        }
        return self._new_topic(name, settings.partitions, properties)

    def _alive_topic(self, outbound: str) -> NewTopic:
        """Return a topic of heartbeats: only the last one matters, and it stays.

        Kafka deletes old segments until only the newest is left, which has the last record.
        """
        properties = {
            "retention.ms": "-1",
            "retention.bytes": "1",
            "segment.ms": str(ALIVE_SEGMENT_MS),
        }
        return self._new_topic(alive_topic(outbound), 1, properties)

    def _new_topic(self, name: str, partitions: int, properties: dict[str, str]) -> NewTopic:
        return new_topic(self._config, name, partitions, properties)

    def _create(self, topics: list[NewTopic]) -> None:
        if not topics:
            return
        created = self._admin.create_topics(topics, request_timeout=REQUEST_TIMEOUT_S)
        for name, future in created.items():
            try:
                future.result()
            except KafkaException as error:
                if error.args[0].name() != "TOPIC_ALREADY_EXISTS":
                    raise KafkaUnreachableError(
                        f"the topic {name!r} cannot be created: {error.args[0].str()}"
                    ) from error

    def _delete(self, topics: list[str]) -> None:
        """Delete topics that this start created."""
        if topics:
            for future in self._admin.delete_topics(
                topics, request_timeout=REQUEST_TIMEOUT_S
            ).values():
                future.exception()

    def bounds(self, topics: Iterable[str]) -> dict[tuple[str, int], tuple[int, int]]:
        """Return the first offset and the next record's offset of each (topic, partition).

        Raises:
            KafkaUnreachableError: no answer.
        """
        places = [(topic, number) for topic in topics for number in range(self.partitions[topic])]
        patience_s = max(self._timeout_s, ELECTION_S)
        try:
            first = all_known(first_offsets(self._admin, places, REQUEST_TIMEOUT_S, patience_s))
            after = all_known(next_offsets(self._admin, places, REQUEST_TIMEOUT_S, patience_s))
        except KafkaException as error:
            raise KafkaUnreachableError(
                f"Kafka did not return the offsets of the inputs: {error.args[0].str()}"
            ) from error
        return {place: (first[place], after[place]) for place in places}

    def waiting(self, topics: Iterable[str], positions: Mapping[str, Mapping[str, int]]) -> int:
        """Return how many offsets of these topics lie between the next to read and the log's end.

        Args:
            positions: topic -> partition -> next offset; a partition without one is read from its
                first record on.

        Raises:
            KafkaUnreachableError: no answer.
        """
        return sum(
            max(0, end - positions.get(topic, {}).get(str(partition), first))
            for (topic, partition), (first, end) in self.bounds(topics).items()
        )

    def refresh(self) -> None:
        """Describe the topics again: they may have been recreated, or have new partitions.

        Raises:
            KafkaUnreachableError: no broker answers, or a topic is missing.
        """
        self._describe(self._timeout_s)

    def _describe(self, timeout_s: float) -> None:
        """Read ids and partitions; it takes time until every broker knows a new topic."""
        cluster_id = self._cluster_id()
        names = sorted(
            {*self._config.read_topics()}
            | {*self._config.outbound_topics().values()}
            | {*filter(None, [self._letters])}
        )
        deadline_s = time.monotonic() + timeout_s
        while names:
            for name, topic in describe_topics(self._admin, names, REQUEST_TIMEOUT_S).items():
                if isinstance(topic, KafkaException):
                    if time.monotonic() > deadline_s or not _is_unknown(topic):
                        kind = MissingTopicError if _is_unknown(topic) else KafkaUnreachableError
                        raise kind(
                            f"the topic {name!r} cannot be used: {topic.args[0].str()}"
                        ) from topic
                    continue
                self.identities[name] = topic_identity(cluster_id, topic.topic_id)
                self.partitions[name] = topic.partitions
                names.remove(name)
            if names:
                time.sleep(0.05)

    def _cluster_id(self) -> str:
        """The id of the cluster, asked once: topics of another cluster would have other ids.

        `describe_cluster` is not for this. librdkafka 2.16.1 aborts the process if a broker answers
        it before it knows of any broker, as one does that was away from its controller.
        """
        if self._cluster is None:
            try:
                known = self._admin.list_topics(timeout=REQUEST_TIMEOUT_S)
            except KafkaException as error:
                raise self._no_answer(error, REQUEST_TIMEOUT_S) from error
            self._cluster, self._brokers = str(known.cluster_id), list(known.brokers)
        return self._cluster


def _is_unknown(error: KafkaException) -> bool:
    return bool(error.args[0].name() == "UNKNOWN_TOPIC_OR_PART")
