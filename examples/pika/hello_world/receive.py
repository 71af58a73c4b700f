"""Tutorial one: receive messages."""

import os

from streaming.client import Connection, Delivery

KAFKA = os.environ.get("DLX_KAFKA", "localhost:9092")
VHOST = os.environ.get("DLX_VHOST", "/")


def main() -> None:
    with Connection(KAFKA, vhost=VHOST) as connection:
        channel = connection.channel()

        channel.declare_queue("hello")

        def callback(delivery: Delivery) -> None:
            print(f" [x] Received {delivery.body.decode()}")

        channel.consume("hello", callback, auto_ack=True)

        print(" [*] Waiting for messages. To exit press CTRL+C")
        channel.start_consuming()


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        print("Interrupted")
