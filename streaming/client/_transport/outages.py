"""Outages of Kafka and of the job: reported once when they begin and once when they end.

A heartbeat shows that a job has started again, but it answers only after it has caught up. So a
heartbeat that follows silence sends a probe, and the outage ends with the first answer.
"""

import logging
from collections.abc import Callable
from typing import Literal

OUTAGE_LOGGER = "dlx.client.outages"
logger = logging.getLogger(OUTAGE_LOGGER)

Cause = Literal["", "Kafka", "the job", "answers"]


class Outages:
    """The present outage, if any, noticed by the threads of a connection.

    Args:
        bootstrap: Kafka's bootstrap servers.
        on_outage: called with a text, on the thread that noticed the change.

    Attributes:
        cause: what is down; empty if there is no outage.
        text: describes the present outage; empty if there is none.
        probe: sends a command whose answer is a record of the outbound topic; must not wait.
    """

    def __init__(
        self,
        bootstrap: str,
        on_outage: Callable[[str], None] | None,
        probe: Callable[[], None] = lambda: None,
    ) -> None:
        self._kafka = f"Kafka at {bootstrap}"
        self._on_outage = on_outage
        self.probe = probe
        self._probing = False
        self.cause: Cause = ""
        self.text = ""

    def kafka_error(self, reason: str) -> None:
        """Note an error message of librdkafka, which retries by itself."""
        if not self.cause:
            self._begin("Kafka", f"{self._kafka} reports an error ({reason}); retrying")

    def kafka_is_silent(self) -> None:
        """Note that Kafka does not answer, so nothing can be read from the job."""
        self._begin("Kafka", f"{self._kafka} does not answer; retrying")

    def job_is_silent(self) -> None:
        """Note that the job writes nothing although Kafka answers."""
        self._probing = False
        self._begin(
            "the job",
            f"the job is silent although {self._kafka} answers: is `dlx run` running? Kafka keeps "
            "what is sent in the meantime",
        )

    def no_answer(self, text: str) -> None:
        """Note a command without an answer; a heartbeat alone does not end this outage."""
        if self.cause in {"", "answers"}:
            self._begin("answers", text)

    def job_is_alive(self) -> None:
        """Note a heartbeat of the job; after silence, probe whether it answers too."""
        if self.cause in {"Kafka", "the job"} and not self._probing:
            self._probing = True
            self.text = "the job is alive again and has not answered yet"
            self.probe()

    def end(self) -> None:
        """Note that the job has answered or delivered something."""
        self._probing = False
        if self.cause:
            self.cause = self.text = ""
            self._report("the job answers again")

    def _begin(self, cause: Cause, text: str) -> None:
        if cause != self.cause:
            self.cause, self.text = cause, text
            self._report(text)

    def _report(self, text: str) -> None:
        logger.warning("%s", text)
        if self._on_outage is not None:
            self._on_outage(text)
