"""Tutorial three: send a message to every subscriber."""

import os
import sys

from streaming.client import Connection

KAFKA = os.environ.get("DLX_KAFKA", "localhost:9092")
VHOST = os.environ.get("DLX_VHOST", "/")


def main() -> None:
    with Connection(KAFKA, vhost=VHOST) as connection:
        channel = connection.channel()

        channel.declare_exchange("logs", exchange_type="fanout")

        message = " ".join(sys.argv[1:]) or "info: Hello World!"
        connection.publisher().publish(exchange="logs", routing_key="", body=message)
        print(f" [x] Sent {message}")


if __name__ == "__main__":
    main()
