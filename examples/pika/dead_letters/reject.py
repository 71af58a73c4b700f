"""Dead-lettering: reject a message, and read why it is in the other queue."""

import os

from streaming.client import Connection

KAFKA = os.environ.get("DLX_KAFKA", "localhost:9092")
VHOST = os.environ.get("DLX_VHOST", "/")


def main() -> None:
    with Connection(KAFKA, vhost=VHOST) as connection:
        channel = connection.channel()

        channel.declare_exchange("dlx", exchange_type="direct")
        channel.declare_queue("dead")
        channel.bind_queue("dead", "dlx", routing_key="orders")

        arguments = {"x-dead-letter-exchange": "dlx", "x-message-ttl": 60_000}
        channel.declare_queue("orders", arguments=arguments)

        connection.publisher().publish(exchange="", routing_key="orders", body="order 1").result()

        for delivery in channel.consume("orders"):
            delivery.reject(requeue=False)
            break

        for delivery in channel.consume("dead"):
            death = delivery.x_death[0]
            print(f" [x] {delivery.body.decode()}: {death.reason} in {death.queue}")
            delivery.ack()
            break


if __name__ == "__main__":
    main()
