"""Publisher confirms: one by one, and many at a time."""

import os

from streaming.client import Connection, Message, UnroutableError

KAFKA = os.environ.get("DLX_KAFKA", "localhost:9092")
VHOST = os.environ.get("DLX_VHOST", "/")


MESSAGES = 1_000


def main() -> None:
    with Connection(KAFKA, vhost=VHOST) as connection:
        channel = connection.channel()
        queue = channel.declare_queue("", exclusive=True).queue

        publisher = connection.publisher()
        publisher.publish(exchange="", routing_key=queue, body="one").result()
        print(" [x] Confirmed one message")

        try:
            publisher.publish(
                exchange="", routing_key="nosuch", body="lost", mandatory=True
            ).result()
        except UnroutableError as error:
            print(f" [x] Returned: {error.returned.reply_text}")

        confirms = publisher.publish_many(
            Message("", queue, str(number)) for number in range(MESSAGES)
        )
        publisher.wait_for_confirms()
        failed = [confirm for confirm in confirms if confirm.exception()]
        print(f" [x] Confirmed {MESSAGES} messages, {len(failed)} failed")


if __name__ == "__main__":
    main()
