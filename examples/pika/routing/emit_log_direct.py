"""Tutorial four: send a message with a severity."""

import os
import sys

from streaming.client import Connection

KAFKA = os.environ.get("DLX_KAFKA", "localhost:9092")
VHOST = os.environ.get("DLX_VHOST", "/")


def main() -> None:
    with Connection(KAFKA, vhost=VHOST) as connection:
        channel = connection.channel()

        channel.declare_exchange("direct_logs", exchange_type="direct")

        severity = sys.argv[1] if len(sys.argv) > 1 else "info"
        message = " ".join(sys.argv[2:]) or "Hello World!"
        connection.publisher().publish(exchange="direct_logs", routing_key=severity, body=message)
        print(f" [x] Sent {severity}:{message}")


if __name__ == "__main__":
    main()
