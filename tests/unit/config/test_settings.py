"""What holds for every setting there is."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from msgspec.structs import fields

from streaming.config import InvalidConfigError, JobConfig, JobSettings
from streaming.config.sections import Section, Table, is_required, settings_of
from streaming.config.settings import Setting
from streaming.config.toml import write_scalar
from streaming.config.types import Scalar
from tests.unit.config.changes import section_class_of

UNITS = ("_ms", "_bytes", "_rows", "_commits", "_partitions", "_fraction", "_memory")
COUNTS = {
    "partitions",
    "lanes",
    "max_queues",
    "cascade_limit",
    "default_delivery_limit",
    "replication_factor",
}


def all_settings() -> Iterator[tuple[type[Section], str, Setting]]:
    waiting: list[type[Section]] = [
        section_class_of(setting.kind) for setting in settings_of(JobConfig).values()
    ]
    while waiting:
        section_class = waiting.pop()
        for name, setting in settings_of(section_class).items():
            yield section_class, name, setting
            if isinstance(setting.kind, Table):
                waiting.append(section_class_of(setting.kind))


every_setting = pytest.mark.parametrize(
    ("section_class", "name", "setting"),
    [pytest.param(*each, id=f"{each[0].__name__}.{each[1]}") for each in all_settings()],
)


@every_setting
def test_a_setting_explains_itself_in_whole_sentences(section_class, name, setting):
    assert len(setting.comment) > 20
    assert setting.comment.endswith(".")


@every_setting
def test_what_may_be_left_unset_comes_with_an_example(section_class, name, setting):
    if is_required(section_class, name) or isinstance(setting.kind, Table):
        return
    default = {field.name: field.default for field in fields(section_class)}[name]

    assert (default is None) == (setting.example != "" and section_class.__name__ != "TopicMapping")


@every_setting
def test_what_is_required_has_something_to_go_on_with(section_class, name, setting):
    assert is_required(section_class, name) == (setting.stand_in is not None)


@every_setting
def test_a_number_names_its_unit(section_class, name, setting):
    takes_numbers = isinstance(setting.kind, Scalar) and setting.kind.fault("x") is not None
    if takes_numbers and "number" in str(setting.kind.fault("x")):
        assert name.endswith(UNITS) or name in COUNTS


@pytest.mark.parametrize(
    ("memory", "fault"),
    [
        ("512m", None),
        ("2g", None),
        ("2G", None),
        ("511m", 'must be at least "512m": Spark does not start with less'),
        ("2", 'must be a number of megabytes or gigabytes as Java takes it, such as "2g"'),
        ("2gb", 'must be a number of megabytes or gigabytes as Java takes it, such as "2g"'),
        ("0g", 'must be a number of megabytes or gigabytes as Java takes it, such as "2g"'),
    ],
)
def test_driver_memory_is_written_as_java_takes_it(memory, fault):
    assert fault_of_job(driver_memory=memory) == fault


@pytest.mark.parametrize(
    "master", ["local", "local[4]", "local[*]", "local[*,3]", "spark://h:7077", "yarn", "k8s://x"]
)
def test_every_master_that_spark_knows_is_taken(master):
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
            "must hold no password and no query: credentials go into tables.storage_options",
        ),
        (
            "https://host/t?sig=secret",
            "must hold no password and no query: credentials go into tables.storage_options",
        ),
        (
            "foo://bucket/t",
            "must be a path, or a URL that begins with one of file, s3, s3a, gs, abfs, abfss",
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
        ("spark.sql.mapKeyDedupPolicy", "is what the guarantees rest on: the job sets it"),
        (
            "spark.sql.streaming.stateStore.providerClass",
            "is what the guarantees rest on: the job sets it",
        ),
        ("spark.jars.packages", "is set by the job: its connectors are pinned and verified"),
        ("ui.port", "does not start with spark."),
        ("", "has no name"),
    ],
)
def test_spark_properties_leave_alone_what_the_job_depends_on(name, fault):
    assert fault_of_job(spark_properties={name: "1"}) == fault


def fault_of_job(**values: Any) -> str | None:
    try:
        JobSettings(**values)
    except InvalidConfigError as error:
        (problem,) = error.problems
        return problem.what
    return None


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (True, "true"),
        (False, "false"),
        (-1, "-1"),
        (9_999, "9999"),
        (-10_000, "-10_000"),
        (0.5, "0.5"),
        ('a"b\\\t\u0001', '"a\\"b\\\\\\t\\u0001"'),
    ],
)
def test_scalars_are_written_as_toml(value, written):
    assert write_scalar(value) == written


def test_nothing_else_is_written_as_a_scalar():
    with pytest.raises(TypeError, match=re.escape("list")):
        write_scalar([])
