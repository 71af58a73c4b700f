"""The import commands that a job writes first, and Kafka's size limits."""

import random

import attrs
import pytest

from streaming.config import JobConfig
from streaming.config.inputs import InputSettings
from streaming.pipeline.topics.definitions_import import ImportFailedError, write_imports
from streaming.protocol.definitions_packing import MAX_UNPACKED_BYTES
from topology.declarations import Definitions, Queue

NOWHERE = {"bootstrap.servers": "127.0.0.1:1", "message.max.bytes": "100000"}
CONFIG = attrs.evolve(
    JobConfig(),
    inputs=(
        InputSettings(topic="publishes", source="publishes"),
        InputSettings(topic="commands", source="commands"),
    ),
)


def test_definitions_too_large_even_when_packed_are_refused():
    chance = random.Random(1)
    names = ("".join(chance.choices("abcdefghijklmnopqrstuvwxyz", k=200)) for _each in range(2000))
    definitions = Definitions(queues=tuple(Queue(name) for name in names))

    with pytest.raises(ImportFailedError) as failed:
        write_imports(CONFIG, {"shop": definitions}, NOWHERE)

    words = str(failed.value)
    assert words.startswith(
        "vhosts.shop.definitions: they cannot be imported by a command to 'commands': Kafka did "
    )
    assert "Message size too large" in words
    assert "raise kafka.max_message_bytes" in words


def test_definitions_too_large_to_unpack_are_not_written():
    definitions = Definitions(queues=(Queue("q", arguments={"note": "x" * MAX_UNPACKED_BYTES}),))

    with pytest.raises(ImportFailedError, match=f"more than {MAX_UNPACKED_BYTES}"):
        write_imports(CONFIG, {"shop": definitions}, NOWHERE)
