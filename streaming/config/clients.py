"""How a client connects: `[kafka]` as the properties of each of the two Kafka clients.

librdkafka (confluent-kafka, with which the job writes) and the JVM client (with which Spark reads)
name the same security settings differently. `[kafka.security]` uses librdkafka's names; they are
translated here, and secrets are fetched. The returned properties contain them: pass them to the
client, and never log them.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from streaming.config.kafka import KafkaSettings
from streaming.config.secrets import SecretText, mask_secrets, reveal
from streaming.config.types import join_key, refuse
from topology.errors import Problem

_LOGIN_MODULES: Final = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}
_PEM: Final = "PEM"
_CA: Final = "ssl.ca"
_PEM_FILES: Final = (_CA, "ssl.certificate", "ssl.key")
_SECURITY: Final = "kafka.security"
_ONLY_TOGETHER: Final = "Failed to create producer"
"""How librdkafka's message begins for a property that needs others beside it."""
_QUIET: Final = {"log_level": "0"}
_BACKOFF: Final = "reconnect.backoff."
RECONNECT: Final = {"reconnect.backoff.max.ms": "1000"}
"""How often a Kafka that is away is tried, at least. librdkafka's own pauses reach 10 s: a front
that comes back so late is taken for silent by a standby that came back before."""


def librdkafka_properties(
    kafka: KafkaSettings, environ: Mapping[str, str], *, by_content: bool = False
) -> dict[str, str]:
    """The properties of every librdkafka client of the job.

    Args:
        by_content: put the contents of PEM files in place of their paths, for clients on other
            machines.

    Raises:
        InvalidConfigError: a secret is missing, or librdkafka does not accept the properties.
    """
    security = reveal(kafka.security, _SECURITY, environ)
    if by_content:
        security, problems = _with_contents(security)
        refuse(problems)
    passed_through = {
        **security,
        **reveal(kafka.librdkafka_properties, "kafka.librdkafka_properties", environ),
    }
    what = _librdkafka_fault(passed_through) if passed_through else None
    if what is not None:
        words = mask_secrets(what, passed_through.values())
        refuse([Problem(_SECURITY, f"librdkafka cannot create a client: {words}")])
    has_own = any(name.startswith(_BACKOFF) for name in passed_through)
    return {
        "bootstrap.servers": ",".join(kafka.bootstrap_servers),
        "client.id": kafka.client_id,
        "message.max.bytes": str(kafka.max_message_bytes),
        **({} if has_own else RECONNECT),
        **passed_through,
    }


def refuse_unknown_properties(kafka: KafkaSettings) -> None:
    """Refuse names and values that librdkafka does not know.

    Each property is tried alone, which needs no secret and no certificate file.

    Raises:
        InvalidConfigError: one problem per property.
    """
    problems: list[Problem] = []
    tables = {_SECURITY: kafka.security, "kafka.librdkafka_properties": kafka.librdkafka_properties}
    for table, properties in tables.items():
        for name, value in properties.items():
            what = _librdkafka_fault({name: value}) if isinstance(value, str) else None
            if what is not None and not what.startswith(_ONLY_TOGETHER):
                problems.append(Problem(join_key(table, name), f"librdkafka refuses it: {what}"))
    refuse(problems)


def _librdkafka_fault(properties: Mapping[str, str]) -> str | None:
    """Why librdkafka refuses these properties; None if it accepts them. It does not connect."""
    from confluent_kafka import KafkaException, Producer  # noqa: PLC0415 - slow, and seldom needed

    try:
        Producer({**properties, **_QUIET})
    except KafkaException as error:
        return str(error.args[0].str()).strip()
    except (TypeError, ValueError, AttributeError) as error:  # a property that takes no text
        return str(error)
    return None


def jvm_properties(kafka: KafkaSettings, environ: Mapping[str, str]) -> dict[str, str]:
    """The properties of every JVM client of the job; Spark wants `kafka.` before each name.

    Raises:
        InvalidConfigError: a secret or a certificate is missing.
    """
    security, problems = _with_contents(reveal(kafka.security, _SECURITY, environ))
    return {
        "bootstrap.servers": ",".join(kafka.bootstrap_servers),
        "client.id": kafka.client_id,
        **_translated(security, problems),
        **reveal(kafka.jvm_properties, "kafka.jvm_properties", environ),
    }


def _with_contents(security: Mapping[str, str]) -> tuple[dict[str, str], list[Problem]]:
    """Return security properties with the contents of PEM files in place of their paths.

    The files are on this machine, and clients run on others too. `probe` and a folder, which
    librdkafka accepts as ssl.ca.location, stay as they are. Also return what cannot be read.
    """
    problems: list[Problem] = []
    found = dict(security)
    for name in _PEM_FILES:
        path = found.get(f"{name}.location")
        if path is None or (name == _CA and (path == "probe" or Path(path).is_dir())):
            continue
        try:
            text = Path(path).read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not PEM text"
            where = join_key(_SECURITY, f"{name}.location")
            problems.append(Problem(where, f"cannot read {path}: {reason}"))
            continue
        del found[f"{name}.location"]
        found[f"{name}.pem"] = text if name == _CA else SecretText(text)
    return found, problems


def _translated(security: Mapping[str, str], problems: list[Problem]) -> dict[str, str]:
    """Librdkafka's security properties with the names of the JVM client.

    Raises:
        InvalidConfigError: the earlier problems, and those found here.
    """
    rest = dict(security)
    translated: dict[str, str] = {}
    if "security.protocol" in rest:
        translated["security.protocol"] = rest.pop("security.protocol").upper()
    if "sasl.username" in rest or "sasl.password" in rest:
        given = (rest.pop("sasl.username", ""), rest.pop("sasl.password", ""))
        module = _LOGIN_MODULES.get(rest.get("sasl.mechanism", "").upper())
        if module is None:
            mechanisms = ", ".join(_LOGIN_MODULES)
            what = f"must be one of {mechanisms} if a user name or password is given"
            problems.append(Problem(join_key(_SECURITY, "sasl.mechanism"), what))
        else:
            username, password = (text.replace("\\", r"\\").replace('"', r"\"") for text in given)
            login = f'{module} required username="{username}" password="{password}";'
            translated["sasl.jaas.config"] = SecretText(login)
    for name, target in (("ssl.ca.location", "location"), ("ssl.ca.pem", "certificates")):
        if name in rest:
            translated["ssl.truststore.type"] = _PEM
            translated[f"ssl.truststore.{target}"] = rest.pop(name)
    for name, target in (("ssl.certificate.pem", "certificate.chain"), ("ssl.key.pem", "key")):
        if name in rest:
            translated["ssl.keystore.type"] = _PEM
            translated[f"ssl.keystore.{target}"] = rest.pop(name)
    if rest.get("ssl.endpoint.identification.algorithm") == "none":
        rest["ssl.endpoint.identification.algorithm"] = ""
    refuse(problems)
    return translated | rest
