"""Tutorial six: answer requests."""

import os

from streaming.client import Connection, Delivery

KAFKA = os.environ.get("DLX_KAFKA", "localhost:9092")
VHOST = os.environ.get("DLX_VHOST", "/")


def fib(n: int) -> int:
    return n if n in {0, 1} else fib(n - 1) + fib(n - 2)


def main() -> None:
    with Connection(KAFKA, vhost=VHOST) as connection:
        channel = connection.channel()
        publisher = connection.publisher()

        channel.declare_queue("rpc_queue")

        def on_request(delivery: Delivery) -> None:
            n = int(delivery.body)

            print(f" [.] fib({n})")
            response = fib(n)

            publisher.publish(
                exchange="",
                routing_key=delivery.properties["reply_to"],
                properties={"correlation_id": delivery.properties["correlation_id"]},
                body=str(response),
            )
            delivery.ack()

        channel.consume("rpc_queue", on_request, prefetch=1)

        print(" [x] Awaiting RPC requests")
        channel.start_consuming()


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        print("Interrupted")
