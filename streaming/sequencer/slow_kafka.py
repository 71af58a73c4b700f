"""Whether Kafka is too slow for what clients publish, as long as that lasts."""

import logging
from typing import Final

LONG_QUEUE: Final = 50_000
SLOW_S: Final = 1.0
"""Publishers wait beyond so many records on their way to Kafka, or such an age of the oldest."""

LOW_MARK: Final = 0.5
"""They resume below this part of both."""

CALM_S: Final = 1.0
"""And only when it was below for so long: the oldest record is young again with each answer."""

logger = logging.getLogger(__name__)


class SlowKafka:
    """What waits for Kafka, and whether publishers must wait too.

    Attributes:
        is_slow: whether they must.
    """

    def __init__(self) -> None:
        self.is_slow = False
        self._busy_s = 0.0

    def update(self, records: int, age_s: float, now_s: float) -> None:
        """Note how many records are on their way to Kafka, and how old the oldest one is."""
        part = LOW_MARK if self.is_slow else 1.0
        was_slow = self.is_slow
        if records > LONG_QUEUE * part or age_s > SLOW_S * part:
            self.is_slow = True
            self._busy_s = now_s
        elif now_s - self._busy_s >= CALM_S:
            self.is_slow = False
        if self.is_slow and not was_slow:
            logger.warning(
                "publishers wait: Kafka is slow, or away: %s records are on their way to it, the "
                "oldest for %.1f s. None is confirmed before Kafka has it",
                *(records, age_s),
            )
        elif was_slow and not self.is_slow:
            logger.warning("publishers wait no more: Kafka takes records again")
