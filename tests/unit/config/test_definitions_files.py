"""Definitions files and secrets are checked before anything runs."""

import json
from pathlib import Path

import pytest
from attrs import evolve

from streaming.config import (
    InputSettings,
    InvalidConfigError,
    JobConfig,
    JobSettings,
    UserSettings,
    VhostSettings,
    parse_config,
)
from streaming.config.definitions_files import (
    check_secrets,
    import_problems,
    load_vhost_definitions,
)
from topology.declarations import Definitions, Queue
from topology.values import Table


def config_with(**files: Path) -> JobConfig:
    return JobConfig(
        vhosts={
            "/": VhostSettings(),
            **{name: VhostSettings(definitions=str(file)) for name, file in files.items()},
        }
    )


def written(path: Path, document: object) -> Path:
    path.write_text(json.dumps(document))
    return path


def problems_of(config: JobConfig) -> list[str]:
    with pytest.raises(InvalidConfigError) as caught:
        load_vhost_definitions(config)
    return [str(problem) for problem in caught.value.problems]


def test_each_vhost_gets_its_part_of_a_cluster_export(tmp_path: Path):
    export = written(
        tmp_path / "cluster.json",
        {
            "vhosts": [{"name": "a"}, {"name": "b"}, {"name": "c"}],
            "queues": [
                {"name": "qa", "vhost": "a"},
                {"name": "qb", "vhost": "b"},
                {"name": "qc", "vhost": "c"},
            ],
        },
    )

    found = load_vhost_definitions(config_with(a=export, b=export))

    assert found == {
        "a": Definitions(queues=(Queue(name="qa"),)),
        "b": Definitions(queues=(Queue(name="qb"),)),
    }


def test_the_export_of_one_vhost_belongs_to_the_vhost_that_names_the_file(tmp_path: Path):
    export = written(tmp_path / "one.json", {"queues": [{"name": "q"}]})

    assert load_vhost_definitions(config_with(shop=export)) == {
        "shop": Definitions(queues=(Queue(name="q"),))
    }


def test_an_unsupported_item_is_reported_once_for_a_file_of_two_vhosts(tmp_path: Path):
    stream = {"name": "log", "arguments": {"x-queue-type": "stream"}}
    queues = [{**stream, "vhost": vhost} for vhost in ("a", "b")]
    queues += [{"name": "q", "vhost": vhost} for vhost in ("a", "b")]
    export = written(tmp_path / "cluster.json", {"queues": queues})
    told: list[str] = []

    load_vhost_definitions(config_with(a=export, b=export), told.append)

    assert told == [
        f"{export}: queues[{number}]: queue type 'stream' is not supported" for number in (0, 1)
    ]


def test_without_files_there_is_nothing_to_load():
    assert load_vhost_definitions(JobConfig()) == {}


def test_every_problem_of_every_file_is_named_under_its_setting(tmp_path: Path):
    bad = written(
        tmp_path / "bad.json",
        {"queues": [{"name": "q"}, {"name": 5}], "bindings": []},
    )
    lost = written(
        tmp_path / "lost.json",
        {
            "queues": [{"name": "q"}],
            "bindings": [{"source": "orders", "destination": "q", "destination_type": "queue"}],
        },
    )
    other = written(tmp_path / "other.json", {"queues": [{"name": "q", "vhost": "x"}]})

    problems = problems_of(
        config_with(bad=bad, lost=lost, missing=tmp_path / "missing.json", other=other)
    )

    assert problems == [
        "vhosts.bad.definitions: queues[1].name: expected a string, got a number",
        "vhosts.lost.definitions: bindings[0].source: no exchange is named 'orders'",
        f"vhosts.missing.definitions: cannot read {tmp_path}/missing.json: "
        "No such file or directory",
        f"vhosts.other.definitions: {tmp_path}/other.json declares nothing for this vhost, "
        "only for 'x'",
    ]


def test_an_argument_can_be_valid_in_one_rabbitmq_version_only(tmp_path: Path):
    quorum: Table = {"x-queue-type": "quorum", "x-delivery-limit": -1}
    export = written(tmp_path / "one.json", {"queues": [{"name": "q", "arguments": quorum}]})
    config = config_with(shop=export)

    assert load_vhost_definitions(config) == {
        "shop": Definitions(queues=(Queue(name="q", arguments=quorum),))
    }
    assert problems_of(evolve(config, job=JobSettings(compat="3.10"))) == [
        "vhosts.shop.definitions: queues[0].arguments.x-delivery-limit: must not be negative, "
        "but is -1"
    ]


def test_a_file_that_is_not_json_is_reported(tmp_path: Path):
    broken = tmp_path / "broken.json"
    broken.write_text("{")

    (problem,) = problems_of(config_with(shop=broken))

    assert problem.startswith("vhosts.shop.definitions: ")
    assert "JSON" in problem


def test_an_empty_definitions_file_is_valid(tmp_path: Path):
    empty = written(tmp_path / "empty.json", {})

    assert load_vhost_definitions(config_with(shop=empty)) == {"shop": Definitions()}


def test_every_missing_secret_is_reported_once():
    config = parse_config("""
        job.spark_properties."spark.hadoop.fs.s3a.secret.key" = { env = "A" }
        [kafka.security]
        sasl.mechanism = "PLAIN"
        sasl.password = { env = "B" }
        [kafka.jvm_properties]
        sasl.jaas.config = { env = "C" }
        [kafka.librdkafka_properties]
        ssl.key.password = { env = "D" }
        [tables.storage_options]
        AWS_SESSION_TOKEN = { env = "E" }
    """)

    with pytest.raises(InvalidConfigError) as caught:
        check_secrets(config, {})

    assert [str(problem) for problem in caught.value.problems] == [
        'job.spark_properties."spark.hadoop.fs.s3a.secret.key": environment variable A is not set',
        'kafka.security."sasl.password": environment variable B is not set',
        'kafka.jvm_properties."sasl.jaas.config": environment variable C is not set',
        'kafka.librdkafka_properties."ssl.key.password": environment variable D is not set',
        "tables.storage_options.AWS_SESSION_TOKEN: environment variable E is not set",
    ]


def test_a_missing_certificate_is_reported(tmp_path: Path):
    config = parse_config(f"""
        [kafka.security]
        ssl.certificate.location = "{tmp_path}/chain.pem"
    """)

    with pytest.raises(InvalidConfigError) as caught:
        check_secrets(config, {})

    assert str(caught.value) == (
        f'kafka.security."ssl.certificate.location": cannot read {tmp_path}/chain.pem: '
        "No such file or directory"
    )


def test_available_secrets_pass_the_check():
    config = parse_config('kafka.security."ssl.key.password" = { env = "A" }')

    check_secrets(config, {"A": "a"})


def problems(*, administrator: bool) -> list[str]:
    config = JobConfig(
        users={"ops": UserSettings(administrator=administrator)},
        inputs=(
            InputSettings(topic="p", source="publishes", user="ops"),
            InputSettings(topic="c", source="commands", user="ops"),
        ),
    )
    return list(import_problems(config))


def test_only_an_administrator_can_import():
    [problem] = problems(administrator=False)

    assert problem.startswith("are imported by 'ops', the user of the first commands input")


def test_an_administrator_can_import():
    assert problems(administrator=True) == []
