"""How many records wait in Kafka: its ends, asked on a thread, less what the last batch has read.

Spark commits no offsets, so only the batch's row says how far the job has come.
"""

import logging
import os
import threading
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from streaming.config import KafkaSettings

logger = logging.getLogger(__name__)

FRESH_S: Final = 3.0
"""How long an answer of Kafka is used."""

TIMEOUT_S: Final = 10.0
PATIENCE_S: Final = 0.1
"""How long a page waits for the first answer."""

NEEDED_S: Final = 2.0
"""How long it waits if its verdict depends on the answer."""

Place = tuple[str, int]


class Lag(NamedTuple):
    """The records that wait: all, and by topic and partition, the most first."""

    records: int
    partitions: list[tuple[str, int, int]]


class LagWatch:
    """Asks the Kafka of a job for the ends of its topics while someone looks at the page."""

    def __init__(self) -> None:
        self._ends: dict[Place, int] = {}
        self._asked_s = float("-inf")
        self._lock = threading.Lock()
        self._answered = threading.Event()
        self._admin: Any = None

    def of(
        self, config: Path, offsets: Mapping[str, Mapping[str, int]], *, is_needed: bool = False
    ) -> Lag | None:
        """Return the lag behind the ends that Kafka told last; None: it has not told them.

        Args:
            config: the job's configuration.
            offsets: topic -> partition -> the next offset to read, as a batch's row has them.
            is_needed: whether the page waits longer for the first answer.
        """
        read = by_place(offsets)
        if not read:
            return None
        with self._lock:
            is_due = time.monotonic() - self._asked_s >= FRESH_S
            if is_due:
                self._asked_s = time.monotonic()
        if is_due:
            arguments = (config, list(read))
            threading.Thread(target=self._ask, args=arguments, name="lag", daemon=True).start()
        if not self._answered.wait(NEEDED_S if is_needed else PATIENCE_S):
            return None
        behind = [
            (*place, max(self._ends[place] - offset, 0))
            for place, offset in read.items()
            if place in self._ends
        ]
        behind.sort(key=lambda one: (-one[2], one[:2]))
        return Lag(sum(records for *_, records in behind), [one for one in behind if one[2]])

    def _ask(self, config: Path, places: list[Place]) -> None:
        from streaming.config import read_config  # noqa: PLC0415 - pages of tables need no Kafka

        try:
            self._admin = self._admin or admin_of(read_config(config).kafka)
            self._ends = ends_of(self._admin, places, TIMEOUT_S)
        except Exception as error:  # noqa: BLE001 - the page says that it is unknown
            logger.debug("console: Kafka does not tell the ends of its topics: %s", error)
            self._answered.clear()
        else:
            self._answered.set()


def by_place(offsets: Mapping[str, Mapping[str, int]]) -> dict[Place, int]:
    """The next offset to read of each topic and partition, from topic -> partition -> offset."""
    return {
        (topic, int(partition)): offset
        for topic, partitions in offsets.items()
        for partition, offset in partitions.items()
    }


def admin_of(kafka: "KafkaSettings") -> Any:
    """Connect to a Kafka; keep the client until its answers have come."""
    from confluent_kafka.admin import AdminClient  # noqa: PLC0415

    from streaming.config import librdkafka_properties  # noqa: PLC0415

    settings: dict[str, Any] = {
        **librdkafka_properties(kafka, os.environ),
        "log_level": 0,
        "error_cb": lambda _error: None,
    }
    return AdminClient(settings)


def ends_of(admin: Any, places: Iterable[Place], timeout_s: float) -> dict[Place, int]:
    """Ask for the next offset of each topic and partition.

    Raises:
        KafkaException, TimeoutError: Kafka does not say.
    """
    from streaming.kafka_offsets import all_known, next_offsets  # noqa: PLC0415

    return all_known(next_offsets(admin, places, timeout_s))
