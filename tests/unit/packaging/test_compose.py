"""docker-compose.yml agrees with the project.

These tests compare its Kafka settings with the embedded broker's, its commands with the command
line, and its paths with each other. If Compose is installed, it must accept the file too.
"""

import base64
import json
import os
import re
import runpy
import shutil
import subprocess
from pathlib import Path

import pytest
import typer
import yaml  # type: ignore[import-untyped]
from typer.core import TyperGroup

from streaming.amqp.login import Client, Users
from streaming.amqp.memory import users_in
from streaming.cli.main import build_app
from streaming.cli.run.amqp import AMQP_PORT
from streaming.config import load_config
from streaming.config.definitions_files import load_vhost_definitions
from streaming.demo.traffic import traffic_vhost
from streaming.embedded.jvm.pinned_jars import lock_file, read_lock
from streaming.embedded.kafka.broker_properties import BrokerLimits, broker_properties
from streaming.embedded.kafka.ports import Ports
from streaming.metrics.alerts import SHIPPED
from tests.unit.packaging.container_files import (
    CHECKOUT,
    COMPOSE,
    in_checkout,
    instructions,
    mounts,
    pinned,
    published,
    size_bytes,
)
from topology.definitions.load import load_definitions

SERVICES = COMPOSE["services"]
KAFKA = SERVICES["kafka"]
OURS = {name: each for name, each in SERVICES.items() if each["image"].startswith("dlx-stream")}
PROFILES = {
    **dict.fromkeys(("sql", "tools"), "tools"),
    **dict.fromkeys(("console", "monitoring", "prometheus", "grafana"), "observe"),
    **dict.fromkeys(
        (name for name in SERVICES if re.match("kafka-|spark-|cluster-", name)), "cluster"
    ),
    "store": "cluster",
}
ONCE = {"monitoring"}
"""The services that end by themselves."""
CONFIG = CHECKOUT / "docker" / "dlx.toml"
CLUSTER_CONFIG = CHECKOUT / "docker" / "cluster.toml"
IN_THE_IMAGE = "/etc/dlx/dlx.toml"
CLUSTER_IN_THE_IMAGE = "/etc/dlx/cluster.toml"
CLUSTER = {name for name, profile in PROFILES.items() if profile == "cluster"}


def kafka_properties(service=KAFKA):
    """The broker's properties, as the official image reads them from its environment."""
    names = {
        name.removeprefix("KAFKA_").lower().replace("_", "."): value
        for name, value in service["environment"].items()
        if name.startswith("KAFKA_")
    }
    del names["heap.opts"]  # of the JVM
    return names


def listeners(text):
    """Listener name -> address."""
    return dict(each.split("://") for each in text.split(","))


def test_kafka_has_the_version_and_the_settings_of_the_embedded_broker():
    (version,) = {
        jar.version for jar in read_lock(lock_file("kafka")) if jar.artifact == "kafka_2.13"
    }
    embedded = broker_properties(BrokerLimits(), Ports(1, 2), Path("/var/lib/kafka/data"))
    of_the_network = {
        "controller.quorum.voters",
        "listeners",
        "advertised.listeners",
        "inter.broker.listener.name",
        "listener.security.protocol.map",
    }
    rest = {name: value for name, value in kafka_properties().items() if name not in of_the_network}

    assert pinned(KAFKA["image"]) == ("apache/kafka", version)
    assert rest == {name: embedded[name] for name in rest if name in embedded}
    assert kafka_properties().keys() >= of_the_network
    assert len(base64.urlsafe_b64decode(KAFKA["environment"]["CLUSTER_ID"] + "==")) == 16


def test_kafkas_addresses_match_the_jobs_setting_and_the_published_port():
    settings = kafka_properties()
    opened = listeners(settings["listeners"])
    advertised = listeners(settings["advertised.listeners"])
    protocols = dict(
        each.split(":") for each in settings["listener.security.protocol.map"].split(",")
    )
    [(host, variable, host_port, port)] = published(KAFKA)

    assert opened.keys() == protocols.keys() == {*advertised, "CONTROLLER"}
    assert [advertised["INSIDE"]] == [*load_config(CONFIG).kafka.bootstrap_servers]
    assert opened["INSIDE"].rpartition(":")[2] == advertised["INSIDE"].rpartition(":")[2]
    assert advertised["INSIDE"].partition(":")[0] in SERVICES
    assert advertised["HOST"] == f"localhost:${{{variable}:-{host_port}}}"
    assert host == "127.0.0.1", "it takes everybody for an administrator"
    assert opened["HOST"].rpartition(":")[2] == port
    assert settings["controller.quorum.voters"] == (
        f"{settings['node.id']}@{opened[settings['controller.listener.names']]}"
    )
    assert settings["log.dirs"] in mounts(KAFKA)


@pytest.mark.parametrize("name", sorted(n for n, each in OURS.items() if "command" in each))
def test_the_commands_of_containers_are_valid_dlx_commands(name, tmp_path):
    config = tmp_path / "dlx.toml"
    config.touch()
    command, *arguments = [
        str(config)
        if each in {IN_THE_IMAGE, CLUSTER_IN_THE_IMAGE}
        else str(in_checkout(each) or each)
        for each in OURS[name]["command"]
    ]
    if name == "tools":
        assert (command, arguments) == ("--help", [])  # whatever the user gives replaces it
        return
    group = typer.main.get_group(build_app())
    found = group.get_command(group.make_context("dlx", [command]), command)
    while isinstance(found, TyperGroup) and not found.invoke_without_command:
        command, *arguments = arguments
        found = found.get_command(found.make_context(command, [command]), command)

    assert found is not None, command
    parsed = found.make_context(command, arguments).params
    assert parsed["config"] == config
    if name.endswith("demo"):
        assert parsed["traffic_only"] is True


def test_the_configuration_is_valid_and_uses_the_mounted_folders():
    config = load_config(CONFIG)

    load_vhost_definitions(config)
    assert in_checkout(IN_THE_IMAGE) == CONFIG
    for name, service in OURS.items():
        wanted = CLUSTER_IN_THE_IMAGE if name.startswith("cluster-") else IN_THE_IMAGE
        assert service["environment"]["DLX_CONFIG"] == wanted, name
    job, sql = mounts(OURS["job"]), mounts(OURS["sql"])
    folders = {config.job.checkpoint_location, config.job.tables_location, config.job.log_dir}
    assert job.keys() == folders
    assert not any(read_only for target, (_, read_only) in job.items() if target in folders)
    assert sql[config.job.tables_location] == (job[config.job.tables_location][0], True)
    (making,) = [rest for _, rest in instructions() if "install -d" in rest]
    assert folders <= set(making.split()), "a volume takes over the owner of the image's folder"
    assert config.job.shuffle_partitions is not None, "else a volume is tied to a machine's cores"


def test_volumes_are_declared_and_used_and_no_file_of_the_checkout_is_mounted():
    used = {source for service in SERVICES.values() for source, _ in mounts(service).values()}

    assert used == COMPOSE["volumes"].keys(), "a file may be unreadable for the container's user"


def test_every_container_has_limits_and_a_health_check():
    started = {name for name, each in SERVICES.items() if "profiles" not in each}

    assert started == {"kafka", "job", "amqp", "demo"}
    assert {name: each["profiles"] for name, each in SERVICES.items() if name not in started} == {
        name: [profile] for name, profile in PROFILES.items()
    }
    for name, service in SERVICES.items():
        if name not in ONCE:
            assert service["healthcheck"]["test"][0] == "CMD", name
        assert size_bytes(service["mem_limit"]) >= 512 * 2**20, name
        assert service["logging"]["driver"] == "local", name
        assert ("restart" in service) == (PROFILES.get(name) != "tools" and name not in ONCE), name
        for other, wish in service.get("depends_on", {}).items():
            ends = other in ONCE
            condition = "service_completed_successfully" if ends else "service_healthy"
            assert wish == {"condition": condition}
            assert other in {*started, *ONCE, *CLUSTER}
    heap = size_bytes(load_config(CONFIG).job.driver_memory)
    assert size_bytes(SERVICES["job"]["mem_limit"]) >= 2 * heap
    kafka_heap = size_bytes(KAFKA["environment"]["KAFKA_HEAP_OPTS"].removeprefix("-Xmx"))
    assert size_bytes(KAFKA["mem_limit"]) >= 2 * kafka_heap


def test_programs_of_health_checks_are_in_the_images():
    health = in_checkout("/opt/dlx/docker/health.py")
    script_members = runpy.run_path(str(health))
    checks = {*script_members["ASKED"], *script_members["CHECKS"]}
    [address] = load_config(CONFIG).kafka.bootstrap_servers

    assert KAFKA["healthcheck"]["test"][-1].endswith("/dev/tcp/" + address.replace(":", "/"))
    asked = set()
    for name, service in OURS.items():
        if "health.py" not in str(service.get("healthcheck")):
            continue
        python, script, what, config = service["healthcheck"]["test"][1:]
        assert python == "/opt/dlx/.venv/bin/python", (
            "as streaming/cli/develop/bootstrap_venv.py makes it"
        )
        assert in_checkout(script) == health
        assert config == (CLUSTER_IN_THE_IMAGE if name in CLUSTER else IN_THE_IMAGE)
        asked.add(what)
    assert asked == checks


def test_one_service_builds_the_image_of_all():
    assert [name for name, each in SERVICES.items() if "build" in each] == ["job"]
    assert {each["image"] for each in OURS.values()} == {SERVICES["job"]["image"]}


def test_ports_are_open_to_this_machine_alone_and_chosen_by_variables():
    found = {name: published(each) for name, each in SERVICES.items() if "ports" in each}

    names = {"kafka", "job", "amqp", "console", "prometheus", "grafana", "cluster-job"}
    assert found.keys() == names
    assert {host for ports in found.values() for host, *_ in ports} == {"127.0.0.1"}
    opened = [variable for ports in found.values() for _, variable, *_ in ports]
    assert len(set(opened)) == len(opened)
    page = (CHECKOUT / "docs" / "docker.md").read_text("utf-8")
    assert [variable for variable in opened if f"`{variable}`" not in page] == []
    listen = load_config(CONFIG).metrics.listen
    assert listen is not None
    assert found["job"][0][3] == listen.rpartition(":")[2]


def test_rabbitmqs_clients_find_its_port_its_user_and_the_vhost_that_they_open_by_themselves():
    config = load_config(CONFIG)
    service = OURS["amqp"]
    [*options, last] = service["command"]
    assert last == "--remote-guest"
    arguments = dict(zip(options[1::2], options[2::2], strict=True))
    document = json.loads(in_checkout(arguments["--definitions"]).read_text("utf-8"))
    loaded = load_definitions(document)
    anywhere = Client(is_loopback=False)

    metrics_port = str(config.amqp.metrics_port)
    assert published(service) == [
        ("127.0.0.1", "DLX_AMQP_PORT", "5672", str(AMQP_PORT)),
        ("127.0.0.1", "DLX_MANAGEMENT_PORT", "15672", str(config.amqp.management_port)),
        ("127.0.0.1", "DLX_AMQP_METRICS_PORT", "15692", metrics_port),
    ]
    assert runpy.run_path(str(in_checkout("/opt/dlx/docker/health.py")))["FRONT_PORT"] == int(
        metrics_port
    )
    assert arguments["--host"] == "0.0.0.0"  # noqa: S104 (of the container, for its port)
    assert service["healthcheck"]["test"][-2] == "front"
    assert loaded.skipped == ()
    assert [*loaded.vhosts] == [*config.log_topics()] == ["/"]
    user = Users(users_in(document, remote_guest=True)).login("PLAIN", b"\0guest\0guest", anywhere)
    assert [each["user"] for each in document["permissions"]] == [user.name]
    assert config.job.checkpoint_location in mounts(service), "its snapshots are beside it"
    url = f"amqp://guest:guest@localhost:{AMQP_PORT}"
    for page in ("docker-compose.yml", "docker/dlx.toml", "docs/docker.md", "README.md"):
        assert url in (CHECKOUT / page).read_text("utf-8"), page


def test_the_traffic_has_a_vhost_beside_that_of_rabbitmqs_clients():
    config = load_config(CONFIG)
    vhost = traffic_vhost(config)

    assert [name for name, each in config.vhosts.items() if not each.sequenced] == [vhost]
    page = (CHECKOUT / "docs" / "docker.md").read_text("utf-8")
    assert f"in the vhost `{vhost}`" in page
    assert f"# in the vhost `{vhost}`" in (CHECKOUT / "docker-compose.yml").read_text("utf-8")


def test_with_a_certificate_amqp_speaks_tls_too():
    override = yaml.safe_load((CHECKOUT / "docker" / "tls.yml").read_text("utf-8"))
    tls = override["services"].pop("amqp")
    base = OURS["amqp"]["command"]
    command = typer.main.get_group(build_app()).commands["amqp"]

    assert override == {"services": {}}
    assert tls["command"][: len(base)] == base
    [volume] = tls["volumes"]
    parts = re.fullmatch(r"(\$\{DLX_TLS_DIR:\?.+\}):(/\S+):ro", volume)
    assert parts is not None
    source, target = parts.groups()
    certificate, key = f"{target}/cert.pem", f"{target}/key.pem"
    added = tls["command"][len(base) :]
    assert added == ["--tls", certificate, key, "--tls-port=5671"]
    assert "cert.pem and key.pem" in source
    parsed = command.make_context("amqp", added).params
    assert (str(parsed["tls"][0]), str(parsed["tls"][1])) == (certificate, key)
    assert parsed["tls_port"] == 5671
    assert published(tls) == [("127.0.0.1", "DLX_AMQPS_PORT", "5671", "5671")]
    page = (CHECKOUT / "docs" / "docker.md").read_text("utf-8")
    assert "--file docker/tls.yml up" in page
    assert "DLX_AMQPS_PORT" in page


def test_the_clusters_kafkas_differ_only_in_their_names_and_lose_one_of_three():
    brokers = {name: each for name, each in SERVICES.items() if name.startswith("kafka-")}
    settings = {name: kafka_properties(each) for name, each in brokers.items()}
    alike = [
        {
            key: value
            for key, value in each.items()
            if key not in {"node.id", "advertised.listeners"}
        }
        for each in settings.values()
    ]
    config = load_config(CLUSTER_CONFIG)

    assert len(brokers) == 3
    assert alike == alike[:1] * 3
    assert {each["node.id"] for each in settings.values()} == {"1", "2", "3"}
    for name, each in settings.items():
        assert each["advertised.listeners"] == f"INSIDE://{name}:29092"
        assert f"{each['node.id']}@{name}:29093" in each["controller.quorum.voters"].split(",")
        assert brokers[name]["image"] == KAFKA["image"]
        assert brokers[name]["healthcheck"]["test"][-1].endswith(f"/dev/tcp/{name}/29092")
    assert (alike[0]["default.replication.factor"], alike[0]["min.insync.replicas"]) == ("3", "2")
    assert [*config.kafka.bootstrap_servers] == [f"{name}:29092" for name in brokers]
    assert config.kafka.replication_factor == 3
    single = kafka_properties()
    kept = {key: single[key] for key in alike[0].keys() & single.keys() if "factor" not in key}
    varied = {key for key, value in kept.items() if alike[0][key] != value}
    assert varied == {
        "controller.quorum.voters",
        "listeners",
        "listener.security.protocol.map",
        "min.insync.replicas",
        "transaction.state.log.min.isr",
        "share.coordinator.state.topic.min.isr",
        "cluster.id",
    } - {"cluster.id"}


def test_the_clusters_job_finds_its_master_its_store_and_itself():
    config = load_config(CLUSTER_CONFIG)
    worker = SERVICES["spark-worker-1"]
    properties = config.job.spark_properties
    script = runpy.run_path(str(in_checkout("/opt/dlx/docker/spark.py")))
    host, _, port = config.job.master.removeprefix("spark://").partition(":")

    assert in_checkout(CLUSTER_IN_THE_IMAGE) == CLUSTER_CONFIG
    assert host == SERVICES["spark-master"]["hostname"]
    assert port == script["PORT"]
    assert worker["entrypoint"][-1] == config.job.master
    assert properties["spark.driver.host"] == SERVICES["cluster-job"]["hostname"]
    assert config.tables.storage_options["AWS_ENDPOINT_URL"] == "http://store:9000"
    assert config.job.log_dir in mounts(SERVICES["cluster-job"])
    bucket = config.job.tables_location.split("/")[2]
    assert f"mkdir -p /data/{bucket} " in SERVICES["store"]["entrypoint"][-1]


def test_prometheus_and_grafana_have_the_job_and_the_shipped_files():
    copied = {Path(each).name: each for each in SERVICES["monitoring"]["entrypoint"][2:-1]}
    monitoring = in_checkout("/opt/dlx/docker/monitoring")
    prometheus = yaml.safe_load((monitoring / "prometheus.yml").read_text())
    grafana = monitoring / "grafana"
    scrape, front = prometheus["scrape_configs"]
    [dashboards] = yaml.safe_load((grafana / "dashboards" / "dlx.yml").read_text())["providers"]

    assert copied.keys() == {"shipped", "monitoring"}, "the latter replaces prometheus.yml"
    for source in copied.values():
        assert in_checkout(f"/opt/dlx/{source}") in {SHIPPED, monitoring}
    assert scrape["static_configs"] == [{"targets": ["job:9419"]}]
    assert front["static_configs"] == [{"targets": ["amqp:15692"]}]
    assert front["job_name"] != scrape["job_name"], "DlxJobDown knows the job by it"
    assert [(SHIPPED / name).is_file() for name in prometheus["rule_files"]] == [True]
    for name in ("prometheus", "grafana"):
        assert mounts(SERVICES[name])["/etc/dlx"] == ("monitoring", True)
    assert "--config.file=/etc/dlx/prometheus.yml" in SERVICES["prometheus"]["command"]
    assert SERVICES["grafana"]["environment"]["GF_PATHS_PROVISIONING"] == "/etc/dlx/grafana"
    assert dashboards["options"] == {"path": "/etc/dlx"}
    assert (grafana / "datasources" / "dlx.yml").is_file()


def test_the_configuration_of_the_host_names_kafkas_port_and_the_vhosts_of_the_job():
    [(_, _, port, _)] = published(KAFKA)
    config = load_config(CHECKOUT / "docker" / "host.toml")

    assert [*config.kafka.bootstrap_servers] == [f"localhost:{port}"]
    assert config.vhosts == load_config(CONFIG).vhosts


def test_the_command_for_the_host_publishes_where_a_client_of_the_wire_format_may():
    config = CHECKOUT / "docker" / "host.toml"
    [command] = re.findall(r"^#   \./(dlx publish .*)$", config.read_text("utf-8"), re.MULTILINE)
    _dlx, name, *arguments = command.split()
    group = typer.main.get_group(build_app())
    found = group.get_command(group.make_context("dlx", [name]), name)
    assert found is not None

    at = arguments.index("--config") + 1
    assert CHECKOUT / arguments[at] == config
    arguments[at] = str(config)
    parsed = found.make_context(name, arguments).params

    assert parsed["vhost"] == traffic_vhost(load_config(config))
    assert f"./{command}\n" in (CHECKOUT / "docs" / "docker.md").read_text("utf-8")


COMPOSE_TOOLS = (["docker", "compose"], ["docker-compose"])


@pytest.mark.parametrize("tool", COMPOSE_TOOLS, ids=" ".join)
def test_compose_reads_the_file_as_these_tests_do(tool):
    if (
        shutil.which(tool[0]) is None
        or subprocess.run([*tool, "version"], capture_output=True, check=False).returncode != 0
    ):
        pytest.skip(f"{' '.join(tool)} is not installed")

    finished = subprocess.run(
        [*tool, "--file", str(CHECKOUT / "docker-compose.yml"), "config"],
        env=os.environ | {"COMPOSE_PROFILES": "tools,observe,cluster"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert finished.returncode == 0, finished.stderr
    understood = yaml.safe_load(finished.stdout)
    assert understood["services"].keys() == SERVICES.keys()
    assert understood["volumes"].keys() == COMPOSE["volumes"].keys()
    for name, service in understood["services"].items():
        wanted = SERVICES[name].get("command")
        defaults = [re.sub(r"\$\{\w+:-(\d+)\}", r"\1", word) for word in wanted or ()]
        assert service.get("command") == (defaults or None)
