"""Definitions files named in the configuration: imported by commands, before all else (D5)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaException, Producer

from streaming.protocol.definitions_packing import write_definitions
from streaming.protocol.headers import OP, VHOST
from topology.definitions.dump import dump_definitions
from topology.errors import DlxError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from streaming.config import JobConfig
    from topology.declarations import Definitions

FLUSH_TIMEOUT_S = 30


class ImportFailedError(DlxError):
    """Kafka did not take the definitions of a vhost; the job must not start without them."""

    def __init__(self, vhost: str, topic: str, why: str) -> None:
        """Say which, why, and what can be done."""
        super().__init__(
            f"vhosts.{vhost}.definitions: no command to {topic!r} can import them: {why}. Where "
            "they are too large, raise kafka.max_message_bytes, or leave a part out and import it "
            "later (`dlx definitions import`)"
        )


def write_imports(
    config: JobConfig, definitions: Mapping[str, Definitions], producer: Mapping[str, str]
) -> None:
    """Write an import command for each vhost into the log.

    Args:
        definitions: by vhost.
        producer: librdkafka properties.

    Raises:
        ImportFailedError: Kafka does not take one of them.
    """
    topic = config.topics_of("commands")[0]
    # Before all that may wait in the inputs; with the wall's clock Kafka itself dates the record.
    at_ms = 1 if config.job.clock == "event" else 0
    sender = Producer({**producer, "log_level": 0})
    problems: list[str] = []

    def reported(error: Any, _message: Any) -> None:
        if error is not None:
            problems.append(str(error.str()))

    for vhost, one in definitions.items():
        document = dump_definitions({vhost: one})
        try:
            value = json.dumps(
                {"op": "import_definitions", **write_definitions(document).member}
            ).encode()
        except ValueError as error:
            raise ImportFailedError(vhost, topic, str(error)) from error
        headers: list[tuple[str, str | bytes | None]] = [
            (OP, b"import_definitions"),
            (VHOST, vhost.encode()),
        ]
        try:
            sender.produce(
                topic,
                value=value,
                headers=headers,
                partition=0,
                timestamp=at_ms,
                on_delivery=reported,
            )
        except KafkaException as error:
            raise ImportFailedError(vhost, topic, _refused(error.args[0].str(), value)) from error
        waiting = sender.flush(FLUSH_TIMEOUT_S)
        if waiting or problems:
            why = problems[0] if problems else f"not within {FLUSH_TIMEOUT_S} s"
            raise ImportFailedError(vhost, topic, _refused(why, value))


def _refused(why: str, value: bytes) -> str:
    return f"Kafka did not take its {len(value)} bytes ({why})"
