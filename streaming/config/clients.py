"""How a client connects: `[kafka]` in the words of each of the two Kafka clients.

librdkafka (confluent-kafka: what the job writes with) and the JVM client (what Spark reads with)
name the same security settings differently. `[kafka.security]` is written once, in librdkafka's
words; here it is translated, and secrets are fetched. What comes back holds them: hand it to the
client, log nothing of it.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from streaming.config.errors import InvalidConfigError, Place
from streaming.config.kafka import KafkaSettings
from streaming.config.librdkafka import refuse_together
from streaming.config.secrets import SecretText, reveal

_LOGIN_MODULES: Final = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}
_PEM: Final = "PEM"


def librdkafka_properties(kafka: KafkaSettings, environ: Mapping[str, str]) -> dict[str, str]:
    """What every librdkafka client of the job is made with.

    Raises:
        InvalidConfigError: a secret is not to be had, or librdkafka does not take the properties.
    """
    passed_through = {
        **reveal(kafka.security, "kafka.security", environ),
        **reveal(kafka.librdkafka_properties, "kafka.librdkafka_properties", environ),
    }
    if passed_through:
        refuse_together(passed_through)
    return {
        "bootstrap.servers": ",".join(kafka.bootstrap_servers),
        "client.id": kafka.client_id,
        "message.max.bytes": str(kafka.max_message_bytes),
        **passed_through,
    }


def jvm_properties(kafka: KafkaSettings, environ: Mapping[str, str]) -> dict[str, str]:
    """What every JVM client of the job is made with; Spark wants `kafka.` before each name.

    Raises:
        InvalidConfigError: a secret or a certificate is not to be had.
    """
    security = reveal(kafka.security, "kafka.security", environ)
    return {
        "bootstrap.servers": ",".join(kafka.bootstrap_servers),
        "client.id": kafka.client_id,
        **_translated(security),
        **reveal(kafka.jvm_properties, "kafka.jvm_properties", environ),
    }


def _translated(security: Mapping[str, str]) -> dict[str, str]:
    """Librdkafka's security properties in the words of the JVM client."""
    place = Place("kafka.security")
    rest = dict(security)
    translated: dict[str, str] = {}
    if "security.protocol" in rest:
        translated["security.protocol"] = rest.pop("security.protocol").upper()
    if "sasl.username" in rest or "sasl.password" in rest:
        mechanism = rest.get("sasl.mechanism", "")
        username, password = rest.pop("sasl.username", ""), rest.pop("sasl.password", "")
        module = _LOGIN_MODULES.get(mechanism.upper())
        if module is None:
            place.key("sasl.mechanism").report(
                f"must be one of {', '.join(_LOGIN_MODULES)} where a user name or password is given"
            )
        else:
            translated["sasl.jaas.config"] = _jaas(module, username, password)
    if "ssl.ca.location" in rest or "ssl.ca.pem" in rest:
        translated["ssl.truststore.type"] = _PEM
        _move(rest, "ssl.ca.location", translated, "ssl.truststore.location")
        _move(rest, "ssl.ca.pem", translated, "ssl.truststore.certificates")
    for part, target in (("certificate", "certificate.chain"), ("key", "key")):
        text = _pem_text(rest, f"ssl.{part}", place)
        if text is not None:
            translated["ssl.keystore.type"] = _PEM
            translated[f"ssl.keystore.{target}"] = text
    if rest.get("ssl.endpoint.identification.algorithm") == "none":
        rest["ssl.endpoint.identification.algorithm"] = ""
    if place.problems:
        raise InvalidConfigError(place.problems)
    return translated | rest


def _move(source: dict[str, str], old: str, target: dict[str, str], new: str) -> None:
    if old in source:
        target[new] = source.pop(old)


def _jaas(module: str, username: str, password: str) -> SecretText:
    """A line of JAAS configuration; quotes and backslashes in the values are escaped."""
    return SecretText(
        f'{module} required username="{_quoted(username)}" password="{_quoted(password)}";'
    )


def _quoted(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"")


def _pem_text(security: dict[str, str], name: str, place: Place) -> SecretText | None:
    """A certificate chain or key, given as text or as the path of a file that holds it."""
    path = security.pop(f"{name}.location", None)
    text = security.pop(f"{name}.pem", None)
    if path is not None:
        try:
            return SecretText(Path(path).read_text("utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not PEM text"
            place.key(f"{name}.location").report(f"cannot read {path}: {reason}")
    return None if text is None else SecretText(text)
