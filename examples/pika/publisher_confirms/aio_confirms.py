"""Publisher confirms with asyncio: one by one, and many at a time."""

import asyncio
import os

from streaming.client import Message, UnroutableError
from streaming.client.aio import Connection

KAFKA = os.environ.get("DLX_KAFKA", "localhost:9092")
VHOST = os.environ.get("DLX_VHOST", "/")


MESSAGES = 1_000


async def main() -> None:
    async with Connection(KAFKA, vhost=VHOST) as connection:
        channel = await connection.channel()
        queue = (await channel.declare_queue("", exclusive=True)).queue

        publisher = connection.publisher()
        await publisher.publish(exchange="", routing_key=queue, body="one")
        print(" [x] Confirmed one message")

        try:
            await publisher.publish(exchange="", routing_key="nosuch", body="lost", mandatory=True)
        except UnroutableError as error:
            print(f" [x] Returned: {error.returned.reply_text}")

        confirms = publisher.publish_many(
            Message("", queue, str(number)) for number in range(MESSAGES)
        )
        outcomes = await asyncio.gather(*confirms, return_exceptions=True)
        failed = [outcome for outcome in outcomes if outcome is not None]
        print(f" [x] Confirmed {MESSAGES} messages, {len(failed)} failed")


if __name__ == "__main__":
    asyncio.run(main())
