"""Tutorial two: work on tasks; each dot of a message takes a second."""

import os
import time

from streaming.client import Connection, Delivery

KAFKA = os.environ.get("DLX_KAFKA", "localhost:9092")
VHOST = os.environ.get("DLX_VHOST", "/")


def callback(delivery: Delivery) -> None:
    print(f" [x] Received {delivery.body.decode()}")
    time.sleep(delivery.body.count(b"."))
    print(" [x] Done")
    delivery.ack()


def main() -> None:
    with Connection(KAFKA, vhost=VHOST) as connection:
        channel = connection.channel()

        channel.declare_queue("task_queue", durable=True)

        channel.consume("task_queue", callback, prefetch=1)

        print(" [*] Waiting for messages. To exit press CTRL+C")
        channel.start_consuming()


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        print("Interrupted")
