"""A Kafka with TLS and passwords: job and clients log on, and the secrets appear nowhere.

It also has ACLs. The job and most clients are superusers; one client is not.
"""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import msgspec
import pytest
import trustme
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from streaming.client import Address, Connection, KafkaUnreachableError
from streaming.client._transport.liveness import SILENT_S
from streaming.client.address import address_of
from streaming.config.kafka import KafkaSettings
from streaming.config.secrets import Secret
from streaming.embedded.kafka.broker import EmbeddedKafka
from streaming.embedded.kafka.broker_properties import BrokerLimits
from streaming.embedded.kafka.ports import LOOPBACK, free_port
from tests.fixtures.dlx_run import DlxRun
from tests.fixtures.pipeline import Pipeline
from tests.fixtures.waiting import WAIT_S

PASSWORD = "hunter2-is-not-the-word"  # noqa: S105 - of a broker that runs for a minute
VARIABLE = "DLX_TEST_PASSWORD"
TENANT = "tenant"
BODY = b"over a private line"


class SecureKafka:
    """A broker with a SASL_SSL listener, and the settings of its users."""

    def __init__(self, root: Path) -> None:
        authority = trustme.CA()
        self.authority = root / "authority.pem"
        authority.cert_pem.write_to_path(str(self.authority))
        issued = authority.issue_cert(LOOPBACK)
        key = load_pem_private_key(issued.private_key_pem.bytes(), None).private_bytes(
            Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
        )
        store = root / "broker.pem"
        store.write_bytes(key + b"".join(each.bytes() for each in issued.cert_chain_pems))
        plain, control, secure = (free_port() for _ in range(3))
        self.plain = f"{LOOPBACK}:{plain}"
        self.servers = f"{LOOPBACK}:{secure}"
        named = "listener.name.secure"
        properties = {
            "listeners": f"PLAINTEXT://{LOOPBACK}:{plain},CONTROLLER://{LOOPBACK}:{control},"
            f"SECURE://{self.servers}",
            "advertised.listeners": f"PLAINTEXT://{LOOPBACK}:{plain},SECURE://{self.servers}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,"
            "SECURE:SASL_SSL",
            "controller.quorum.voters": f"1@{LOOPBACK}:{control}",
            f"{named}.sasl.enabled.mechanisms": "PLAIN",
            f"{named}.plain.sasl.jaas.config": "org.apache.kafka.common.security.plain."
            f'PlainLoginModule required user_dlx="{PASSWORD}" user_{TENANT}="{PASSWORD}";',
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:dlx;User:ANONYMOUS",
            f"{named}.ssl.keystore.type": "PEM",
            f"{named}.ssl.keystore.location": str(store),
        }
        self.kafka = EmbeddedKafka(
            root / "kafka", port=plain, limits=BrokerLimits(properties=properties)
        )

    def settings(self) -> KafkaSettings:
        return KafkaSettings(
            bootstrap_servers=(self.servers,),
            security={
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": "PLAIN",
                "sasl.username": "dlx",
                "sasl.password": Secret("env", VARIABLE),
                "ssl.ca.location": str(self.authority),
            },
        )

    def allow(self, topic: str, *operations: AclOperation) -> None:
        """Allow the tenant an operation on a topic."""
        what = ResourceType.TOPIC, topic, ResourcePatternType.LITERAL, f"User:{TENANT}", "*"
        rules = [AclBinding(*what, each, AclPermissionType.ALLOW) for each in operations]
        admin = AdminClient({"bootstrap.servers": self.plain, "log_level": 0})
        for made in admin.create_acls(rules).values():
            made.result()


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureKafka]:
    secure = SecureKafka(tmp_path_factory.mktemp("secure"))
    with secure.kafka:
        yield secure


class Command:
    """`dlx run` with a password in its environment, and clients of it."""

    def __init__(self, root: Path, secure: SecureKafka) -> None:
        self.servers = secure.servers
        self.config = Pipeline(root, secure.plain, kafka=secure.settings()).config
        self.run = DlxRun(root, self.config)

    def connect(self, password: str, timeout_s: float = WAIT_S) -> Connection:
        environ = {VARIABLE: password}
        return Connection.from_config(self.run.file, environ=environ, timeout_s=timeout_s)

    def connect_without_the_file(self, password: str, timeout_s: float = WAIT_S) -> Connection:
        """Connect as a service does that knows Kafka's address and its own password."""
        security = {**self.config.kafka.security, "sasl.password": password}
        kafka = {name: str(value) for name, value in security.items()}
        return Connection(self.servers, kafka=kafka, timeout_s=timeout_s)

    def tenant(self) -> Address:
        """The configuration of a client whose user is subject to ACLs."""
        address = address_of(self.config, environ={VARIABLE: PASSWORD})
        kafka = {**address.kafka, "sasl.username": TENANT}
        return msgspec.structs.replace(address, kafka=kafka)


@pytest.fixture
def command(tmp_path: Path, secure: SecureKafka) -> Iterator[Command]:
    command = Command(tmp_path, secure)
    yield command
    command.run.kill()


def contents(root: Path) -> Iterator[tuple[str, bytes]]:
    """All files of a job with their contents; for tables, their rows."""
    for path in sorted(root.rglob("*")):
        if path.is_file():
            yield str(path), path.read_bytes()
            if path.suffix == ".parquet":
                rows: Any = duckdb.sql(f"select * from read_parquet('{path}')")
                yield f"rows of {path}", repr(rows.fetchall()).encode()


def works_without_the_heartbeat(address: Address, secure: SecureKafka) -> None:
    """An ACL first hides the topic from the tenant, then shows it without allowing to read it."""
    for topic in (address.publishes, address.commands):
        secure.allow(topic, AclOperation.DESCRIBE, AclOperation.WRITE)
    secure.allow(address.outbound, AclOperation.DESCRIBE, AclOperation.READ)
    with Connection(address, timeout_s=WAIT_S) as hidden:
        secure.allow(address.alive, AclOperation.DESCRIBE)
        with Connection(address, timeout_s=WAIT_S) as seen:
            time.sleep(SILENT_S + 1)  # longer than the pause allowed between heartbeats
            for connection in (hidden, seen):
                assert connection.outage == ""
                connection.publisher().publish("", "work", BODY).result(WAIT_S)


@pytest.mark.long
def test_job_and_clients_log_on_and_the_password_appears_nowhere(command, secure, tmp_path):
    command.run.start({VARIABLE: PASSWORD})
    with command.connect(PASSWORD) as connection, connection.channel() as channel:
        channel.declare_queue("work")
        connection.publisher().publish("", "work", BODY).result(WAIT_S)
        delivery = channel.get("work", auto_ack=True)
        assert delivery is not None
        assert delivery.body == BODY
    with command.connect_without_the_file(PASSWORD) as connection:
        assert connection.address.commands == command.tenant().commands
        connection.publisher().publish("", "work", BODY).result(WAIT_S)
    works_without_the_heartbeat(command.tenant(), secure)
    command.run.stop()

    written = dict(contents(tmp_path))
    assert [name for name, data in written.items() if PASSWORD.encode() in data] == []
    assert any("rows of" in name and BODY in data for name, data in written.items())
    assert PASSWORD not in repr(command.config)


@pytest.mark.long
def test_a_wrong_password_is_refused_without_repeating_it(command):
    wrong = "not-" + PASSWORD
    assert command.run.begin({VARIABLE: wrong}).wait(WAIT_S) == 2
    said = command.run.log.read_text()
    assert f"kafka.bootstrap_servers: no answer from {command.servers}" in said
    assert "uthentication failed" in said
    assert "are user, password and certificates right (kafka.security)?" in said
    assert wrong not in said
    assert "Traceback" not in said

    with pytest.raises(KafkaUnreachableError, match="uthentication failed") as refused:
        command.connect(wrong, timeout_s=5)
    assert wrong not in str(refused.value)
    with pytest.raises(KafkaUnreachableError, match="uthentication failed") as refused:
        command.connect_without_the_file(wrong, timeout_s=5)
    assert wrong not in str(refused.value)
