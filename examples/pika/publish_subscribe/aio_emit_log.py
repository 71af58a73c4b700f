"""Tutorial three with asyncio: send a message to every subscriber."""

import asyncio
import os
import sys

from streaming.client.aio import Connection

KAFKA = os.environ.get("DLX_KAFKA", "localhost:9092")
VHOST = os.environ.get("DLX_VHOST", "/")


async def main() -> None:
    async with Connection(KAFKA, vhost=VHOST) as connection:
        channel = await connection.channel()

        await channel.declare_exchange("logs", exchange_type="fanout")

        message = " ".join(sys.argv[1:]) or "info: Hello World!"
        await connection.publisher().publish(exchange="logs", routing_key="", body=message)
        print(f" [x] Sent {message}")


if __name__ == "__main__":
    asyncio.run(main())
