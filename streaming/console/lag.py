"""How many records wait in Kafka: its ends, asked on a thread, less what the last batch has read.

Spark commits no offsets, so only the batch's row says how far the job has come.
"""

import logging
import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

logger = logging.getLogger(__name__)

FRESH_S: Final = 3.0
"""How long an answer of Kafka is used."""

TIMEOUT_S: Final = 10.0
PATIENCE_S: Final = 0.1
"""How long a page waits for the first answer."""

NEEDED_S: Final = 2.0
"""How long it waits if its verdict depends on the answer."""

Partition = tuple[str, int]


class Lag(NamedTuple):
    """The records that wait: all, and by topic and partition, the most first."""

    records: int
    partitions: list[tuple[str, int, int]]


Ask = Callable[[Path, Iterable[Partition]], Mapping[Partition, int]]
"""Asks the Kafka of a configuration for the ends of partitions."""


class LagWatch:
    """Asks the Kafka of a job for the ends of its topics while someone looks at the page."""

    def __init__(self, ask: Ask | None = None) -> None:
        self._ask = ask or KafkaEnds()
        self._ends: Mapping[Partition, int] = {}
        self._asked_s = float("-inf")
        self._lock = threading.Lock()
        self._is_known = False
        self._asked = threading.Event()

    def of(
        self, config: Path, read: Mapping[Partition, int], *, is_needed: bool = False
    ) -> Lag | None:
        """Return the lag behind the ends that Kafka told last; None: it has not told them.

        Args:
            config: the job's configuration.
            read: the next offset to read of each topic and partition, as a batch's row has them.
            is_needed: whether the page waits longer for the first answer.
        """
        if not read:
            return None
        with self._lock:
            is_due = time.monotonic() - self._asked_s >= FRESH_S
            if is_due:
                self._asked_s = time.monotonic()
        if is_due:
            arguments = (config, list(read))
            threading.Thread(target=self._renew, args=arguments, name="lag", daemon=True).start()
        is_asked = self._asked.wait(NEEDED_S if is_needed else PATIENCE_S)
        if not is_asked or not self._is_known:  # after a failure no page waits for the next answer
            return None
        behind = [
            (*one, max(self._ends[one] - offset, 0))
            for one, offset in read.items()
            if one in self._ends
        ]
        behind.sort(key=lambda one: (-one[2], one[:2]))
        return Lag(sum(records for *_, records in behind), [one for one in behind if one[2]])

    def _renew(self, config: Path, partitions: list[Partition]) -> None:
        try:
            self._ends = self._ask(config, partitions)
        except Exception as error:  # noqa: BLE001 - the page says that it is unknown
            logger.debug("console: Kafka does not tell the ends of its topics: %s", error)
            self._is_known = False
        else:
            self._is_known = True
        self._asked.set()


class KafkaEnds:
    """Asks Kafka itself, by one connection."""

    def __init__(self) -> None:
        self._admin: Any = None

    def __call__(self, config: Path, partitions: Iterable[Partition]) -> Mapping[Partition, int]:
        """See `Ask`."""
        from streaming.config import (  # noqa: PLC0415 - pages of tables need no Kafka
            librdkafka_properties,
            read_config,
        )
        from streaming.kafka_offsets import ends_of, quiet_admin  # noqa: PLC0415

        if self._admin is None:
            properties = librdkafka_properties(read_config(config).kafka, os.environ)
            self._admin = quiet_admin(properties)
        return ends_of(self._admin, partitions, TIMEOUT_S)
