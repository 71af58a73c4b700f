"""What the server says of itself at the beginning of a connection.

Client libraries read the capabilities, and some the product and the version: they are RabbitMQ's,
as far as this server behaves like it.
"""

import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Final

from topology.values import Table

RABBITMQ_VERSION: Final = "4.0.5"
"""The version whose behaviour clients can rely on."""

CAPABILITIES: Final = (
    "publisher_confirms",
    "exchange_exchange_bindings",
    "basic.nack",
    "consumer_cancel_notify",
    "connection.blocked",
    "consumer_priorities",
    "authentication_failure_close",
    "per_consumer_qos",
    "direct_reply_to",
)


def server_properties() -> Table:
    """The table that `connection.start` carries."""
    try:
        own = version("dlx-stream")
    except PackageNotFoundError:  # a checkout that is not installed
        own = "unreleased"
    return {
        "capabilities": dict.fromkeys(CAPABILITIES, True),
        "cluster_name": "dlx-stream",
        "copyright": "Licensed under the Apache License 2.0",
        "information": f"dlx-stream {own}, compatible with RabbitMQ {RABBITMQ_VERSION}",
        "platform": f"Python {platform.python_version()}",
        "product": "RabbitMQ",
        "version": RABBITMQ_VERSION,
    }
