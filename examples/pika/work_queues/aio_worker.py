"""Tutorial two with asyncio: work on tasks; each dot of a message takes a second."""

import asyncio
import os

from streaming.client.aio import Connection

KAFKA = os.environ.get("DLX_KAFKA", "localhost:9092")
VHOST = os.environ.get("DLX_VHOST", "/")


async def main() -> None:
    async with Connection(KAFKA, vhost=VHOST) as connection:
        channel = await connection.channel()

        await channel.declare_queue("task_queue", durable=True)

        print(" [*] Waiting for messages. To exit press CTRL+C")
        async for delivery in channel.consume("task_queue", prefetch=1):
            print(f" [x] Received {delivery.body.decode()}")
            await asyncio.sleep(delivery.body.count(b"."))
            print(" [x] Done")
            await delivery.ack()


if __name__ == "__main__":
    try:
        asyncio.run(main())
    except KeyboardInterrupt:
        print("Interrupted")
