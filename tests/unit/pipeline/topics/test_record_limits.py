"""The largest outbound record, given the settings of topics and brokers."""

import logging
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from streaming.config import FlowSettings, JobConfig, KafkaSettings
from streaming.config.outbound import least_outbound_bytes, outbound_topic_bytes
from streaming.pipeline.topics.record_limits import TopicLimitError, outbound_record_bytes

CONFIG = JobConfig(
    kafka=KafkaSettings(max_message_bytes=200_000), flow=FlowSettings(max_body_bytes=60_000)
)
WANTED = outbound_topic_bytes(CONFIG.flow, CONFIG.kafka)
LEAST = least_outbound_bytes(CONFIG.flow)
SOCKET = 104_857_600


class FakeAdmin:
    """Has the settings of topics and of broker 1; can refuse to show or change them."""

    def __init__(self, topics: dict[str, int], socket: int = SOCKET, *, may_alter: bool = True):
        self.settings = {name: {"max.message.bytes": most} for name, most in topics.items()}
        self.settings["1"] = {"socket.request.max.bytes": socket}
        self.may_alter = may_alter

    def describe_configs(self, resources: list[Any], **_options: Any) -> dict[Any, Future[Any]]:
        [resource] = resources
        future: Future[Any] = Future()
        if resource.name in self.settings:
            found = self.settings[resource.name].items()
            future.set_result({key: SimpleNamespace(value=str(value)) for key, value in found})
        else:
            future.set_exception(refused())
        return {resource: future}

    def incremental_alter_configs(
        self, resources: list[Any], **_options: Any
    ) -> dict[Any, Future[Any]]:
        [resource] = resources
        future: Future[Any] = Future()
        if self.may_alter:
            for entry in resource.incremental_configs:
                self.settings[resource.name][entry.name] = int(entry.value)
            future.set_result(None)
        else:
            future.set_exception(refused())
        return {resource: future}


def refused() -> KafkaException:
    return KafkaException(
        KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED, "Topic authorization failed.")
    )


def asked(admin: Any, *topics: str) -> int:
    return outbound_record_bytes(admin, CONFIG, topics, [1])


def test_a_low_limit_is_raised_and_a_high_one_kept():
    admin = FakeAdmin({"small": 1_000, "right": WANTED, "large": 9_000_000})

    found = asked(admin, "small", "right", "large")

    assert found == WANTED - 1024
    assert [admin.settings[name]["max.message.bytes"] for name in ("small", "right", "large")] == [
        WANTED,
        WANTED,
        9_000_000,
    ]


def test_a_limit_below_the_largest_message_that_cannot_be_raised_is_refused():
    admin = FakeAdmin({"small": LEAST - 1}, may_alter=False)

    with pytest.raises(
        TopicLimitError, match=r"'small' has .*\(Topic authorization failed\)"
    ) as error:
        asked(admin, "small")

    assert f"--add-config max.message.bytes={WANTED}" in str(error.value)


def test_a_limit_that_fits_the_largest_message_is_accepted(caplog):
    admin = FakeAdmin({"small": LEAST}, may_alter=False)

    with caplog.at_level(logging.WARNING):
        assert asked(admin, "small") == LEAST - 1024

    assert "will be truncated" in caplog.text


def test_a_topic_that_cannot_be_described_is_assumed_to_have_the_usual_limit(caplog):
    with caplog.at_level(logging.WARNING):
        assert asked(FakeAdmin({}), "secret") == WANTED - 1024

    assert "DescribeConfigs" in caplog.text


def test_no_request_is_larger_than_the_brokers_accept():
    assert asked(FakeAdmin({"large": WANTED}, socket=500_000), "large") == 500_000 - 65_536
