"""Tutorial five: subscribe to some binding keys."""

import os
import sys

from streaming.client import Connection, Delivery

KAFKA = os.environ.get("DLX_KAFKA", "localhost:9092")
VHOST = os.environ.get("DLX_VHOST", "/")


def main() -> None:
    binding_keys = sys.argv[1:]
    if not binding_keys:
        sys.exit(f"Usage: {sys.argv[0]} [binding_key]...")

    with Connection(KAFKA, vhost=VHOST) as connection:
        channel = connection.channel()

        channel.declare_exchange("topic_logs", exchange_type="topic")

        result = channel.declare_queue("", exclusive=True)

        for binding_key in binding_keys:
            channel.bind_queue(result.queue, "topic_logs", routing_key=binding_key)

        def callback(delivery: Delivery) -> None:
            print(f" [x] {delivery.routing_key}:{delivery.body.decode()}")

        channel.consume(result.queue, callback, auto_ack=True)

        print(" [*] Waiting for logs. To exit press CTRL+C")
        channel.start_consuming()


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        print("Interrupted")
