"""Tutorial one with asyncio: receive messages."""

import asyncio
import os

from streaming.client.aio import Connection, Delivery

KAFKA = os.environ.get("DLX_KAFKA", "localhost:9092")
VHOST = os.environ.get("DLX_VHOST", "/")


async def callback(delivery: Delivery) -> None:
    print(f" [x] Received {delivery.body.decode()}")


async def main() -> None:
    async with Connection(KAFKA, vhost=VHOST) as connection:
        channel = await connection.channel()

        await channel.declare_queue("hello")

        await channel.consume("hello", callback, auto_ack=True)

        print(" [*] Waiting for messages. To exit press CTRL+C")
        await channel.start_consuming()


if __name__ == "__main__":
    try:
        asyncio.run(main())
    except KeyboardInterrupt:
        print("Interrupted")
