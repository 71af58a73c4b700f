"""Tutorial five: send a message with a routing key."""

import os
import sys

from streaming.client import Connection

KAFKA = os.environ.get("DLX_KAFKA", "localhost:9092")
VHOST = os.environ.get("DLX_VHOST", "/")


def main() -> None:
    with Connection(KAFKA, vhost=VHOST) as connection:
        channel = connection.channel()

        channel.declare_exchange("topic_logs", exchange_type="topic")

        routing_key = sys.argv[1] if len(sys.argv) > 1 else "anonymous.info"
        message = " ".join(sys.argv[2:]) or "Hello World!"
        connection.publisher().publish(exchange="topic_logs", routing_key=routing_key, body=message)
        print(f" [x] Sent {routing_key}:{message}")


if __name__ == "__main__":
    main()
