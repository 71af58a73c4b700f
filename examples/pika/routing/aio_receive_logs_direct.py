"""Tutorial four with asyncio: subscribe to some severities."""

import asyncio
import os
import sys

from streaming.client.aio import Connection

KAFKA = os.environ.get("DLX_KAFKA", "localhost:9092")
VHOST = os.environ.get("DLX_VHOST", "/")


async def main() -> None:
    severities = sys.argv[1:]
    if not severities:
        sys.exit(f"Usage: {sys.argv[0]} [info] [warning] [error]")

    async with Connection(KAFKA, vhost=VHOST) as connection:
        channel = await connection.channel()

        await channel.declare_exchange("direct_logs", exchange_type="direct")

        result = await channel.declare_queue("", exclusive=True)

        for severity in severities:
            await channel.bind_queue(result.queue, "direct_logs", routing_key=severity)

        consumer = await channel.consume(result.queue, auto_ack=True)
        print(" [*] Waiting for logs. To exit press CTRL+C")
        async for delivery in consumer:
            print(f" [x] {delivery.routing_key}:{delivery.body.decode()}")


if __name__ == "__main__":
    try:
        asyncio.run(main())
    except KeyboardInterrupt:
        print("Interrupted")
