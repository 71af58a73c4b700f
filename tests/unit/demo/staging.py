"""The demo's topology and orders on a broker in memory."""

from streaming.demo.order_process import TOPOLOGY, Order
from streaming.protocol.command_json import parse_command
from tests.builders import Broker


def staged(**config) -> Broker:
    """A broker with the demo's topology."""
    broker = Broker(**config)
    for document in TOPOLOGY:
        assert broker.refusal(parse_command(document)) is None
    return broker


def send(broker: Broker, message: Order, **more) -> None:
    """Publish one of the demo's messages."""
    broker.publish(
        message.exchange,
        message.routing_key,
        message.body.decode(),
        headers=message.headers,
        **{**message.properties, **more},
    )
