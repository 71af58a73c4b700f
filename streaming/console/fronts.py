"""Which front leads each sequenced vhost, from the heartbeats in Kafka, asked on a thread."""

import os
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from streaming.console.asking import FRESH_S, Asking

if TYPE_CHECKING:
    from streaming.config import JobConfig
    from streaming.sequencer.leader_heartbeats import Leaders

PATIENCE_S: Final = 1.0
"""How long a page waits for an answer."""

CURRENT_S: Final = 5.0
"""How long it may take to read the heartbeats."""

UNWATCHED_S: Final = 150.0
"""How long it listens to Kafka although nobody looks. An open page looks once a minute."""


class Heard(NamedTuple):
    """The front that was heard last for a vhost.

    Attributes:
        name: empty if none was heard.
        ended: whether it said that it stops.
        at_s: when it was heard, on the monotonic clock.
        takeover_s: after how long a standby takes over.
        told_s: until when it was listened to.
    """

    name: str
    ended: bool = False
    at_s: float = 0.0
    takeover_s: float = 0.0
    told_s: float = 0.0

    @property
    def silent_s(self) -> float:
        """How long nothing was heard of it."""
        return max(self.told_s - self.at_s, 0.0)

    @property
    def leads(self) -> bool:
        """Whether clients can connect to it, as far as its heartbeats say."""
        return bool(self.name) and not self.ended and self.silent_s <= self.takeover_s + FRESH_S


Ask = Callable[[Path], Mapping[str, Heard]]
"""Asks the Kafka of a configuration for the fronts of its vhosts."""


class FrontWatch:
    """Asks for the fronts of a job while someone looks at the page."""

    def __init__(self, ask: Ask | None = None) -> None:
        self._ask = ask or KafkaFronts()
        self._heard: Asking[Mapping[str, Heard]] = Asking("fronts")

    def of(self, config: Path) -> Mapping[str, Heard] | None:
        """Return the front of each sequenced vhost as Kafka tells; None: it does not tell."""
        return self._heard.get(lambda: self._ask(config), PATIENCE_S)


class KafkaFronts:
    """Asks Kafka itself, by one consumer for as long as someone asks."""

    def __init__(self, unwatched_s: float = UNWATCHED_S) -> None:
        self._unwatched_s = unwatched_s
        self._leaders: Leaders | None = None
        self._was_kept = False
        self._closing: threading.Timer | None = None
        self._lock = threading.Lock()

    def __call__(self, config: Path) -> Mapping[str, Heard]:
        """See `Ask`."""
        from streaming.config import load_config  # noqa: PLC0415 - pages of tables need no Kafka
        from streaming.made_vhosts import with_made_vhosts  # noqa: PLC0415 - the same

        read = with_made_vhosts(load_config(config), deleted=False)
        logs = read.log_topics()
        if not logs:
            return {}
        with self._lock:
            if self._closing is not None:
                self._closing.cancel()
            found = self._heard(read, logs)
            if self._was_kept and not all(one.leads for one in found.values()):
                self._close()  # Kafka may be away, or there for a new consumer only
                found = self._heard(read, logs)
            self._closing = threading.Timer(self._unwatched_s, self._close_unwatched)
            self._closing.daemon = True
            self._closing.start()
        return found

    def _heard(self, read: "JobConfig", logs: Mapping[str, str]) -> dict[str, Heard]:
        from streaming.config import librdkafka_properties  # noqa: PLC0415
        from streaming.sequencer.leader_heartbeats import Leaders  # noqa: PLC0415

        self._was_kept = self._leaders is not None
        if self._leaders is None:
            properties = librdkafka_properties(read.kafka, os.environ)
            self._leaders = Leaders(properties, read.amqp.leaders_topic)
        deadline_s = time.monotonic() + CURRENT_S
        while not self._leaders.is_current and time.monotonic() < deadline_s:
            time.sleep(0.05)
        takeover_s = read.amqp.takeover_ms / 1000
        found = {}
        for vhost, topic in logs.items():
            leader = self._leaders.of(vhost, topic)
            found[vhost] = Heard("")
            if leader is not None:
                beat = leader.beat
                times = (leader.heard_s, takeover_s, time.monotonic())
                found[vhost] = Heard(beat.name, beat.ends, *times)
        return found

    def _close_unwatched(self) -> None:
        with self._lock:
            self._close()

    def _close(self) -> None:
        if self._leaders is not None:
            self._leaders.close()
        self._leaders = None
