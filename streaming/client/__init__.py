"""The client library: publish and consume from Python, in the manner that pika's users know.

with Connection.from_config("dlx.toml") as connection:
    channel = connection.channel()
    channel.declare_queue("work")
    publisher = connection.publisher()
    publisher.publish("", "work", b"hello").result()
    for delivery in channel.consume("work"):
        delivery.ack()
"""

from streaming.client.address import Address
from streaming.client.channel import Channel
from streaming.client.connection import Connection
from streaming.client.consuming import Consumer
from streaming.client.errors import (
    AccessRefusedError,
    BrokerError,
    ChannelClosedError,
    ClientError,
    CommandInvalidError,
    ConnectionClosedError,
    FlowStoppedError,
    KafkaUnreachableError,
    NackedError,
    NoAnswerError,
    NotAllowedError,
    NotFoundError,
    PreconditionFailedError,
    QuarantinedError,
    ResourceLockedError,
    TransactionAbortedError,
    UnroutableError,
    UnsupportedError,
)
from streaming.client.messages import Death, Delivery, Returned
from streaming.client.publisher import Message, Publisher
from streaming.client.transactions import Transaction

__all__ = [
    "AccessRefusedError",
    "Address",
    "BrokerError",
    "Channel",
    "ChannelClosedError",
    "ClientError",
    "CommandInvalidError",
    "Connection",
    "ConnectionClosedError",
    "Consumer",
    "Death",
    "Delivery",
    "FlowStoppedError",
    "KafkaUnreachableError",
    "Message",
    "NackedError",
    "NoAnswerError",
    "NotAllowedError",
    "NotFoundError",
    "PreconditionFailedError",
    "Publisher",
    "QuarantinedError",
    "ResourceLockedError",
    "Returned",
    "Transaction",
    "TransactionAbortedError",
    "UnroutableError",
    "UnsupportedError",
]
