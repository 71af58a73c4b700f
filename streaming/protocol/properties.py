"""The AMQP basic properties of a message, apart from its headers."""

PROPERTIES = (
    "content_type",
    "content_encoding",
    "delivery_mode",
    "priority",
    "correlation_id",
    "reply_to",
    "expiration",
    "message_id",
    "timestamp",
    "type",
    "user_id",
    "app_id",
    "cluster_id",
)
"""All properties, in the order of the protocol."""

WHOLE_PROPERTIES = {
    "delivery_mode": (0, 255),
    "priority": (0, 255),
    "timestamp": (0, (1 << 63) - 1),
}
"""The properties that are whole numbers, with the smallest and largest value of each."""

TEXT_PROPERTIES = frozenset(PROPERTIES) - WHOLE_PROPERTIES.keys()
"""The properties that are text."""
