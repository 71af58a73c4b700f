"""What is wrong with Kafka or the job, in words: said once, and forgotten when things are well."""

import logging
from collections.abc import Callable

logger = logging.getLogger("dlx.client")


class Trouble:
    """Hears of what goes wrong in the background.

    Args:
        bootstrap: where Kafka is.
        tell: called with the words, on the thread that found it.
    """

    def __init__(self, bootstrap: str, tell: Callable[[str], None] | None) -> None:
        self._bootstrap = bootstrap
        self._tell = tell
        self._words = ""

    def __str__(self) -> str:
        """What is known to be wrong; empty when nothing is."""
        return self._words

    def note(self, words: str) -> None:
        """Something is wrong; said once until things are well again."""
        if words != self._words:
            logger.warning("%s", words)
            if self._tell is not None:
                self._tell(words)
        self._words = words

    def of_kafka(self, reason: str) -> None:
        """Librdkafka complained; it tries again by itself."""
        if not self._words:
            self.note(f"Kafka at {self._bootstrap} is in trouble ({reason}); trying again")

    def is_over(self) -> None:
        """The job was heard of."""
        self._words = ""
