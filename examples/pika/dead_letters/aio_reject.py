"""Dead-lettering with asyncio: reject a message, and read why it is in the other queue."""

import asyncio
import os

from streaming.client.aio import Connection

KAFKA = os.environ.get("DLX_KAFKA", "localhost:9092")
VHOST = os.environ.get("DLX_VHOST", "/")


async def main() -> None:
    async with Connection(KAFKA, vhost=VHOST) as connection:
        channel = await connection.channel()

        await channel.declare_exchange("dlx", exchange_type="direct")
        await channel.declare_queue("dead")
        await channel.bind_queue("dead", "dlx", routing_key="orders")

        arguments = {"x-dead-letter-exchange": "dlx", "x-message-ttl": 60_000}
        await channel.declare_queue("orders", arguments=arguments)

        publisher = connection.publisher()
        await publisher.publish(exchange="", routing_key="orders", body="order 1")

        async for delivery in channel.consume("orders"):
            await delivery.reject(requeue=False)
            break

        async for delivery in channel.consume("dead"):
            death = delivery.x_death[0]
            print(f" [x] {delivery.body.decode()}: {death.reason} in {death.queue}")
            await delivery.ack()
            break


if __name__ == "__main__":
    asyncio.run(main())
