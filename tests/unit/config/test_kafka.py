"""`[kafka]`: the cluster, and the two clients that connect to it."""

from pathlib import Path

import pytest
import trustme

from streaming.config import (
    InvalidConfigError,
    KafkaSettings,
    Secret,
    jvm_properties,
    librdkafka_properties,
    load_config,
)
from streaming.config.secrets import Property

PASSWORD = {"KAFKA_PASSWORD": 'p"a\\ss'}


def kafka(**security: Property) -> KafkaSettings:
    return KafkaSettings(security={name.replace("_", "."): text for name, text in security.items()})


@pytest.mark.parametrize(
    "address",
    ["localhost:9092", "kafka-1.example.org:1", "10.0.0.1:65535", "[::1]:9092", "my_host:9092"],
)
def test_a_server_is_a_host_and_a_port(address):
    assert KafkaSettings(bootstrap_servers=(address,)).bootstrap_servers == (address,)


@pytest.mark.parametrize(
    ("address", "fault"),
    [
        ("", "must be HOST:PORT"),
        ("localhost", "must be HOST:PORT"),
        ("localhost:", "must be HOST:PORT"),
        ("::1:9092", "must be HOST:PORT"),
        ("PLAINTEXT://localhost:9092", "must be HOST:PORT"),
        ("localhost:0", "needs a port from 1 to 65535"),
        ("localhost:65536", "needs a port from 1 to 65535"),
    ],
)
def test_another_address_is_refused(address, fault):
    with pytest.raises(InvalidConfigError) as caught:
        KafkaSettings(bootstrap_servers=("a:1", address))

    assert str(caught.value) == f"bootstrap_servers[1]: {fault}"


def test_at_least_one_server_is_required():
    with pytest.raises(InvalidConfigError) as caught:
        KafkaSettings(bootstrap_servers=())

    assert str(caught.value) == "bootstrap_servers: is empty: name at least one server"


def test_a_replication_factor_of_zero_is_refused():
    with pytest.raises(InvalidConfigError) as caught:
        KafkaSettings(replication_factor=0)

    assert str(caught.value) == "replication_factor: must be -1, or 1 or more"


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("bootstrap.servers", "is written as kafka.bootstrap_servers"),
        ("client.id", "is written as kafka.client_id"),
        ("message.max.bytes", "is written as kafka.max_message_bytes"),
        ("isolation.level", "is set by the job"),
        ("enable.auto.commit", "is set by the job"),
        ("transactional.id", "is set by the job"),
        ("value.deserializer", "is set by the job"),
    ],
)
def test_properties_that_the_job_sets_cannot_be_passed_through(name, fault):
    with pytest.raises(InvalidConfigError) as caught:
        KafkaSettings(jvm_properties={name: "x"}, librdkafka_properties={name: "x"})

    assert [str(problem) for problem in caught.value.problems] == [
        f'jvm_properties."{name}": {fault}',
        f'librdkafka_properties."{name}": {fault}',
    ]


def test_without_security_a_client_needs_the_servers_alone():
    settings = KafkaSettings(bootstrap_servers=("a:1", "b:2"), client_id="shop")

    assert librdkafka_properties(settings, {}) == {
        "bootstrap.servers": "a:1,b:2",
        "client.id": "shop",
        "message.max.bytes": "2097152",
        "reconnect.backoff.max.ms": "1000",
    }
    assert jvm_properties(settings, {}) == {"bootstrap.servers": "a:1,b:2", "client.id": "shop"}


def test_librdkafka_gets_the_security_settings_unchanged():
    settings = kafka(
        security_protocol="sasl_ssl",
        sasl_mechanism="PLAIN",
        sasl_username="dlx",
        sasl_password=Secret("env", "KAFKA_PASSWORD"),
        ssl_ca_location="probe",
    )

    assert librdkafka_properties(settings, PASSWORD) == {
        "bootstrap.servers": "localhost:9092",
        "client.id": "dlx",
        "message.max.bytes": "2097152",
        "reconnect.backoff.max.ms": "1000",
        "security.protocol": "sasl_ssl",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "dlx",
        "sasl.password": 'p"a\\ss',
        "ssl.ca.location": "probe",
    }


@pytest.mark.parametrize(
    ("mechanism", "module"),
    [
        ("PLAIN", "org.apache.kafka.common.security.plain.PlainLoginModule"),
        ("SCRAM-SHA-256", "org.apache.kafka.common.security.scram.ScramLoginModule"),
        ("SCRAM-SHA-512", "org.apache.kafka.common.security.scram.ScramLoginModule"),
    ],
)
def test_a_user_name_and_password_become_a_jaas_line(mechanism, module):
    settings = kafka(
        security_protocol="sasl_plaintext",
        sasl_mechanism=mechanism,
        sasl_username="d l",
        sasl_password=Secret("env", "KAFKA_PASSWORD"),
    )

    assert jvm_properties(settings, PASSWORD) == {
        "bootstrap.servers": "localhost:9092",
        "client.id": "dlx",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": rf'{module} required username="d l" password="p\"a\\ss";',
    }


def test_the_jaas_line_is_masked_in_a_repr():
    settings = kafka(sasl_mechanism="PLAIN", sasl_password=Secret("env", "KAFKA_PASSWORD"))

    assert "ss" not in repr(jvm_properties(settings, PASSWORD)["sasl.jaas.config"])


def test_certificates_in_pem_files_serve_the_jvm_too(tmp_path: Path):
    (tmp_path / "ca.pem").write_text("CA\n")
    (tmp_path / "chain.pem").write_text("CHAIN\n")
    (tmp_path / "key.pem").write_text("KEY\n")
    settings = kafka(
        security_protocol="SSL",
        ssl_ca_location=str(tmp_path / "ca.pem"),
        ssl_certificate_location=str(tmp_path / "chain.pem"),
        ssl_key_location=str(tmp_path / "key.pem"),
        ssl_key_password=Secret("env", "KAFKA_PASSWORD"),
        ssl_endpoint_identification_algorithm="none",
    )

    properties = jvm_properties(settings, PASSWORD)

    assert properties == {
        "bootstrap.servers": "localhost:9092",
        "client.id": "dlx",
        "security.protocol": "SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": "CA\n",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": "CHAIN\n",
        "ssl.keystore.key": "KEY\n",
        "ssl.key.password": 'p"a\\ss',
        "ssl.endpoint.identification.algorithm": "",
    }
    assert repr(properties["ssl.keystore.key"]) == "'******'"


def test_clients_on_other_machines_get_the_contents_of_pem_files(tmp_path: Path):
    authority = trustme.CA()
    issued = authority.issue_cert("localhost")
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    other = trustme.CA().cert_pem.bytes()
    (tmp_path / "ca.pem").write_bytes(authority.cert_pem.bytes() + other)
    issued.private_key_pem.write_to_path(tmp_path / "key.pem")
    issued.cert_chain_pems[0].write_to_path(tmp_path / "chain.pem")
    paths = {name: str(tmp_path / f"{name}.pem") for name in ("ca", "key", "chain")}
    settings = kafka(
        security_protocol="SSL",
        ssl_ca_location=paths["ca"],
        ssl_certificate_location=paths["chain"],
        ssl_key_location=paths["key"],
    )

    here = librdkafka_properties(settings, {})
    elsewhere = librdkafka_properties(settings, {}, by_content=True)

    assert here["ssl.key.location"] == paths["key"]
    assert {name for name in elsewhere if name.startswith("ssl.")} == {
        "ssl.ca.pem",
        "ssl.certificate.pem",
        "ssl.key.pem",
    }
    assert elsewhere["ssl.ca.pem"] == Path(paths["ca"]).read_text()
    assert repr(elsewhere["ssl.key.pem"]) == "'******'"


@pytest.mark.parametrize("location", ["probe", "/etc"])
def test_an_authority_that_is_no_file_stays_a_place(location):
    settings = kafka(security_protocol="SSL", ssl_ca_location=location)

    found = librdkafka_properties(settings, {}, by_content=True)

    assert found["ssl.ca.location"] == location


def test_certificates_given_as_text_serve_the_jvm_too():
    settings = kafka(
        ssl_ca_pem="CA",
        ssl_certificate_pem="CHAIN",
        ssl_key_pem=Secret("env", "KAFKA_PASSWORD"),
    )

    assert jvm_properties(settings, PASSWORD) == {
        "bootstrap.servers": "localhost:9092",
        "client.id": "dlx",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": "CA",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": "CHAIN",
        "ssl.keystore.key": 'p"a\\ss',
    }


def test_security_settings_without_a_jvm_equivalent_are_refused(tmp_path: Path):
    (tmp_path / "der").write_bytes(b"\xff\xfe")
    settings = kafka(
        sasl_mechanism="GSSAPI",
        sasl_username="dlx",
        ssl_certificate_location=str(tmp_path / "missing"),
        ssl_key_location=str(tmp_path / "der"),
    )

    with pytest.raises(InvalidConfigError) as caught:
        jvm_properties(settings, {})

    assert [str(problem) for problem in caught.value.problems] == [
        f'kafka.security."ssl.certificate.location": cannot read {tmp_path}/missing: '
        "No such file or directory",
        f'kafka.security."ssl.key.location": cannot read {tmp_path}/der: it is not PEM text',
        'kafka.security."sasl.mechanism": must be one of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 if '
        "a user name or password is given",
    ]


def test_a_clients_own_properties_override_the_shared_ones():
    settings = KafkaSettings(
        security={"security.protocol": "ssl"},
        jvm_properties={"security.protocol": "SASL_SSL", "sasl.jaas.config": Secret("env", "J")},
        librdkafka_properties={"security.protocol": "plaintext", "linger.ms": "7"},
    )

    assert jvm_properties(settings, {"J": "jaas"}) == {
        "bootstrap.servers": "localhost:9092",
        "client.id": "dlx",
        "security.protocol": "SASL_SSL",
        "sasl.jaas.config": "jaas",
    }
    assert librdkafka_properties(settings, {}) == {
        "bootstrap.servers": "localhost:9092",
        "client.id": "dlx",
        "message.max.bytes": "2097152",
        "reconnect.backoff.max.ms": "1000",
        "security.protocol": "plaintext",
        "linger.ms": "7",
    }


@pytest.mark.parametrize("name", ["reconnect.backoff.ms", "reconnect.backoff.max.ms"])
def test_pauses_before_a_kafka_that_is_away_is_tried_again_are_the_users_if_any_is(name):
    found = librdkafka_properties(KafkaSettings(librdkafka_properties={name: "5000"}), {})

    assert {each: value for each, value in found.items() if "reconnect" in each} == {name: "5000"}


def test_librdkafka_knows_every_property_that_it_is_given():
    import confluent_kafka

    settings = kafka(
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="SCRAM-SHA-512",
        sasl_username="dlx",
        sasl_password=Secret("env", "KAFKA_PASSWORD"),
    )

    properties = librdkafka_properties(settings, PASSWORD) | {"bootstrap.servers": "127.0.0.1:1"}

    consumer = confluent_kafka.Consumer(properties | {"group.id": "x"})

    assert consumer.assignment() == []
    with pytest.raises(confluent_kafka.KafkaException):
        confluent_kafka.Consumer(properties | {"group.id": "x", "sasl.no.such": "x"})


def test_properties_that_librdkafka_refuses_are_found_when_the_file_is_read(tmp_path: Path):
    file = tmp_path / "dlx.toml"
    file.write_text(
        "[kafka.security]\n"
        'security.protocol = "SASL"\n'
        'sasl.mechanism = "PLAIN"\n'
        'sasl.password = { env = "NOWHERE" }\n'
        'ssl.ca.location = "not-here.pem"\n'
        "[kafka.librdkafka_properties]\n"
        'no.such = "5"\n'
        'linger.ms = "soon"\n'
        'default.topic.config = "no mapping"\n'
        'on_delivery = "no function"\n'
    )

    with pytest.raises(InvalidConfigError) as refused:
        load_config(file)

    assert [problem.where for problem in refused.value.problems] == [
        'kafka.security."security.protocol"',
        'kafka.librdkafka_properties."no.such"',
        'kafka.librdkafka_properties."linger.ms"',
        'kafka.librdkafka_properties."default.topic.config"',
        "kafka.librdkafka_properties.on_delivery",
    ]
    assert 'Invalid value "SASL" for configuration property' in str(refused.value)


def test_a_refusal_of_librdkafka_does_not_show_secrets():
    settings = kafka(
        security_protocol="SSL", ssl_key_pem=Secret("env", "KEY"), ssl_ca_location="/none.pem"
    )

    with pytest.raises(InvalidConfigError) as refused:
        librdkafka_properties(settings, {"KEY": "top secret"})

    assert "kafka.security: librdkafka cannot create a client: " in str(refused.value)
    assert "top secret" not in str(refused.value)
