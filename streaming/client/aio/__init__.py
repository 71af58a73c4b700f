"""The client for asyncio: the same classes and methods, awaited.

    async with aio.Connection("localhost:9092") as connection:
        channel = await connection.channel()
        await channel.declare_queue("work")
        await connection.publisher().publish("", "work", b"hello")
        async for delivery in channel.consume("work"):
            await delivery.ack()

Each call runs the synchronous client on a thread; deliveries wake the event loop. Nothing blocks
the loop, and nothing is lost when a task is cancelled:

    get, consume, channel   what the broker still delivers or opens is requeued or closed
    publish                 not sent if it has not been sent; otherwise it takes effect
    everything else         takes effect, or not, as after a timeout
"""

from streaming.client.aio.channel import Channel, Consumer, Delivery
from streaming.client.aio.connection import Connection
from streaming.client.aio.publisher import Confirmation, Publisher, Transaction
from streaming.client.aio.threads import Opening

__all__ = [
    "Channel",
    "Confirmation",
    "Connection",
    "Consumer",
    "Delivery",
    "Opening",
    "Publisher",
    "Transaction",
]
