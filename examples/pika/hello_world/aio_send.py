"""Tutorial one with asyncio: send a message."""

import asyncio
import os

from streaming.client.aio import Connection

KAFKA = os.environ.get("DLX_KAFKA", "localhost:9092")
VHOST = os.environ.get("DLX_VHOST", "/")


async def main() -> None:
    async with Connection(KAFKA, vhost=VHOST) as connection:
        channel = await connection.channel()

        await channel.declare_queue("hello")

        publisher = connection.publisher()
        await publisher.publish(exchange="", routing_key="hello", body="Hello World!")
        print(" [x] Sent 'Hello World!'")


if __name__ == "__main__":
    asyncio.run(main())
