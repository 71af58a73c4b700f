"""Tutorial six with asyncio: answer requests."""

import asyncio
import os

from streaming.client.aio import Connection

KAFKA = os.environ.get("DLX_KAFKA", "localhost:9092")
VHOST = os.environ.get("DLX_VHOST", "/")


def fib(n: int) -> int:
    return n if n in {0, 1} else fib(n - 1) + fib(n - 2)


async def main() -> None:
    async with Connection(KAFKA, vhost=VHOST) as connection:
        channel = await connection.channel()
        publisher = connection.publisher()

        await channel.declare_queue("rpc_queue")

        print(" [x] Awaiting RPC requests")
        async for delivery in channel.consume("rpc_queue", prefetch=1):
            n = int(delivery.body)

            print(f" [.] fib({n})")
            response = fib(n)

            await publisher.publish(
                exchange="",
                routing_key=delivery.properties["reply_to"],
                properties={"correlation_id": delivery.properties["correlation_id"]},
                body=str(response),
            )
            await delivery.ack()


if __name__ == "__main__":
    try:
        asyncio.run(main())
    except KeyboardInterrupt:
        print("Interrupted")
