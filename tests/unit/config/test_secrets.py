"""Secrets stay in the environment or in files; pass-through tables take no text of one."""

from pathlib import Path

import pytest

from streaming.config import (
    InvalidConfigError,
    KafkaSettings,
    Secret,
    SecretText,
    TablesSettings,
    parse_config,
    reveal,
)
from streaming.config.secrets import Property, is_secret_name

NO_LITERAL = (
    'must not be written here: put it in the environment, {env = "NAME"}, or a file, '
    '{file = "path"}'
)
NO_VARIABLE = '."sasl.password".env: is not the name of an environment variable'


def security_of(text: str) -> dict[str, Property]:
    return parse_config(f"[kafka.security]\n{text}").kafka.security


def problems_of(text: str) -> list[str]:
    with pytest.raises(InvalidConfigError) as caught:
        security_of(text)
    return [str(problem).removeprefix("kafka.security") for problem in caught.value.problems]


def test_a_secret_is_named_by_its_environment_variable_or_file():
    security = security_of("""
        sasl.username = "dlx"
        sasl.password = { env = "KAFKA_PASSWORD" }
        ssl.key.password.file = "secrets/key"
    """)

    assert security == {
        "sasl.username": "dlx",
        "sasl.password": Secret("env", "KAFKA_PASSWORD"),
        "ssl.key.password": Secret("file", "secrets/key"),
    }


@pytest.mark.parametrize(
    "written",
    [
        'sasl.mechanism = "PLAIN"',
        '"sasl.mechanism" = "PLAIN"',
        '"sasl" = { mechanism = "PLAIN" }',
        '[kafka.security.sasl]\nmechanism = "PLAIN"',
    ],
)
def test_dotted_names_may_have_any_form_of_toml(written):
    assert security_of(written) == {"sasl.mechanism": "PLAIN"}


def test_values_become_the_strings_that_clients_take():
    config = parse_config("""
        [kafka.librdkafka_properties]
        a = true
        b = 5
        c = 0.5
        d = "x"
    """)

    assert config.kafka.librdkafka_properties == {"a": "true", "b": "5", "c": "0.5", "d": "x"}


@pytest.mark.parametrize(
    ("written", "problems"),
    [
        ('sasl.password = "hunter2"', [f'."sasl.password": {NO_LITERAL}']),
        ("sasl.password = 5", [f'."sasl.password": {NO_LITERAL}']),
        ('sasl.password = { env = "A-B" }', [NO_VARIABLE]),
        ('sasl.password = { env = "" }', [NO_VARIABLE]),
        (
            'sasl.password = { file = "" }',
            [
                '."sasl.password".file: is empty: name the file that holds the secret',
            ],
        ),
        (
            "sasl.password = { env = 1 }",
            [
                '."sasl.password".env: expected a string, got a whole number',
            ],
        ),
        (
            'sasl.password = { env = "A", file = "b" }',
            ['."sasl.password": expected only {env = "NAME"} or {file = "path"}'],
        ),
        (
            "sasl.kerberos = [1]",
            [
                '."sasl.kerberos": expected a string, number or boolean, got an array',
            ],
        ),
        (
            '"sasl.mechanism" = "PLAIN"\nsasl.mechanism = "PLAIN"',
            ['."sasl.mechanism": is given twice'],
        ),
        ('"" = "x"', ['."": has no name']),
        (
            '"group.id" = "x"',
            [
                '."group.id": does not start with security.protocol or sasl. or ssl.',
            ],
        ),
        (
            'protocol = "SSL"',
            [
                ".protocol: is written as security.protocol inside the table [kafka.security]",
            ],
        ),
        ('sasl.mechanisms = "PLAIN"', ['."sasl.mechanisms": is written as sasl.mechanism']),
        (
            'sasl.jaas.config = { env = "J" }',
            [
                '."sasl.jaas.config": is a property of the JVM client: write sasl.username '
                "and sasl.password here, or put it in kafka.jvm_properties"
            ],
        ),
    ],
)
def test_an_invalid_security_property_is_refused(written, problems):
    assert problems_of(written) == problems


def test_properties_made_by_code_are_checked_too():
    with pytest.raises(InvalidConfigError) as caught:
        KafkaSettings(
            security={"sasl.password": "hunter2", "ssl.key.password": Secret("env", "")},
            jvm_properties={"group.id": "x"},
        )

    assert [str(problem) for problem in caught.value.problems] == [
        f'security."sasl.password": {NO_LITERAL}',
        'security."ssl.key.password".env: is not the name of an environment variable',
        'jvm_properties."group.id": is set by the job',
    ]


@pytest.mark.parametrize(
    "name",
    [
        "sasl.password",
        "ssl.key.password",
        "ssl.keystore.password",
        "ssl.key.pem",
        "ssl.keystore.key",
        "sasl.jaas.config",
        "sasl.oauthbearer.client.secret",
        "spark.hadoop.fs.azure.sas.container.account.blob.core.windows.net",
        "AWS_SECRET_ACCESS_KEY",
        "aws_session_token",
        "azure_storage_account_key",
        "azure_storage_sas_key",
        "spark.hadoop.fs.s3a.secret.key",
        "spark.hadoop.fs.azure.account.key.shop.dfs.core.windows.net",
        "google_service_account_key",
    ],
)
def test_names_of_secrets_are_known(name):
    assert is_secret_name(name)


@pytest.mark.parametrize(
    "name",
    [
        "security.protocol",
        "sasl.mechanism",
        "sasl.username",
        "ssl.ca.location",
        "ssl.key.location",
        "ssl.certificate.pem",
        "ssl.keystore.type",
        "sasl.oauthbearer.token.endpoint.url",
        "spark.hadoop.fs.azure.sas.token.provider.type",
        "sasl.oauthbearer.client.credentials.client.id",
        "sasl.login.callback.handler.class",
        "spark.hadoop.fs.s3a.aws.credentials.provider",
        "AWS_REGION",
        "google_application_credentials",
        "GOOGLE_SKIP_SIGNATURE",
    ],
)
def test_names_that_only_mention_secrets_are_not_secret(name):
    assert not is_secret_name(name)


def test_storage_options_hold_no_secrets_either():
    with pytest.raises(InvalidConfigError) as caught:
        TablesSettings(storage_options={"AWS_SECRET_ACCESS_KEY": "hunter2"})

    assert str(caught.value) == f"storage_options.AWS_SECRET_ACCESS_KEY: {NO_LITERAL}"


def test_secrets_are_fetched_when_a_client_is_made(tmp_path: Path):
    (tmp_path / "key").write_text("from the file \n")
    properties: dict[str, Property] = {
        "plain": "text",
        "a": Secret("env", "A"),
        "b": Secret("file", str(tmp_path / "key")),
    }

    assert reveal(properties, "kafka.security", {"A": "from the environment"}) == {
        "plain": "text",
        "a": "from the environment",
        "b": "from the file ",
    }


def test_a_fetched_secret_is_masked_in_a_repr():
    revealed = reveal({"p": Secret("env", "A"), "u": "dlx"}, "t", {"A": "hunter2"})

    assert repr(revealed) == "{'p': '******', 'u': 'dlx'}"
    assert f"{revealed}" == "{'p': '******', 'u': 'dlx'}"
    assert "".join(revealed["p"]) == "hunter2"


def test_the_text_of_a_secret_is_the_string_that_clients_take():
    assert SecretText("hunter2") == "hunter2"
    assert isinstance(SecretText("hunter2"), str)


def test_every_missing_secret_is_reported(tmp_path: Path):
    (tmp_path / "empty").write_text("\n")
    (tmp_path / "binary").write_bytes(b"\xff")
    properties: dict[str, Property] = {
        "sasl.password": Secret("env", "MISSING"),
        "b": Secret("env", "EMPTY"),
        "c": Secret("file", str(tmp_path / "missing")),
        "d": Secret("file", str(tmp_path / "empty")),
        "e": Secret("file", str(tmp_path / "binary")),
    }

    with pytest.raises(InvalidConfigError) as caught:
        reveal(properties, "kafka.security", {"EMPTY": ""})

    assert [str(problem) for problem in caught.value.problems] == [
        'kafka.security."sasl.password": environment variable MISSING is not set',
        "kafka.security.b: EMPTY is empty",
        f"kafka.security.c: cannot read {tmp_path}/missing: No such file or directory",
        f"kafka.security.d: {tmp_path}/empty is empty",
        f"kafka.security.e: {tmp_path}/binary is not UTF-8 text",
    ]
