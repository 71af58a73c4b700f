"""Tutorial three with asyncio: subscribe to every message."""

import asyncio
import os

from streaming.client.aio import Connection

KAFKA = os.environ.get("DLX_KAFKA", "localhost:9092")
VHOST = os.environ.get("DLX_VHOST", "/")


async def main() -> None:
    async with Connection(KAFKA, vhost=VHOST) as connection:
        channel = await connection.channel()

        await channel.declare_exchange("logs", exchange_type="fanout")

        result = await channel.declare_queue("", exclusive=True)

        await channel.bind_queue(result.queue, "logs")

        consumer = await channel.consume(result.queue, auto_ack=True)
        print(" [*] Waiting for logs. To exit press CTRL+C")
        async for delivery in consumer:
            print(f" [x] {delivery.body.decode()}")


if __name__ == "__main__":
    try:
        asyncio.run(main())
    except KeyboardInterrupt:
        print("Interrupted")
