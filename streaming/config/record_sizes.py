"""How large records get: what an outbound record needs beyond the message that it carries."""

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from streaming.config.flow import FlowSettings
    from streaming.config.kafka import KafkaSettings

HEADER_ROOM_BYTES: Final = 65_536
"""Room for the death history, names and Kafka's own overhead in an outbound record, beside four
times the inbound headers, which escapes and base64 can blow up."""

HISTORY_ROOM_BYTES: Final = 1_048_576
"""What outbound topics have beyond the largest body: for headers and a long death history."""

ECHO_ROOM_BYTES: Final = 65_536
"""An answer may repeat the command it answers, which may be as large as a record of an input."""


def header_room_bytes(flow: "FlowSettings") -> int:
    """Of an outbound record, beside the body, with a death history of ordinary length."""
    return 4 * flow.max_header_bytes + HEADER_ROOM_BYTES


def least_outbound_bytes(flow: "FlowSettings") -> int:
    """The least max.message.bytes of an outbound topic: the largest message accepted fits."""
    return flow.max_body_bytes + header_room_bytes(flow)


def outbound_topic_bytes(flow: "FlowSettings", kafka: "KafkaSettings") -> int:
    """max.message.bytes of the outbound topics, as the job makes them and wants them to be."""
    with_history = flow.max_body_bytes + max(HISTORY_ROOM_BYTES, header_room_bytes(flow))
    return max(with_history, kafka.max_message_bytes) + ECHO_ROOM_BYTES
