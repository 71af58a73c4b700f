"""How many records of fronts' logs wait for the next batch, as Kafka says it."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from confluent_kafka import KafkaException

from streaming.kafka_offsets import ends_of, quiet_admin
from streaming.pipeline.flow.log_bounds import Positions

ANSWER_S: Final = 3.0
"""How long Kafka may take to say it, also on a machine without an idle core."""


class WaitingRecords:
    """Asks about the logs of one attempt of a job.

    Args:
        properties: of librdkafka.
        logs: topics of one partition each.
    """

    def __init__(self, properties: Mapping[str, str], logs: Iterable[str]) -> None:
        self._properties = properties
        self._partitions = [(log, 0) for log in logs]
        self._admin: Any = None

    def count(self, begins: Positions) -> int:
        """Count the records from there on, of all logs together.

        Args:
            begins: topic -> partition -> where the next batch begins. What has none does not count.

        Returns:
            0 if Kafka does not answer: then the next batch asks it.
        """
        try:
            if self._admin is None:
                self._admin = quiet_admin(self._properties)
            ends = ends_of(self._admin, self._partitions, ANSWER_S)
        except KafkaException:
            return 0
        return sum(
            max(0, end - begins.get(log, {}).get("0", end)) for (log, _), end in ends.items()
        )
