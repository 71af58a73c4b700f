"""Tutorial four with asyncio: send a message with a severity."""

import asyncio
import os
import sys

from streaming.client.aio import Connection

KAFKA = os.environ.get("DLX_KAFKA", "localhost:9092")
VHOST = os.environ.get("DLX_VHOST", "/")


async def main() -> None:
    async with Connection(KAFKA, vhost=VHOST) as connection:
        channel = await connection.channel()

        await channel.declare_exchange("direct_logs", exchange_type="direct")

        severity = sys.argv[1] if len(sys.argv) > 1 else "info"
        message = " ".join(sys.argv[2:]) or "Hello World!"
        publisher = connection.publisher()
        await publisher.publish(exchange="direct_logs", routing_key=severity, body=message)
        print(f" [x] Sent {severity}:{message}")


if __name__ == "__main__":
    asyncio.run(main())
