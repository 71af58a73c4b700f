"""Tutorial two: queue a task."""

import os
import sys

from streaming.client import Connection

KAFKA = os.environ.get("DLX_KAFKA", "localhost:9092")
VHOST = os.environ.get("DLX_VHOST", "/")


def main() -> None:
    with Connection(KAFKA, vhost=VHOST) as connection:
        channel = connection.channel()

        channel.declare_queue("task_queue", durable=True)

        message = " ".join(sys.argv[1:]) or "Hello World!"
        connection.publisher().publish(
            exchange="",
            routing_key="task_queue",
            body=message,
            properties={"delivery_mode": 2},
        )
        print(f" [x] Sent {message}")


if __name__ == "__main__":
    main()
