"""Where the demo's clients write and read."""

import pytest

from streaming.config import JobConfig, parse_config
from streaming.demo.client_setup import (
    Addresses,
    DemoError,
    addresses_of,
    kafka_python_settings,
)

SECURE = """
[kafka]
bootstrap_servers = ["a:1", "b:2"]
[kafka.security]
"security.protocol" = "sasl_ssl"
"sasl.mechanism" = "PLAIN"
"sasl.username" = "me"
"sasl.password" = { env = "PASSWORD" }
"""

MAPPED = """
[[inputs]]
topic = "theirs"
mapping = { exchange = "orders" }
[[inputs]]
topic = "ours"
source = "commands"
"""


def test_by_default_the_jobs_own_topics_are_used():
    addresses = addresses_of(JobConfig(), {})

    assert addresses == Addresses(
        addresses.kafka, "dlx.publishes", "dlx.commands", "dlx.out._2f.guest"
    )
    assert addresses.topics == ("dlx.publishes", "dlx.commands", "dlx.out._2f.guest")


def test_missing_topics_are_reported():
    config = parse_config(MAPPED)

    with pytest.raises(DemoError, match="a topic for publishes and one for commands"):
        addresses_of(config, {})


def test_kafka_python_gets_the_same_security_settings():
    addresses = addresses_of(parse_config(SECURE), {"PASSWORD": "secret"})

    assert kafka_python_settings(addresses.kafka) == {
        "bootstrap_servers": ["a:1", "b:2"],
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": "me",
        "sasl_plain_password": "secret",
    }
