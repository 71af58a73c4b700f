"""Tutorial five with asyncio: send a message with a routing key."""

import asyncio
import os
import sys

from streaming.client.aio import Connection

KAFKA = os.environ.get("DLX_KAFKA", "localhost:9092")
VHOST = os.environ.get("DLX_VHOST", "/")


async def main() -> None:
    async with Connection(KAFKA, vhost=VHOST) as connection:
        channel = await connection.channel()

        await channel.declare_exchange("topic_logs", exchange_type="topic")

        routing_key = sys.argv[1] if len(sys.argv) > 1 else "anonymous.info"
        message = " ".join(sys.argv[2:]) or "Hello World!"
        publisher = connection.publisher()
        await publisher.publish(exchange="topic_logs", routing_key=routing_key, body=message)
        print(f" [x] Sent {routing_key}:{message}")


if __name__ == "__main__":
    asyncio.run(main())
