"""`[flow]`: when publishers are held back, and how large a record may be."""

from typing import Annotated, Final

from streaming.config.sections import Section
from streaming.config.settings import Setting
from streaming.config.types import fraction, size
from streaming.config.watermark import Relative, Watermark, WatermarkKind

MEBIBYTE: Final = 1_048_576


class FlowSettings(Section, frozen=True, kw_only=True):
    """Flow control, and the sizes that keep one batch within bounds."""

    vm_memory_high_watermark: Annotated[
        Watermark,
        Setting(
            WatermarkKind(),
            "The high mark: with more resident bytes than this (bodies and state of all messages "
            "that are not settled) no publishes are read until consumers have caught up; commands "
            "always are. A fraction of memory, RabbitMQ's 0.4; a size: "
            '{ absolute = "2GB" }; 0: never. Where memory cannot be detected, 1024 MB is assumed: '
            "then a value above 1 scales that.",
        ),
    ] = Relative(0.4)
    low_mark_fraction: Annotated[
        float,
        Setting(
            fraction(),
            "The low mark, as a fraction of the high mark: publishes flow again below it. The band "
            "between the two keeps the gate from flapping.",
        ),
    ] = 0.8
    max_body_bytes: Annotated[
        int,
        Setting(
            size(1, 1_000 * MEBIBYTE),
            "A publish with a longer body is quarantined. 1 MiB, about what a Kafka producer "
            "sends by default.",
            outcome=True,
        ),
    ] = MEBIBYTE
    max_header_bytes: Annotated[
        int,
        Setting(
            size(1_024, MEBIBYTE),
            "A record with more bytes of headers is quarantined: headers are part of the state of "
            "a resident message, bodies are not.",
            outcome=True,
        ),
    ] = 16_384
