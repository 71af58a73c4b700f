"""Where a client of a job writes and reads, by the job's configuration."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from streaming.config import JobConfig, librdkafka_properties
from topology.errors import DlxError

VHOST = "/"


class DemoError(DlxError):
    """The demo cannot go on; in words."""


class Addresses(NamedTuple):
    """What a client must know.

    Attributes:
        kafka: the cluster, in the words of librdkafka.
        publishes: topic of publishes.
        commands: topic of commands.
        outbound: topic of what the broker says to the user of `commands`.
    """

    kafka: dict[str, str]
    publishes: str
    commands: str
    outbound: str
    vhost: str = VHOST

    @property
    def topics(self) -> tuple[str, str, str]:
        """All three."""
        return (self.publishes, self.commands, self.outbound)


def addresses_of(config: JobConfig, environment: Mapping[str, str]) -> Addresses:
    """Where the demo's traffic goes.

    Raises:
        DemoError: the job has no topic of our own for publishes, or none for commands.
    """
    ours = [each for each in config.inputs if each.mapping is None]
    publishes = [each for each in ours if each.source == "publishes"]
    commands = [each for each in ours if each.source == "commands"]
    if not (publishes and commands and VHOST in config.vhosts):
        raise DemoError(
            "inputs: the demo's traffic needs a topic of publishes and one of commands without "
            f"a mapping, and the vhost {VHOST}; `dlx config show` prints such a configuration"
        )
    return Addresses(
        dict(librdkafka_properties(config.kafka, environment)),
        publishes[0].topic,
        commands[0].topic,
        config.outbound_topics()[VHOST, commands[0].user],
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
    """The same cluster in the words of kafka-python, as far as it has them."""
    settings: dict[str, Any] = {
        ours: properties[theirs] for theirs, ours in _KAFKA_PYTHON.items() if theirs in properties
    }
    settings["bootstrap_servers"] = settings["bootstrap_servers"].split(",")
    if "security_protocol" in settings:
        settings["security_protocol"] = settings["security_protocol"].upper()
    return settings
