"""Tutorial five with asyncio: subscribe to some binding keys."""

import asyncio
import os
import sys

from streaming.client.aio import Connection

KAFKA = os.environ.get("DLX_KAFKA", "localhost:9092")
VHOST = os.environ.get("DLX_VHOST", "/")


async def main() -> None:
    binding_keys = sys.argv[1:]
    if not binding_keys:
        sys.exit(f"Usage: {sys.argv[0]} [binding_key]...")

    async with Connection(KAFKA, vhost=VHOST) as connection:
        channel = await connection.channel()

        await channel.declare_exchange("topic_logs", exchange_type="topic")

        result = await channel.declare_queue("", exclusive=True)

        for binding_key in binding_keys:
            await channel.bind_queue(result.queue, "topic_logs", routing_key=binding_key)

        consumer = await channel.consume(result.queue, auto_ack=True)
        print(" [*] Waiting for logs. To exit press CTRL+C")
        async for delivery in consumer:
            print(f" [x] {delivery.routing_key}:{delivery.body.decode()}")


if __name__ == "__main__":
    try:
        asyncio.run(main())
    except KeyboardInterrupt:
        print("Interrupted")
