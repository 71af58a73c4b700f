"""The Python client: publish, consume and declare. Users of pika will recognise it.

with Connection.from_config("dlx.toml") as connection:
    channel = connection.channel()
    channel.declare_queue("work")
    publisher = connection.publisher()
    publisher.publish("", "work", b"hello").result()
    for delivery in channel.consume("work"):
        delivery.ack()
"""

from streaming.client._deliveries import Consumer
from streaming.client._transport.outages import OUTAGE_LOGGER
from streaming.client.address import Address
from streaming.client.admin import ImportResult, QueueState, RedriveState
from streaming.client.channel import Channel
from streaming.client.connection import Connection
from streaming.client.errors import (
    AccessRefusedError,
    BrokerError,
    ChannelClosedError,
    ClientError,
    CommandInvalidError,
    ConfirmTimeoutError,
    ConnectionClosedError,
    FlowStoppedError,
    KafkaUnreachableError,
    NackedError,
    NoAnswerError,
    NoJobError,
    NotAllowedError,
    NotFoundError,
    PreconditionFailedError,
    QuarantinedError,
    ResourceLockedError,
    TransactionAbortedError,
    UnroutableError,
    UnsupportedError,
)
from streaming.client.messages import Death, Delivery, Properties, Returned
from streaming.client.publisher import Message, Publisher
from streaming.client.tracing import processing, start_tracing
from streaming.client.transaction import Transaction
from streaming.client.worker import QueueConsumer, consumer, run
from streaming.protocol.sealed_plan import SealedPlan, read_plan

__all__ = [
    "OUTAGE_LOGGER",
    "AccessRefusedError",
    "Address",
    "BrokerError",
    "Channel",
    "ChannelClosedError",
    "ClientError",
    "CommandInvalidError",
    "ConfirmTimeoutError",
    "Connection",
    "ConnectionClosedError",
    "Consumer",
    "Death",
    "Delivery",
    "FlowStoppedError",
    "ImportResult",
    "KafkaUnreachableError",
    "Message",
    "NackedError",
    "NoAnswerError",
    "NoJobError",
    "NotAllowedError",
    "NotFoundError",
    "PreconditionFailedError",
    "Properties",
    "Publisher",
    "QuarantinedError",
    "QueueConsumer",
    "QueueState",
    "RedriveState",
    "ResourceLockedError",
    "Returned",
    "SealedPlan",
    "Transaction",
    "TransactionAbortedError",
    "UnroutableError",
    "UnsupportedError",
    "consumer",
    "processing",
    "read_plan",
    "run",
    "start_tracing",
]
