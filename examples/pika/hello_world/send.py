"""Tutorial one: send a message."""

import os

from streaming.client import Connection

KAFKA = os.environ.get("DLX_KAFKA", "localhost:9092")
VHOST = os.environ.get("DLX_VHOST", "/")


def main() -> None:
    with Connection(KAFKA, vhost=VHOST) as connection:
        channel = connection.channel()

        channel.declare_queue("hello")

        publisher = connection.publisher()
        publisher.publish(exchange="", routing_key="hello", body="Hello World!")
        print(" [x] Sent 'Hello World!'")


if __name__ == "__main__":
    main()
