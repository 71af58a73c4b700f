"""`dlx config init`, the port of `dlx kafka`, and what that and `dlx run --with-kafka` refuse."""

import json
import socket

import pytest

from streaming.config import JobConfig, load_config
from streaming.embedded.errors import EmbeddedError
from streaming.user_folders import remember_demo


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """An empty working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_written_file_is_valid_and_has_the_defaults(dlx, here):
    status, out, err = dlx("config", "init")

    assert (status, err) == (0, "")
    assert "dlx run --with-kafka" in out
    config = load_config(here / "dlx.toml")
    assert config.kafka == JobConfig().kafka
    assert config.vhosts == JobConfig().vhosts
    assert config.job.tables_location == str(here / "tables")
    assert dlx("config", "check")[0] == 0


def test_vhosts_for_amqp_are_sequenced_and_their_server_is_named(dlx, here):
    status, out, err = dlx("config", "init", "shop.toml", "--amqp", "--vhost", "a", "--vhost", "b")

    assert (status, err) == (0, "")
    assert "`dlx amqp --config shop.toml`" in out
    vhosts = load_config(here / "shop.toml").vhosts
    assert {name: each.sequenced for name, each in vhosts.items()} == {"a": True, "b": True}
    assert (here / "shop.toml").read_text().count("Fixed by the first start") == 1


def test_an_existing_file_is_not_overwritten(dlx, here):
    (here / "dlx.toml").write_text("mine")

    status, out, err = dlx("config", "init")

    assert (status, out) == (2, "")
    assert err.startswith("dlx.toml: exists already")
    assert (here / "dlx.toml").read_text() == "mine"


def test_definitions_are_named_relative_to_the_file_for_each_of_their_vhosts(dlx, here):
    (here / "mq").mkdir()
    (here / "jobs").mkdir()
    queues = [{"name": "q", "vhost": name} for name in ("shop", 'a "b"')]
    document = {"vhosts": [{"name": "shop"}, {"name": 'a "b"'}], "queues": queues}
    (here / "mq" / "definitions.json").write_text(json.dumps(document))

    status, out, err = dlx(
        "config", "init", "jobs/shop.toml", "--definitions", "mq/definitions.json"
    )

    assert (status, err) == (0, "")
    assert "--config jobs/shop.toml" in out
    vhosts = load_config(here / "jobs" / "shop.toml").vhosts
    assert sorted(vhosts) == ['a "b"', "shop"]
    for settings in vhosts.values():
        assert (here / settings.definitions).samefile(here / "mq" / "definitions.json")


def test_vhosts_and_servers_are_taken_over(dlx, here):
    arguments = (
        "--vhost",
        "a",
        "--vhost",
        "b",
        "--vhost",
        "a",
        "--bootstrap-servers",
        "one:1,two:2",
    )

    status, out, _ = dlx("config", "init", *arguments)

    assert (status, "--with-kafka" in out) == (0, False)
    config = load_config(here / "dlx.toml")
    assert list(config.vhosts) == ["a", "b"]
    assert config.kafka.bootstrap_servers == ("one:1", "two:2")


@pytest.mark.parametrize(
    ("arguments", "place"),
    [
        (("--definitions", "missing.json"), "missing.json"),
        (("--definitions", "bad.json"), "bad.json: queues[0].name"),
        (("--definitions", "good.json", "--vhost", "other"), "vhosts.other.definitions"),
        (("--bootstrap-servers", "one"), "kafka.bootstrap_servers[0]"),
        (("no/such/dlx.toml",), "no/such/dlx.toml"),
    ],
)
def test_nothing_is_written_for_wrong_input(dlx, here, arguments, place):
    (here / "bad.json").write_text('{"queues": [{"name": 5}]}')
    (here / "good.json").write_text(
        '{"vhosts": [{"name": "a"}], "queues": [{"name": "q", "vhost": "a"}]}'
    )
    before = sorted(here.rglob("*"))

    status, out, err = dlx("config", "init", *arguments)

    assert (status, out) == (2, "")
    [line] = err.splitlines()
    assert place in line
    assert sorted(here.rglob("*")) == before


def test_a_file_in_place_of_kafkas_folder_is_refused(dlx, here):
    (here / "file").touch()

    status, out, err = dlx("kafka", "file")

    assert (status, out) == (2, "")
    assert "file is a file" in err


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ('kafka.bootstrap_servers = ["kafka.example:9092"]', "kafka.bootstrap_servers: "),
        ('kafka.bootstrap_servers = ["localhost:1", "localhost:2"]', "kafka.bootstrap_servers: "),
        ('kafka.security."security.protocol" = "SSL"', "kafka.security: "),
        ('kafka.bootstrap_servers = ["localhost:PORT"]', "kafka.bootstrap_servers: port PORT "),
    ],
)
def test_a_broker_that_cannot_be_the_configured_one_is_refused(dlx, here, text, place):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        (here / "dlx.toml").write_text(text.replace("PORT", port))

        status, out, err = dlx("run", "--with-kafka")

    assert (status, out) == (2, "")
    [line] = err.splitlines()
    assert line.startswith(place.replace("PORT", port))
    assert "without --with-kafka" in line
    assert [file.name for file in here.iterdir()] == ["dlx.toml"]


@pytest.fixture
def kafka_port(dlx, monkeypatch):
    """A function that runs `dlx kafka` up to its start: the port it asks for, and stderr."""
    asked = []

    def refuse(_directory, port, _log_dir):
        asked.append(port)
        raise EmbeddedError("not started")

    monkeypatch.setattr("streaming.cli.run.kafka._broker", refuse)

    def run(*arguments):
        status, out, err = dlx("kafka", *arguments)
        assert (status, out) == (2, "")
        return asked.pop(), err

    return run


def test_a_broker_listens_at_the_address_of_the_configuration(kafka_port, here, monkeypatch):
    (here / "dlx.toml").write_text('kafka.bootstrap_servers = ["localhost:19592"]')
    (here / "other.toml").write_text('kafka.bootstrap_servers = ["127.0.0.1:19593", "b:1"]')
    (here / "kafka").mkdir()
    (here / "kafka" / "ports.json").touch()

    port, err = kafka_port()
    assert port == 19592
    assert "19592" in err.splitlines()[0]
    assert "dlx.toml" in err.splitlines()[0]
    port, err = kafka_port("--config", "other.toml")
    assert port == 19593
    assert "other.toml" in err.splitlines()[0]
    port, err = kafka_port("--port", "19594")
    assert port == 19594
    assert len(err.splitlines()) == 1
    monkeypatch.setenv("DLX_CONFIG", "other.toml")
    assert kafka_port()[0] == 19593


def test_a_broker_without_a_configuration_has_the_default_port(kafka_port, here, monkeypatch):
    demo = here / "demo" / "dlx.toml"
    demo.parent.mkdir()
    demo.write_text('kafka.bootstrap_servers = ["localhost:19592"]')
    remember_demo(demo)
    free: set[int] = set()
    monkeypatch.setattr("streaming.embedded.kafka.ports.is_free", free.__contains__)

    port, err = kafka_port()
    assert port is None
    assert "9092 is in use" in err
    free.add(9092)
    port, err = kafka_port()
    assert port == 9092
    assert "9092" in err.splitlines()[0]
    (here / "dlx.toml").write_text('kafka.bootstrap_servers = ["kafka.example:19592"]')
    port, err = kafka_port()
    assert port == 9092
    assert "kafka.example:19592 in dlx.toml" in err.splitlines()[0]
    (here / "kafka").mkdir()
    (here / "kafka" / "ports.json").touch()
    port, err = kafka_port()
    assert port is None
    assert "last start in kafka" in err


def test_a_broker_with_an_invalid_configuration_does_not_start(dlx, here):
    (here / "dlx.toml").write_text("kafka.bootstrap_server = 1")

    status, out, err = dlx("kafka")

    assert (status, out) == (2, "")
    assert "kafka.bootstrap_server" in err
    assert [file.name for file in here.iterdir()] == ["dlx.toml"]
