"""Tutorial six with asyncio: ask for the 20th Fibonacci number."""

import asyncio
import os
import uuid

from streaming.client.aio import Channel, Connection, Publisher

KAFKA = os.environ.get("DLX_KAFKA", "localhost:9092")
VHOST = os.environ.get("DLX_VHOST", "/")


class FibonacciRpcClient:
    def __init__(self, channel: Channel, publisher: Publisher, callback_queue: str) -> None:
        self.channel = channel
        self.publisher = publisher
        self.callback_queue = callback_queue

    async def call(self, n: int) -> int:
        corr_id = str(uuid.uuid4())
        consumer = await self.channel.consume(self.callback_queue, auto_ack=True)
        await self.publisher.publish(
            exchange="",
            routing_key="rpc_queue",
            properties={"reply_to": self.callback_queue, "correlation_id": corr_id},
            body=str(n),
        )
        async for delivery in consumer:
            if corr_id == delivery.properties["correlation_id"]:
                await consumer.cancel()
                return int(delivery.body)
        raise RuntimeError("the consumer was cancelled")


async def main() -> None:
    async with Connection(KAFKA, vhost=VHOST) as connection:
        channel = await connection.channel()
        result = await channel.declare_queue("", exclusive=True)
        fibonacci_rpc = FibonacciRpcClient(channel, connection.publisher(), result.queue)

        print(" [x] Requesting fib(20)")
        response = await fibonacci_rpc.call(20)
        print(f" [.] Got {response}")


if __name__ == "__main__":
    asyncio.run(main())
