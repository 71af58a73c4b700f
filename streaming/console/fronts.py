"""Which front leads each sequenced vhost, from the heartbeats in Kafka, asked on a thread."""

import logging
import os
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

logger = logging.getLogger(__name__)

FRESH_S: Final = 3.0
"""How long an answer of Kafka is used."""

CURRENT_S: Final = 5.0
"""How long it may take to read the heartbeats."""


class Heard(NamedTuple):
    """The front that was heard last for a vhost.

    Attributes:
        name: empty if none was heard.
        ended: whether it said that it stops.
        at_s: when it was heard, on the monotonic clock.
        takeover_s: after how long a standby takes over.
    """

    name: str
    ended: bool = False
    at_s: float = 0.0
    takeover_s: float = 0.0

    @property
    def silent_s(self) -> float:
        """How long nothing was heard of it."""
        return max(time.monotonic() - self.at_s, 0.0)

    @property
    def leads(self) -> bool:
        """Whether clients can connect to it, as far as its heartbeats say."""
        return bool(self.name) and not self.ended and self.silent_s <= self.takeover_s + FRESH_S


Ask = Callable[[Path], Mapping[str, Heard]]
"""Asks the Kafka of a configuration for the fronts of its vhosts."""


class FrontWatch:
    """Asks for the fronts of a job while someone looks at the page."""

    def __init__(self, ask: Ask | None = None) -> None:
        self._ask = ask or ask_kafka
        self._heard: Mapping[str, Heard] | None = None
        self._asked_s = float("-inf")
        self._lock = threading.Lock()

    def of(self, config: Path) -> Mapping[str, Heard] | None:
        """Return the front of each sequenced vhost as Kafka told last; None: it has not told."""
        with self._lock:
            is_due = time.monotonic() - self._asked_s >= FRESH_S
            if is_due:
                self._asked_s = time.monotonic()
        if is_due:
            threading.Thread(target=self._renew, args=(config,), name="fronts", daemon=True).start()
        return self._heard

    def _renew(self, config: Path) -> None:
        try:
            self._heard = self._ask(config)
        except Exception as error:  # noqa: BLE001 - the page says that it is unknown
            logger.debug("console: Kafka does not tell which fronts lead: %s", error)
            self._heard = None


def ask_kafka(config: Path) -> Mapping[str, Heard]:
    """See `Ask`."""
    from streaming.config import (  # noqa: PLC0415 - pages of tables need no Kafka
        librdkafka_properties,
        read_config,
    )

    read = read_config(config)
    vhosts = read.log_topics()
    if not vhosts:
        return {}
    from streaming.sequencer.leaders import Leaders  # noqa: PLC0415

    leaders = Leaders(librdkafka_properties(read.kafka, os.environ), read.amqp.leaders_topic)
    try:
        deadline_s = time.monotonic() + CURRENT_S
        while not leaders.is_current and time.monotonic() < deadline_s:
            time.sleep(0.05)
        found = {vhost: leaders.of(vhost) for vhost in vhosts}
    finally:
        leaders.close()
    takeover_s = read.amqp.takeover_ms / 1000
    return {
        vhost: Heard("")
        if leader is None
        else Heard(leader.beat.name, leader.beat.ends, leader.heard_s, takeover_s)
        for vhost, leader in found.items()
    }
