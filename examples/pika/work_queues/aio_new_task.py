"""Tutorial two with asyncio: queue a task."""

import asyncio
import os
import sys

from streaming.client.aio import Connection

KAFKA = os.environ.get("DLX_KAFKA", "localhost:9092")
VHOST = os.environ.get("DLX_VHOST", "/")


async def main() -> None:
    async with Connection(KAFKA, vhost=VHOST) as connection:
        channel = await connection.channel()

        await channel.declare_queue("task_queue", durable=True)

        message = " ".join(sys.argv[1:]) or "Hello World!"
        await connection.publisher().publish(
            exchange="",
            routing_key="task_queue",
            body=message,
            properties={"delivery_mode": 2},
        )
        print(f" [x] Sent {message}")


if __name__ == "__main__":
    asyncio.run(main())
