"""Tutorial three: subscribe to every message."""

import os

from streaming.client import Connection, Delivery

KAFKA = os.environ.get("DLX_KAFKA", "localhost:9092")
VHOST = os.environ.get("DLX_VHOST", "/")


def main() -> None:
    with Connection(KAFKA, vhost=VHOST) as connection:
        channel = connection.channel()

        channel.declare_exchange("logs", exchange_type="fanout")

        result = channel.declare_queue("", exclusive=True)

        channel.bind_queue(result.queue, "logs")

        def callback(delivery: Delivery) -> None:
            print(f" [x] {delivery.body.decode()}")

        channel.consume(result.queue, callback, auto_ack=True)

        print(" [*] Waiting for logs. To exit press CTRL+C")
        channel.start_consuming()


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        print("Interrupted")
