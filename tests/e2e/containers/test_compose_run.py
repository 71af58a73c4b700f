"""docker-compose.yml, run for real: every profile, in a checkout that was made with umask 077.

It needs root, Debian's docker.io, docker-compose, debootstrap and prometheus, the network, 6 GB of
disk and some twenty minutes, so it runs on request only: DLX_TEST_CONTAINERS=1.
"""

import base64
import json
import os
import re
import subprocess
import sys
from urllib.request import Request, urlopen

import pika
import pytest
import yaml  # type: ignore[import-untyped]

from streaming.embedded.kafka.ports import free_port
from tests.e2e.containers.engine import (
    CHECKOUT,
    Engine,
    build_images,
    checkout_with_umask_077,
    missing,
    use_base,
)
from tests.fixtures.waiting import wait_until

PORTS = ("KAFKA", "AMQP", "METRICS", "CLUSTER_METRICS", "CONSOLE", "PROMETHEUS", "GRAFANA")
ALL = ("observe", "tools", "cluster")
HEALTHY_S = 600.0
CRASH_AFTER_S = 25
"""Longer than two checks of the job."""

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(3_000),
    pytest.mark.skipif(
        not os.environ.get("DLX_TEST_CONTAINERS"), reason="takes twenty minutes and 6 GB of disk"
    ),
]


class Compose:
    """docker-compose in the copy of the checkout, with ports of its own."""

    def __init__(self, engine, folder):
        self.engine, self.folder = engine, folder
        self.ports = {name: free_port() for name in PORTS}
        self.profiles: list[str] = []

    def __call__(self, *arguments, profiles=()):
        chosen = [word for name in profiles for word in ("--profile", name)]
        more = {f"DLX_{name}_PORT": str(port) for name, port in self.ports.items()}
        return self.engine.run(
            "docker-compose", "--ansi", "never", *chosen, *arguments, cwd=self.folder, more=more
        )

    def inspect(self, service):
        """What the engine knows of a service's container."""
        container = self("ps", "--all", "--quiet", service, profiles=ALL).split()
        return json.loads(self.engine.run("docker", "inspect", *container))[0]

    def state(self, service):
        return self.inspect(service)["State"]

    def is_healthy(self, *services):
        return all(self.state(name)["Health"]["Status"] == "healthy" for name in services)

    def get(self, name, path, login=""):
        """The answer at a published port; login is USER:PASSWORD."""
        return _get(self.ports[name], path, login)


def _get(port, path, login=""):
    headers = {"Authorization": "Basic " + base64.b64encode(login.encode()).decode()}
    request = Request(f"http://localhost:{port}{path}", headers=headers if login else {})
    with urlopen(request, timeout=60) as answer:  # noqa: S310 - http
        return answer.read().decode()


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """An engine with the base of the images, and a copy of the checkout."""
    if missing():
        pytest.fail("; ".join(missing()))
    folder = tmp_path_factory.mktemp("engine")
    with Engine(folder) as engine:
        checkout = checkout_with_umask_077(folder)
        use_base(engine, checkout)
        yield engine, checkout


@pytest.fixture(scope="module")
def compose(prepared):
    engine, checkout = prepared
    build_images(engine, checkout)
    running = Compose(engine, checkout)
    yield running
    running("down", "--volumes", "--timeout", "60", profiles=ALL)


def test_the_image_for_tests_serves_clients_as_its_page_says(prepared):
    """`docker/README.md`: its command, its example of a compose file, and its end."""
    engine, checkout = prepared
    page = (checkout / "docker" / "README.md").read_text("utf-8")
    [build] = re.findall(r"`(docker build -f docker/Dockerfile\.memory [^`]+)`", page)
    engine.run(*build.split(), "--network", "host", cwd=checkout)
    [example] = re.findall(r"```yaml\n(services:\n.*?)```", page, re.DOTALL)
    amqp, management = free_port(), free_port()
    for port, free in ((5672, amqp), (15672, management)):
        example = example.replace(f"127.0.0.1:{port}:", f"127.0.0.1:{free}:")
    folder = checkout / "tests-of-a-user"
    folder.mkdir()
    (folder / "docker-compose.yml").write_text(example, "utf-8")

    def theirs(*arguments):
        return engine.run("docker-compose", "--ansi", "never", *arguments, cwd=folder)

    theirs("up", "--detach")
    [container] = theirs("ps", "--quiet").split()

    def state():
        return json.loads(engine.run("docker", "inspect", container))[0]["State"]

    wait_until(lambda: state()["Health"]["Status"] == "healthy", timeout_s=HEALTHY_S, pause_s=1)
    url = f"amqp://shop:secret@localhost:{amqp}/orders"
    with pika.BlockingConnection(pika.URLParameters(url)) as connection:
        connection.channel().queue_declare("work")
    listed = json.loads(_get(management, "/api/queues", login="shop:secret"))
    theirs("stop")
    said, exit_code = theirs("logs", "--no-color"), state()["ExitCode"]
    theirs("down")

    assert [(each["vhost"], each["name"]) for each in listed] == [("orders", "work")]
    assert "Server startup complete" in said
    assert exit_code == 0


def test_the_demo_comes_up_healthy_and_messages_flow(compose):
    compose("up", "--detach", "--no-build")

    services = ("kafka", "job", "amqp", "demo")
    wait_until(lambda: compose.is_healthy(*services), timeout_s=HEALTHY_S, pause_s=2)
    wait_until(lambda: "dlx_dead_letters_total{" in compose.get("METRICS", "/metrics"))

    assert compose.get("METRICS", "/readyz") == "ok\n"
    wait_until(lambda: 'queue="invoices"' in compose.get("METRICS", "/metrics/per-object"))


def test_a_client_of_rabbitmq_is_served_at_the_opened_port_without_further_settings(compose):
    where = pika.ConnectionParameters("localhost", int(compose.ports["AMQP"]))
    with pika.BlockingConnection(where) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("from-outside", durable=True)
        channel.basic_publish("", "from-outside", b"order 1", mandatory=True)
        _method, _properties, body = channel.basic_get("from-outside", auto_ack=True)

    assert body == b"order 1"

    def listed():
        said = compose("run", "--rm", "-T", "tools", "queues", "list", "--json", "--vhost", "/")
        return [json.loads(line)["queue"] for line in said.splitlines() if line.startswith("{")]

    wait_until(lambda: listed() == ["from-outside"], listed, timeout_s=120, pause_s=2)


def test_a_tool_and_the_sql_shell_see_the_tables(compose):
    listed = compose("run", "--rm", "-T", "tools", "queues", "list", "--json")
    asked = compose(
        "run", "--rm", "-T", "sql", "spark", "sql", "-e", "SELECT count(*) AS n FROM messages"
    )

    version = compose("run", "--rm", "-T", "--entrypoint", "dlx", "tools", "--version")
    found = compose("run", "--rm", "-T", "tools", "doctor", "-o", "json")

    queues = {json.loads(line)["queue"] for line in listed.splitlines() if line.startswith("{")}
    assert {"payments", "invoices", "parking-lot"} <= queues
    assert re.search(r"^[1-9][0-9]*$", asked, re.MULTILINE)
    assert re.search(r"^dlx [0-9.]+, Python ", version, re.MULTILINE)
    checks = [json.loads(line) for line in found.splitlines() if line.startswith("{")]
    assert [each for each in checks if each["status"] == "fail"] == []
    assert "the job runs" in str(checks)


def test_a_command_on_the_host_reaches_the_job(compose):
    given = (compose.folder / "docker" / "host.toml").read_text("utf-8")
    config = compose.folder / "docker" / "host.test.toml"
    config.write_text(given.replace("9092", str(compose.ports["KAFKA"])), "utf-8")
    [example] = re.findall(r"^#   \./dlx (.*) --config docker/host\.toml$", given, re.MULTILINE)

    done = subprocess.run(
        [sys.executable, "-m", "streaming.cli", *example.split(), "--config", str(config)],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode, done.stdout) == (0, "1 confirmed\n"), done.stderr


def test_console_prometheus_and_grafana_come_up_and_know_the_job(compose):
    compose("up", "--detach", "--no-build", profiles=["observe"])

    names = ("console", "prometheus", "grafana")
    wait_until(lambda: compose.is_healthy(*names), timeout_s=HEALTHY_S, pause_s=2)

    assert compose.state("monitoring")["ExitCode"] == 0
    files = json.loads(compose.get("GRAFANA", "/api/health"))["files"]
    assert {"dlx-job.json", "dlx-dead-letters.json", "dlx.yml"} <= set(files)
    rules = json.loads(compose.get("PROMETHEUS", "/api/v1/rules"))["data"]["groups"]
    assert [rule["name"] for group in rules for rule in group["rules"]]
    wait_until(lambda: _is_up(compose), timeout_s=120)
    logs = compose("logs", "--no-color", "console", profiles=["observe"])
    address = f"console: http://localhost:{compose.ports['CONSOLE']}/"
    [password] = re.findall(f"{address} user dlx password (\\S+)", logs)
    page = compose.get("CONSOLE", "/search", login=f"dlx:{password}")
    assert "<h1>Search</h1>" in page


def _is_up(compose):
    answer = json.loads(compose.get("PROMETHEUS", "/api/v1/query?query=up"))["data"]["result"]
    return {series["metric"]["job"]: series["value"][1] for series in answer} == {
        "dlx": "1",
        "rabbitmq": "1",
    }


def test_a_job_that_starts_again_and_again_is_not_healthy(compose):
    """Its tables and topics survive in volumes, and each start lasts long enough for a check."""
    override = compose.folder / "crash.yml"
    job = {"entrypoint": ["sh", "-c", f"sleep {CRASH_AFTER_S}; exit 1"], "command": []}
    override.write_text(yaml.safe_dump({"services": {"job": job}}), "utf-8")
    files = ("--file", "docker-compose.yml", "--file", str(override))
    compose(*files, "up", "--detach", "--no-build", "--no-deps", "job")
    checks: set[str] = set()
    seen: set[str] = set()

    def starts():
        found = compose.inspect("job")
        seen.add(found["State"]["Health"]["Status"])
        checks.update(each["Start"] for each in found["State"]["Health"]["Log"])
        return found["RestartCount"]

    wait_until(lambda: starts() > 1, timeout_s=HEALTHY_S, pause_s=1)

    assert len(checks) > 1
    assert "healthy" not in seen


def test_a_job_without_kafka_is_not_healthy(compose):
    compose("stop", "kafka")
    compose("up", "--detach", "--no-build", "--no-deps", "job")

    wait_until(lambda: compose.state("job")["Health"]["Log"] != [], timeout_s=HEALTHY_S, pause_s=2)

    assert not compose.is_healthy("job")


def test_containers_stop_in_order_and_resume(compose):
    compose("up", "--detach", "--no-build")
    wait_until(lambda: compose.is_healthy("kafka", "job", "demo"), timeout_s=HEALTHY_S, pause_s=2)

    compose("stop", "job")

    assert compose.state("job")["ExitCode"] == 0
    assert "stopped; run the same command to resume" in compose("logs", "--no-color", "job")


def test_the_cluster_comes_up_healthy_and_messages_flow(compose):
    compose("down", "--timeout", "60", profiles=ALL)
    compose("up", "--detach", "--no-build", "cluster-demo", profiles=["cluster"])

    names = ("kafka-1", "kafka-2", "kafka-3", "store", "cluster-job", "cluster-demo")
    wait_until(lambda: compose.is_healthy(*names), timeout_s=HEALTHY_S, pause_s=2)

    def figures():
        return compose.get("CLUSTER_METRICS", "/metrics/per-object")

    wait_until(lambda: 'queue="invoices"' in figures(), figures, timeout_s=HEALTHY_S, pause_s=2)
    assert compose.get("CLUSTER_METRICS", "/readyz") == "ok\n"


def test_the_job_of_the_cluster_survives_the_loss_of_a_worker_and_of_a_kafka(compose):
    def published():
        [count] = re.findall(
            r"^rabbitmq_global_messages_received_total\S* ([0-9.]+)",
            compose.get("CLUSTER_METRICS", "/metrics"),
            re.MULTILINE,
        )[:1]
        return float(count)

    compose("stop", "--timeout", "30", "spark-worker-2", "kafka-3", profiles=["cluster"])
    before = published()

    wait_until(lambda: published() > before, timeout_s=HEALTHY_S, pause_s=2)

    assert compose.state("cluster-job")["Running"]
