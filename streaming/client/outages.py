"""What is wrong with Kafka or the job, in words: said once, and taken back when things are well."""

import logging
from collections.abc import Callable
from typing import Literal

LOGGER = "dlx.client.outages"
logger = logging.getLogger(LOGGER)

About = Literal["", "Kafka", "the job", "answers"]


class Outages:
    """Hears of what goes wrong in the background.

    Args:
        bootstrap: where Kafka is.
        tell: called with the words, on the thread that found it.
    """

    def __init__(self, bootstrap: str, tell: Callable[[str], None] | None) -> None:
        self._bootstrap = bootstrap
        self._tell = tell
        self._words = ""
        self._about: About = ""

    def __str__(self) -> str:
        """What is known to be wrong; empty when nothing is."""
        return self._words

    def of_kafka(self, reason: str) -> None:
        """Librdkafka complained; it tries again by itself."""
        if not self._about:
            self._note("Kafka", f"{self._kafka()} is in trouble ({reason}); trying again")

    def kafka_is_silent(self) -> None:
        """Nothing is heard of the job, since Kafka does not answer."""
        self._note("Kafka", f"{self._kafka()} does not answer; trying again")

    def job_is_silent(self) -> None:
        """Nothing is heard of the job, and Kafka is not to blame."""
        self._note(
            "the job",
            f"the job has fallen silent, though {self._kafka()} answers: is `dlx run` running? "
            "What is sent meanwhile waits in Kafka",
        )

    def no_answer(self, words: str) -> None:
        """The job was asked, and nothing came back; that it lives does not end this."""
        if self._about in {"", "answers"}:
            self._note("answers", words)

    def job_lives(self) -> None:
        """Its heartbeat was heard."""
        if self._about != "answers":
            self.is_over()

    def is_over(self) -> None:
        """The job has spoken."""
        if self._about:
            self._about = self._words = ""
            self._say("the job is heard again")

    def _kafka(self) -> str:
        return f"Kafka at {self._bootstrap}"

    def _note(self, about: About, words: str) -> None:
        if about != self._about:
            self._about, self._words = about, words
            self._say(words)

    def _say(self, words: str) -> None:
        logger.warning("%s", words)
        if self._tell is not None:
            self._tell(words)
