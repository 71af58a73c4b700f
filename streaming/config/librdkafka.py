"""Whether librdkafka takes the properties that `dlx.toml` passes through to it.

Its names and values are its own: it is asked. Each property is tried alone when the file is read,
which needs no secret and no file of a certificate; all together when a client is made.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from streaming.config.errors import InvalidConfigError, Place
from streaming.config.secrets import mask_secrets

if TYPE_CHECKING:
    from streaming.config.kafka import KafkaSettings

_ONLY_TOGETHER: Final = "Failed to create producer"
"""Begins what it says of a property that needs others beside it."""
_QUIET: Final = {"log_level": "0"}


def refuse_unknown_properties(kafka: "KafkaSettings") -> None:
    """Refuse names and values that no client of librdkafka can be made with.

    Raises:
        InvalidConfigError: one problem a property.
    """
    place = Place("kafka")
    tables = {"security": kafka.security, "librdkafka_properties": kafka.librdkafka_properties}
    for table, properties in tables.items():
        for name, value in properties.items():
            fault = _fault({name: value}) if isinstance(value, str) else None
            if fault is not None and not fault.startswith(_ONLY_TOGETHER):
                place.key(table).key(name).report(f"librdkafka does not take it: {fault}")
    if place.problems:
        raise InvalidConfigError(place.problems)


def refuse_together(properties: Mapping[str, str]) -> None:
    """Refuse properties that are right one by one, and of which no client can be made.

    Raises:
        InvalidConfigError: in librdkafka's words, without the text of any secret.
    """
    fault = _fault(properties)
    if fault is None:
        return
    words = mask_secrets(fault, properties.values())
    place = Place("kafka.security")
    place.report(f"librdkafka makes no client with it: {words}")
    raise InvalidConfigError(place.problems)


def _fault(properties: Mapping[str, str]) -> str | None:
    """What librdkafka says; None if it takes them. It connects to nothing: it knows no server."""
    from confluent_kafka import KafkaException, Producer  # noqa: PLC0415 - slow, and seldom needed

    try:
        Producer({**properties, **_QUIET})
    except KafkaException as error:
        return str(error.args[0].str()).strip()
    except (TypeError, ValueError, AttributeError) as error:  # one that is no text in Python
        return str(error)
    return None
