"""Definitions files named in the configuration: imported by commands, before all else (D5)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from confluent_kafka import Producer

from streaming.wire import OP, VHOST
from topology.definitions import dump_definitions

if TYPE_CHECKING:
    from collections.abc import Mapping

    from streaming.config import JobConfig
    from topology.declarations import Definitions

FLUSH_TIMEOUT_S = 30


def write_imports(
    config: JobConfig, definitions: Mapping[str, Definitions], producer: Mapping[str, str]
) -> None:
    """Write an import command for each vhost into the log.

    Args:
        definitions: by vhost.
        producer: librdkafka properties.
    """
    topic = config.topics_of("commands")[0]
    sender = Producer({**producer, "log_level": 0})
    for vhost, one in definitions.items():
        document = dump_definitions({vhost: one})
        value = json.dumps({"op": "import_definitions", "definitions": document}).encode()
        headers: list[tuple[str, str | bytes | None]] = [
            (OP, b"import_definitions"),
            (VHOST, vhost.encode()),
        ]
        sender.produce(topic, value=value, headers=headers, partition=0)
    sender.flush(FLUSH_TIMEOUT_S)
