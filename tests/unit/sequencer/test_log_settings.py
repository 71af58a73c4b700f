"""Logs that were made with other settings than a front needs."""

import logging
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from streaming.amqp.clocks import START_MS
from streaming.config import JobConfig, KafkaSettings
from streaming.log_topics import log_topic_properties, log_topic_settings
from streaming.sequencer.log_settings import LogSettingsError, correct_logs

CONFIG = JobConfig(kafka=KafkaSettings(max_message_bytes=2_000_000))
RIGHT = log_topic_properties(CONFIG)


class Admin:
    """Has the settings of topics; can refuse to show or change them."""

    def __init__(self, *, may_alter: bool = True, **settings: dict[str, str]) -> None:
        self.settings = settings
        self.may_alter = may_alter

    def describe_configs(self, resources: list[Any], **_options: Any) -> dict[Any, Future[Any]]:
        [resource] = resources
        shown: Future[Any] = Future()
        if resource.name in self.settings:
            found = self.settings[resource.name].items()
            shown.set_result({name: SimpleNamespace(value=value) for name, value in found})
        else:
            shown.set_exception(refused())
        return {resource: shown}

    def incremental_alter_configs(
        self, resources: list[Any], **_options: Any
    ) -> dict[Any, Future[Any]]:
        [resource] = resources
        altered: Future[Any] = Future()
        if self.may_alter:
            for entry in resource.incremental_configs:
                self.settings[resource.name][entry.name] = entry.value
            altered.set_result(None)
        else:
            altered.set_exception(refused())
        return {resource: altered}


def refused() -> KafkaException:
    return KafkaException(
        KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED, "Topic authorization failed.")
    )


WRONG = [
    ("max.message.bytes", "1048588"),
    ("retention.ms", "604800000"),
    ("retention.bytes", "1073741824"),
    ("cleanup.policy", "compact"),
    ("cleanup.policy", "compact,delete"),
    ("message.timestamp.type", "LogAppendTime"),
    ("message.timestamp.after.max.ms", "3600000"),
]


@pytest.mark.parametrize(("name", "value"), WRONG)
def test_settings_with_which_a_log_would_not_keep_its_records_are_corrected(name, value):
    admin = Admin(log=RIGHT | {name: value})

    correct_logs(admin, CONFIG, {"log": 1})

    assert admin.settings["log"] == RIGHT


@pytest.mark.parametrize(("name", "value"), WRONG)
def test_a_front_that_may_not_correct_them_does_not_begin(name, value):
    admin = Admin(log=RIGHT | {name: value}, may_alter=False)

    with pytest.raises(LogSettingsError) as error:
        correct_logs(admin, CONFIG, {"log": 1})

    text = str(error.value)
    assert f"the log log has {name} = {value}, " in text
    assert f"--alter --topic log --add-config {name}={RIGHT[name]})" in text
    assert error.value.help_code == "topic-limit"


def test_larger_limits_and_settings_that_an_older_kafka_lacks_are_left_alone():
    known = {"max.message.bytes": "9000000", "cleanup.policy": "delete", "segment.ms": "1"}

    correct_logs(Admin(log=dict(known), may_alter=False), CONFIG, {"log": 1})


def test_a_log_whose_settings_are_not_shown_is_used_with_a_word(caplog):
    with caplog.at_level(logging.WARNING):
        correct_logs(Admin(), CONFIG, {"log": 1})

    assert "DescribeConfigs" in caplog.text


@pytest.mark.parametrize(
    ("replicas", "in_sync", "wanted"),
    [(1, "1", None), (2, "1", 2), (2, "2", None), (3, "1", 2), (3, "2", None), (5, "2", 3)],
)
def test_a_log_that_one_lost_broker_may_lose_the_end_of_is_used_with_a_word(
    replicas, in_sync, wanted, caplog
):
    with caplog.at_level(logging.WARNING):
        settings = RIGHT | {"min.insync.replicas": in_sync}
        correct_logs(Admin(log=settings, may_alter=False), CONFIG, {"log": replicas})

    expected = [] if wanted is None else [f"--add-config min.insync.replicas={wanted})"]
    assert [one.getMessage().rpartition("--topic log ")[2] for one in caplog.records] == expected


@pytest.mark.parametrize(("replicas", "in_sync"), [(-1, None), (1, None), (2, "2"), (3, "2")])
def test_a_log_is_made_so_that_most_of_its_replicas_have_what_is_confirmed(replicas, in_sync):
    config = JobConfig(kafka=KafkaSettings(replication_factor=replicas))

    made = log_topic_settings(config, "log")

    assert (made.config or {}).get("min.insync.replicas") == in_sync


def test_a_log_takes_no_timestamp_at_which_spark_fails():
    most_ms = int(log_topic_properties(CONFIG)["message.timestamp.after.max.ms"])

    assert START_MS + most_ms < (1 << 63) // 1_000, "Spark counts microseconds"
