"""`dlx config show`: the whole file, and the same configuration when it is read again."""

import tomllib

import pytest

from streaming.config import (
    Absolute,
    FlowSettings,
    InputSettings,
    JobConfig,
    JobSettings,
    KafkaSettings,
    OutboundSettings,
    RecordHeader,
    RecordKey,
    Relative,
    Secret,
    TablesSettings,
    TopicMapping,
    UserSettings,
    VhostSettings,
    parse_config,
    settings_reference,
    show_config,
)
from streaming.config.types import settings_of
from tests.unit.config.changes import section_class_of

EVERYTHING_CHANGED = JobConfig(
    job=JobSettings(
        checkpoint_location="/var/lib/dlx/checkpoints",
        tables_location="s3://bucket/tables",
        log_dir='C:\\logs "of" dlx\n\x7f\x01',
        clock="event",
        compat="3.10",
        trigger_ms=0,
        max_batch_rows=9_999,
        master="local[2]",
        driver_memory="512m",
        shuffle_partitions=12,
        spark_properties={
            "spark.hadoop.fs.s3a.secret.key": Secret("env", "S3_SECRET"),
            "spark.ui.enabled": "false",
        },
    ),
    kafka=KafkaSettings(
        bootstrap_servers=("a:9092", "[::1]:9093"),
        client_id="café",
        connect_timeout_ms=100,
        topic_partitions=12,
        replication_factor=3,
        max_message_bytes=10_000_000,
        trim_interval_ms=0,
        security={
            "security.protocol": "SASL_SSL",
            "sasl.password": Secret("file", "secrets/kafka"),
        },
        jvm_properties={"reconnect.backoff.ms": "50"},
        librdkafka_properties={"debug": "security"},
    ),
    vhosts={
        "/": VhostSettings(),
        'a "b"\\.c': VhostSettings(
            lanes=4,
            definitions="definitions.json",
            default_delivery_limit=-1,
            consumer_timeout_ms=0,
        ),
        "plain-name_1": VhostSettings(lanes=3),
    },
    users={"guest": UserSettings(administrator=True), "x y": UserSettings()},
    inputs=(
        InputSettings(topic="p", user="x y", partitions=12),
        InputSettings(topic="c", source="commands"),
        InputSettings(topic="f1", mapping=TopicMapping(exchange="orders")),
        InputSettings(
            topic="f2",
            mapping=TopicMapping(
                exchange=RecordHeader("ce_type", otherwise="x"),
                routing_key=RecordKey(),
                vhost=RecordHeader("tenant"),
            ),
        ),
        InputSettings(
            topic="f3",
            mapping=TopicMapping(
                exchange="", routing_key=RecordKey(otherwise=""), vhost='a "b"\\.c'
            ),
        ),
    ),
    outbound=OutboundSettings(topic="o.{user}.{vhost}", partitions=2, retention_ms=60_000),
    flow=FlowSettings(
        vm_memory_high_watermark=Absolute(64_000_000),
        low_mark_fraction=0.5,
        max_body_bytes=1,
        max_header_bytes=1_024,
    ),
    tables=TablesSettings(
        contents_lag_ms=100,
        compaction_interval_ms=1_000,
        compaction_target_bytes=1_048_576,
        checkpoint_interval_commits=1,
        log_retention_ms=60_000,
        vacuum_interval_ms=1_000,
        vacuum_retention_ms=60_000,
        storage_options={"AWS_REGION": "eu-central-1", "AWS_SESSION_TOKEN": Secret("env", "TOKEN")},
    ),
)


@pytest.mark.parametrize("config", [JobConfig(), EVERYTHING_CHANGED])
def test_a_shown_configuration_is_read_back_unchanged(config):
    assert parse_config(show_config(config)) == config


@pytest.mark.parametrize(
    "mark", [Relative(0.0), Relative(1e-7), Relative(3.0), Absolute(0), Absolute(67_108_864)]
)
def test_every_form_of_the_high_mark_is_read_back_unchanged(mark):
    config = JobConfig(flow=FlowSettings(vm_memory_high_watermark=mark))

    assert parse_config(show_config(config)) == config


def test_every_setting_is_shown_below_its_description():
    lines = show_config(JobConfig()).splitlines()
    text = " ".join(line.removeprefix("# ") for line in lines)

    for table, setting in settings_of(JobConfig).items():
        assert f"{setting.description} [" in text
        for name, member in settings_of(section_class_of(setting.kind)).items():
            inline, headed = (
                f"{member.description} {name} = ",
                f"{member.description} [{table}.{name}]",
            )
            assert inline in text or headed in text, name


def test_descriptions_are_shown_once():
    shown = show_config(EVERYTHING_CHANGED)

    assert shown.count("# The Kafka topic.") == 1
    assert shown.count("# Slices of the vhost that work in parallel") == 1


def test_a_setting_that_is_not_set_is_shown_as_an_example():
    shown = show_config(JobConfig())

    assert "\n# shuffle_partitions = 8\n" in shown
    assert "\n# [inputs.mapping]\n" in shown
    assert '\n# exchange = "orders"\n' in shown


def test_the_examples_are_valid():
    shown = show_config(JobConfig())
    commented = [
        "kafka.topic_partitions = 4",
        "job.shuffle_partitions = 8",
        "vhosts.x.default_delivery_limit = 20",
    ]
    for line in commented:
        assert f"# {line.split('.')[-1]}" in shown
        parse_config(line)
    mapped = shown.replace("# [inputs.mapping]", "[inputs.mapping]")
    for name in ("exchange", "routing_key", "vhost"):
        mapped = mapped.replace(f"\n# {name} = ", f"\n{name} = ")

    assert parse_config(mapped).inputs[0].mapping == TopicMapping(
        exchange="orders", routing_key=RecordHeader("type", otherwise="order"), vhost="/"
    )


def test_no_line_is_wider_than_a_hundred_characters():
    assert max(len(line) for line in show_config(JobConfig()).splitlines()) <= 100


def test_a_secret_is_shown_as_a_reference():
    shown = show_config(EVERYTHING_CHANGED)

    assert '"sasl.password" = { file = "secrets/kafka" }' in shown
    assert 'AWS_SESSION_TOKEN = { env = "TOKEN" }' in shown


def test_the_default_template_has_every_default():
    shown = show_config(JobConfig(job=JobSettings(trigger_ms=250)))

    document = tomllib.loads(shown)

    assert list(document) == [
        "job", "kafka", "vhosts", "users", "inputs", "outbound", "amqp", "flow", "tables",
        "metrics", "alerts", "console",
    ]  # fmt: skip
    assert document["job"] == {
        "checkpoint_location": "checkpoints",
        "tables_location": "tables",
        "lease_ms": 30_000,
        "storage": [],
        "log_dir": "logs",
        "clock": "wall",
        "compat": "4.0",
        "trigger_ms": 250,
        "max_batch_rows": 200_000,
        "max_batch_bytes": 1_073_741_824,
        "master": "local[*]",
        "executor_packages": "installed",
        "driver_memory": "2g",
        "spark_properties": {},
    }
    assert document["inputs"] == [
        {"topic": "dlx.publishes", "source": "publishes", "user": "guest"},
        {"topic": "dlx.commands", "source": "commands", "user": "guest"},
    ]


def test_the_reference_has_every_setting_under_its_header():
    sections = {each.header: each for each in settings_reference()}
    kafka = {each.name: each for each in sections["[kafka]"].settings}

    assert list(sections) == [
        "[job]", "[kafka]", "[vhosts.NAME]", "[users.NAME]", "[[inputs]]", "[inputs.mapping]",
        "[outbound]", "[outbound.dead_letters]", "[amqp]", "[flow]", "[tables]", "[metrics]",
        "[alerts]", "[console]",
    ]  # fmt: skip
    assert (kafka["connect_timeout_ms"].takes, kafka["connect_timeout_ms"].bounds) == (
        "a whole number of milliseconds",
        "100 to 3_600_000",
    )
    assert kafka["bootstrap_servers"].default == '["localhost:9092"]'
    assert kafka["topic_partitions"].default == ""
    assert [each.name for each in sections["[inputs.mapping]"].settings if each.is_required] == [
        "exchange"
    ]
    fixed = {each.name for each in sections["[job]"].settings if each.is_fixed}
    assert fixed == {"clock", "compat"}
