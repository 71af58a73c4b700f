"""What the demo's clients share: their addresses, from the job's configuration, and counters."""

import threading
from collections import Counter
from collections.abc import Mapping
from typing import Any, NamedTuple

from streaming.config import JobConfig, librdkafka_properties
from topology.errors import DlxError

VHOST = "/"


class DemoError(DlxError):
    """The demo cannot start or continue; the message says why."""


class Addresses(NamedTuple):
    """The cluster, with librdkafka's properties, and the topics that a client uses."""

    kafka: dict[str, str]
    publishes: str
    commands: str
    outbound: str
    vhost: str = VHOST

    @property
    def topics(self) -> tuple[str, str, str]:
        """The three topics."""
        return (self.publishes, self.commands, self.outbound)


def addresses_of(config: JobConfig, environment: Mapping[str, str]) -> Addresses:
    """The cluster and topics for the demo's traffic.

    Raises:
        DemoError: the job has no topic of its own for publishes or for commands.
    """
    topics = {each.source: each for each in reversed(config.inputs) if each.mapping is None}
    if not (topics.keys() >= {"publishes", "commands"} and VHOST in config.vhosts):
        raise DemoError(
            "inputs: the demo needs a topic for publishes and one for commands without a mapping, "
            f"and the vhost {VHOST}; `dlx config show` prints such a configuration"
        )
    return Addresses(
        librdkafka_properties(config.kafka, environment),
        topics["publishes"].topic,
        topics["commands"].topic,
        config.outbound_topics()[VHOST, topics["commands"].user],
    )


_KAFKA_PYTHON = {
    "bootstrap.servers": "bootstrap_servers",
    "security.protocol": "security_protocol",
    "sasl.mechanism": "sasl_mechanism",
    "sasl.username": "sasl_plain_username",
    "sasl.password": "sasl_plain_password",
    "ssl.ca.location": "ssl_cafile",
    "ssl.certificate.location": "ssl_certfile",
    "ssl.key.location": "ssl_keyfile",
    "ssl.key.password": "ssl_password",
}


def kafka_python_settings(properties: Mapping[str, str]) -> dict[str, Any]:
    """kafka-python's settings for the same cluster, as far as it has them."""
    settings: dict[str, Any] = {
        ours: properties[theirs] for theirs, ours in _KAFKA_PYTHON.items() if theirs in properties
    }
    settings["bootstrap_servers"] = settings["bootstrap_servers"].split(",")
    if "security_protocol" in settings:
        settings["security_protocol"] = settings["security_protocol"].upper()
    return settings


class TrafficCounters:
    """Counters by name, for several threads."""

    def __init__(self) -> None:
        self._counter: Counter[str] = Counter()
        self._lock = threading.Lock()

    def add(self, name: str) -> None:
        """Add one."""
        with self._lock:
            self._counter[name] += 1

    def snapshot(self) -> dict[str, int]:
        """A copy of all counters."""
        with self._lock:
            return dict(self._counter)
