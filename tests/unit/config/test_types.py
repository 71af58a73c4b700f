"""What holds for every setting, and the values that single settings take."""

from collections.abc import Iterator
from typing import Any

import attrs
import pytest

from streaming.config import InvalidConfigError, JobConfig, JobSettings, TopicMapping
from streaming.config.types import Section, Setting, settings_of

UNITS = ("_ms", "_bytes", "_rows", "_commits", "_partitions", "_fraction", "_memory")
COUNTS = {
    "nice",
    "spare_cores",
    *(
        "max_series",
        "partitions",
        "lanes",
        "default_delivery_limit",
        "replication_factor",
    ),
    "snapshot_records",
    "management_port",
    "metrics_port",
}


def all_fields() -> Iterator[tuple[type[Section], Any]]:
    waiting: list[type[Section]] = [JobConfig]
    while waiting:
        section_class = waiting.pop()
        for field in attrs.fields(section_class):
            setting: Setting = field.metadata["setting"]
            if setting.kind.section_class is not None:
                waiting.append(setting.kind.section_class)
            if section_class is not JobConfig:
                yield section_class, field


every_setting = pytest.mark.parametrize(
    ("section_class", "field"),
    [pytest.param(*each, id=f"{each[0].__name__}.{each[1].name}") for each in all_fields()],
)


@every_setting
def test_a_description_consists_of_whole_sentences(section_class, field):
    description = field.metadata["setting"].description

    assert len(description) > 20
    assert description.endswith(".")


@every_setting
def test_an_optional_setting_has_an_example(section_class, field):
    setting = field.metadata["setting"]
    if field.default is attrs.NOTHING or setting.kind.section_class is not None:
        return

    if section_class is TopicMapping:  # not set itself: its settings are shown by their examples
        assert setting.example
    else:
        assert (field.default is None) == (setting.example != "")


@every_setting
def test_a_required_setting_has_a_stand_in(section_class, field):
    required = field.default is attrs.NOTHING

    assert required == (field.metadata["setting"].stand_in is not None)


@every_setting
def test_the_name_of_a_number_ends_in_its_unit(section_class, field):
    if "number" in field.metadata["setting"].kind.takes:
        assert field.name.endswith(UNITS) or field.name in COUNTS


def test_settings_are_listed_in_the_order_of_the_fields():
    assert list(settings_of(JobConfig)) == [
        "job", "kafka", "vhosts", "users", "inputs", "outbound", "amqp", "flow", "tables",
        "metrics", "alerts", "console",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("memory", "fault"),
    [
        ("512m", None),
        ("2g", None),
        ("2G", None),
        ("511m", 'must be at least "512m": Spark does not start with less'),
        ("2", 'must be a number of megabytes or gigabytes as Java writes it, such as "2g"'),
        ("2gb", 'must be a number of megabytes or gigabytes as Java writes it, such as "2g"'),
        ("0g", 'must be a number of megabytes or gigabytes as Java writes it, such as "2g"'),
    ],
)
def test_driver_memory_is_written_as_java_takes_it(memory, fault):
    assert fault_of_job(driver_memory=memory) == fault


@pytest.mark.parametrize(
    "master", ["local", "local[4]", "local[*]", "local[*,3]", "spark://h:7077", "yarn", "k8s://x"]
)
def test_every_master_that_spark_knows_is_accepted(master):
    assert JobSettings(master=master).master == master


@pytest.mark.parametrize("master", ["", "lokal[*]", "local[x]", "mesos://h", "spark://"])
def test_another_master_is_refused(master):
    assert fault_of_job(master=master) == (
        "must be a Spark master: local[*], local[N], spark://HOST:PORT, yarn or k8s://URL"
    )


@pytest.mark.parametrize(
    "location",
    ["tables", "/var/lib/dlx", "s3://bucket/t", "abfss://container@account.dfs.net/t", "gs://b"],
)
def test_a_location_is_a_path_or_a_url(location):
    assert JobSettings(tables_location=location).tables_location == location


@pytest.mark.parametrize(
    ("location", "fault"),
    [
        ("", "is empty"),
        (
            "s3://key:secret@bucket/t",
            "must contain no password and no query: put credentials in tables.storage_options",
        ),
        (
            "https://host/t?sig=secret",
            "must contain no password and no query: put credentials in tables.storage_options",
        ),
        (
            "foo://bucket/t",
            "must be a path, or a URL that begins with one of file, s3, s3a, gs, abfs, abfss, hdfs",
        ),
    ],
)
def test_a_location_holds_no_credentials(location, fault):
    assert fault_of_job(tables_location=location) == fault


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("spark.ui.port", None),
        ("spark.master", "is written as job.master"),
        ("spark.driver.memory", "is written as job.driver_memory"),
        ("spark.sql.shuffle.partitions", "is written as job.shuffle_partitions"),
        ("spark.sql.mapKeyDedupPolicy", "is set by the job: its guarantees depend on it"),
        (
            "spark.sql.streaming.stateStore.providerClass",
            "is set by the job: its guarantees depend on it",
        ),
        ("spark.jars.packages", "is set by the job: its connectors are pinned and verified"),
        ("ui.port", "does not start with spark."),
        ("", "has no name"),
    ],
)
def test_spark_properties_that_the_job_sets_are_refused(name, fault):
    assert fault_of_job(spark_properties={name: "1"}) == fault


def fault_of_job(**values: Any) -> str | None:
    try:
        JobSettings(**values)
    except InvalidConfigError as error:
        (problem,) = error.problems
        return problem.what
    return None
