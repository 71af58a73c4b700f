"""The suites: where they come from, what they need, and how each is told which broker to use."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal
from urllib.parse import urlsplit

SUPPORT: Final = Path(__file__).with_name("support")
"""Fixtures of ours, for suites whose published archives lack theirs or whose own need Docker."""


@dataclass(frozen=True, slots=True)
class Broker:
    """Where a suite finds the broker: always user guest, password guest, vhost `/`."""

    url: str

    @property
    def host(self) -> str:
        """The host name or address."""
        return urlsplit(self.url).hostname or "127.0.0.1"

    @property
    def port(self) -> int:
        """The AMQP port."""
        return urlsplit(self.url).port or 5672


@dataclass(frozen=True, slots=True)
class PythonSuite:
    """Tests in a source distribution of PyPI, run by pytest in an environment of their own.

    Attributes:
        requirement: the distribution, pinned.
        tests: what pytest gets: files, and options.
        requirements: what the tests need besides.
        build: what its archive needs to be read.
        environment: variables that tell the tests where the broker is.
        support: files of `SUPPORT` that take a place in the archive, by that place.
        prepare: changes the unpacked sources where no variable reaches.
        needs_redis: a Redis server is started and named in `REDIS_PORT` and `TEST_BACKEND`.
        needs_management: they use the management API, on its usual port.
        archive: a source package of Debian that has the tests, with its version; None: PyPI has.
    """

    requirement: str
    tests: tuple[str, ...]
    requirements: tuple[str, ...]
    environment: Callable[[Broker], dict[str, str]]
    build: tuple[str, ...] = ("setuptools", "wheel")
    support: Mapping[str, str] = field(default_factory=dict)
    prepare: Callable[[Path, Broker], None] | None = None
    needs_redis: bool = False
    needs_management: bool = False
    archive: str | None = None


@dataclass(frozen=True, slots=True)
class GoSuite:
    """Tests of a Go module.

    Attributes:
        module: its path and version.
        file: whose tests are run; others of the package need no broker, or one with the
            management API on its usual port.
        options: further arguments of `go test`.
        variable: tells the tests where the broker is.
    """

    module: str
    file: str
    options: tuple[str, ...] = ()
    variable: str = "AMQP_URL"


@dataclass(frozen=True, slots=True)
class NodeSuite:
    """Tests in a package of npm, run by mocha; they take the broker from the variable `URL`.

    Attributes:
        package: its name and version.
        tests: files of tests.
        requirements: what the tests need besides the package's own dependencies.
        options: of mocha.
    """

    package: str
    tests: tuple[str, ...]
    requirements: tuple[str, ...]
    options: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ManagementSuite:
    """Tests of a client of the management API, which expect it on its usual port.

    Attributes:
        package: a Go module whose tests are Ginkgo's, a crate, or a Go module that is a provider
            of Terraform, with its version.
        vhost: a vhost that they expect, with all permissions for guest.
        user: a user that they expect, with its name as password and as tag, if it is one.
        options: further arguments of the test program.
    """

    package: str
    vhost: str
    user: str
    kind: Literal["ginkgo", "crate", "terraform"]
    options: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class JavaSuite:
    """Tests of JUnit, run by Maven with a project file of ours.

    Attributes:
        archive: a source package of Debian, with its version.
        pom: the project file, in `SUPPORT`.
        tests: patterns of their classes and methods, as for `-Dtest`.
    """

    archive: str
    pom: str
    tests: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RubySuite:
    """Specifications of RSpec.

    Attributes:
        archive: a source package of Debian, with its version.
        tests: files and folders.
        vhosts: that they expect, with their settings.
        users: that they expect, with passwords.
        permissions: of users that may not do everything in those vhosts.
    """

    archive: str
    tests: tuple[str, ...]
    vhosts: Mapping[str, Mapping[str, str]]
    users: Mapping[str, str]
    permissions: Mapping[str, Mapping[str, str]]


Suite = PythonSuite | GoSuite | NodeSuite | JavaSuite | RubySuite | ManagementSuite


def at_usual_ports(suite: Suite) -> bool:
    """Whether a suite knows no other ports than RabbitMQ's, and needs the management API."""
    if isinstance(suite, PythonSuite):
        return suite.needs_management
    return isinstance(suite, (ManagementSuite, JavaSuite, RubySuite))


def _host_and_port(broker: Broker) -> dict[str, str]:
    return {"RABBITMQ_HOST": broker.host, "RABBITMQ_5672_TCP": str(broker.port)}


def _dramatiq_broker(folder: Path, broker: Broker) -> None:
    """Its tests name 127.0.0.1 and leave the port to the client library."""
    (folder / "tests" / "__init__.py").touch()
    fixtures = "from .common import rabbitmq_broker, rabbitmq_worker\n"
    (folder / "tests" / "conftest.py").write_text(fixtures, "utf-8")
    file = folder / "tests" / "test_rabbitmq.py"
    text = file.read_text("utf-8")
    text = text.replace('@127.0.0.1"', f'@127.0.0.1:{broker.port}"')
    text = re.sub(
        r'host="127\.0\.0\.1",(\s*)(max_priority|credentials)',
        rf'host="127.0.0.1", port={broker.port},\1\2',
        text,
    )
    file.write_text(text, "utf-8")


def _aiorabbit_broker(folder: Path, broker: Broker) -> None:
    """Its tests read where the broker is from a file, and are a package without saying so."""
    (folder / "tests" / "__init__.py").touch()
    (folder / "build").mkdir(exist_ok=True)
    environment = f"RABBITMQ_URI={broker.url.rstrip('/')}/%2f\n"
    (folder / "build" / "test-environment").write_text(environment, "utf-8")


def _pika_broker(folder: Path, broker: Broker) -> None:
    """Its tests name the port."""
    for path in ("tests/acceptance/blocking_adapter_test.py", "tests/base/async_test_base.py"):
        file = folder / path
        file.write_text(file.read_text("utf-8").replace("5672", str(broker.port)), "utf-8")


_PYTEST: Final = ("pytest>=8,<9", "pytest-timeout", "pytest-rerunfailures", "setuptools<81")

SUITES: Final[dict[str, Suite]] = {
    "rabbit-hole": ManagementSuite(
        "github.com/michaelklishin/rabbit-hole/v3@v3.2.0", "rabbit/hole", "policymaker", "ginkgo"
    ),
    "rabbitmq-http-client": ManagementSuite(
        "rabbitmq_http_client@0.91.0",
        "rust/http/api/client",
        "rust3",
        "crate",
        ("--all-features",),
    ),
    "rabbitmqadmin": ManagementSuite(
        "rabbitmqadmin@2.35.0", "rust/http/api/client", "rust3", "crate"
    ),
    "terraform": ManagementSuite(
        "github.com/cyrilgdn/terraform-provider-rabbitmq@v1.8.0", "test", "management", "terraform"
    ),
    "amqp091-go": GoSuite(
        "github.com/rabbitmq/amqp091-go@v1.16.0", "integration_test.go", ("-tags", "integration")
    ),
    "streadway": GoSuite(
        "github.com/streadway/amqp@v1.1.0", "integration_test.go", ("-tags", "integration")
    ),
    "watermill": GoSuite(
        "github.com/ThreeDotsLabs/watermill-amqp/v3@v3.0.2",
        "pkg/amqp/pubsub_test.go",
        ("-short",),
        variable="WATERMILL_TEST_AMQP_URI",
    ),
    "java-client": JavaSuite(
        "rabbitmq-java-client=5.0.0-2",
        "java_client_pom.xml",
        (
            "com/rabbitmq/client/test/functional/*",
            *("AbsentQueue", "AlternateExchangeEquivalence", "Bug20004Test", "Permissions"),
            *("PriorityQueues", "TopicPermissions", "XDeathHeaderGrowth"),
            "!FunctionalTests",
            "!ConnectionRecovery#blockedListenerRecovery",  # it limits the memory of a node
            "!ConnectionRecovery#connectionRecoveryWithServerRestart",  # these restart a node
            "!ConnectionRecovery#clientNamedTransientAutoDeleteQueueAndBindingRecovery",
            "!ConnectionRecovery#serverNamedTransientAutoDeleteQueueAndBindingRecovery",
            "!PerMessageTTL#restartingExpiry",
            "!PerQueueVsPerMessageTTL#restartingExpiry",
        ),
    ),
    "bunny": RubySuite(
        "ruby-bunny=2.23.0-1",
        ("spec/higher_level_api", "spec/lower_level_api", "spec/issues"),
        {
            "bunny_testbed": {},
            "bunny_dqt_classic": {"default_queue_type": "classic"},
            "bunny_dqt_quorum": {"default_queue_type": "quorum"},
        },
        {"bunny_gem": "bunny_password", "bunny_reader": "reader_password"},
        {"bunny_reader": {"configure": "^---$", "write": "^---$", "read": ".*"}},
    ),
    "amqplib": NodeSuite(
        "amqplib@0.10.9",  # later ones have tests for another runner, or none
        ("test/channel_api.js", "test/callback_api.js", "test/connect.js"),
        ("mocha@9", "claire@0.4.1"),
        ("--ui", "tdd"),
    ),
    "kombu": PythonSuite(
        "kombu==5.7.0",
        ("t/integration/test_py_amqp.py",),
        (*_PYTEST, "amqp==5.4.2"),
        _host_and_port,
    ),
    "py-amqp": PythonSuite("amqp==5.4.2", ("t/integration/test_rmq.py",), _PYTEST, _host_and_port),
    "celery": PythonSuite(
        "celery==5.7.0",
        ("t/integration/test_canvas.py", "t/integration/test_tasks.py"),
        (
            *_PYTEST,
            "redis",
            "pytest-celery>=1.3",
            "pytest-subtests",
            "pydantic",
            "tblib",
            "msgpack",
        ),
        lambda broker: {
            "TEST_BROKER": f"pyamqp://guest:guest@{broker.host}:{broker.port}//",
            "C_FORCE_ROOT": "1",
        },
        needs_redis=True,
    ),
    "dramatiq": PythonSuite(
        "dramatiq==2.2.1",
        ("tests/test_rabbitmq.py",),
        (*_PYTEST, "dramatiq[rabbitmq]==2.2.1"),
        lambda broker: {
            "RABBITMQ_USERNAME": "guest",
            "RABBITMQ_PASSWORD": "guest",
            **_host_and_port(broker),
        },
        support={"tests/common.py": "dramatiq_common.py"},
        prepare=_dramatiq_broker,
    ),
    "aio-pika": PythonSuite(
        "aio-pika==9.6.2",
        ("tests", "--ignore=tests/test_amqps.py"),  # the same tests once more, through TLS
        (*_PYTEST, "aiomisc>=18", "aiomisc-pytest", "shortuuid", "pytest-rst"),
        _host_and_port,
        build=("uv_build>=0.9.26,<0.10",),
        support={"tests/docker_client.py": "aio_pika_docker_client.py"},
    ),
    "aiormq": PythonSuite(
        "aiormq==7.2.4",
        ("tests", "-k", "not amqps and not ssl"),  # through TLS
        (*_PYTEST, "aiomisc-pytest>=2,<3", "uvloop"),
        _host_and_port,
        build=("uv_build>=0.12.19,<0.13",),
        support={"conftest.py": "aiormq_conftest.py"},
    ),
    "nameko": PythonSuite(
        "nameko==2.14.1",
        (
            *("test/amqp", "test/standalone", "test/test_broker.py", "test/test_events.py"),
            *("test/test_messaging.py", "test/test_queue_consumer.py", "test/test_rpc.py"),
            *("-k", "not ssl and not login"),  # through TLS
        ),
        (
            "pytest>=7,<8",
            "pytest-timeout",
            "pytest-eventlet",
            "websocket-client",
            "mock",
            "werkzeug<2.1",
            "setuptools<81",
        ),
        lambda _broker: {},
        needs_management=True,
    ),
    "oslo.messaging": PythonSuite(
        "oslo.messaging==18.3.1",
        (
            "oslo_messaging/tests/functional",
            "--ignore=oslo_messaging/tests/functional/test_rabbitmq.py",  # stops and starts nodes
        ),
        (*_PYTEST, "oslotest", "testscenarios", "fixtures"),
        lambda broker: {
            "RPC_TRANSPORT_URL": f"rabbit://guest:guest@{broker.host}:{broker.port}/",
            "NOTIFY_TRANSPORT_URL": f"rabbit://guest:guest@{broker.host}:{broker.port}/",
        },
        build=("pbr", "setuptools", "wheel"),
    ),
    "pika": PythonSuite(
        "pika==1.3.2",
        ("-o", "python_files=*test*.py", "tests/acceptance"),
        (*_PYTEST, "tornado", "twisted", "gevent", "nose"),
        lambda _broker: {},
        prepare=_pika_broker,
        archive="python-pika=1.3.2-1",
    ),
    "aiorabbit": PythonSuite(
        "aiorabbit==1.0.3", ("tests",), _PYTEST, lambda _broker: {}, prepare=_aiorabbit_broker
    ),
    "rabbitpy": PythonSuite(
        "rabbitpy==3.0.2",
        ("tests/test_integration.py", "tests/integration"),
        (*_PYTEST, "python-dotenv"),
        lambda broker: {"RABBITMQ_URL": f"{broker.url.rstrip('/')}/%2f"},
        build=("hatchling", "setuptools", "wheel"),
    ),
}
