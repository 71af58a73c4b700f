"""Tutorial four: subscribe to some severities."""

import os
import sys

from streaming.client import Connection, Delivery

KAFKA = os.environ.get("DLX_KAFKA", "localhost:9092")
VHOST = os.environ.get("DLX_VHOST", "/")


def main() -> None:
    severities = sys.argv[1:]
    if not severities:
        sys.exit(f"Usage: {sys.argv[0]} [info] [warning] [error]")

    with Connection(KAFKA, vhost=VHOST) as connection:
        channel = connection.channel()

        channel.declare_exchange("direct_logs", exchange_type="direct")

        result = channel.declare_queue("", exclusive=True)

        for severity in severities:
            channel.bind_queue(result.queue, "direct_logs", routing_key=severity)

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
