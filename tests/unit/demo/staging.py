"""The demo's story on a broker in memory: its topology declared, its orders published."""

from streaming.demo.order_process import TOPOLOGY, Order
from streaming.protocol.command_json import parse_command
from tests.builders import Broker


def staged(**config) -> Broker:
    """A broker with the topology of the story."""
    broker = Broker(**config)
    for document in TOPOLOGY:
        assert broker.refusal(parse_command(document)) is None
    return broker


def send(broker: Broker, message: Order, **more) -> None:
    """Publish a message of the story."""
    broker.publish(
        message.exchange,
        message.routing_key,
        message.body.decode(),
        headers=message.headers,
        **{**message.properties, **more},
    )
