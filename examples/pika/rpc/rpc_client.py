"""Tutorial six: ask for the 20th Fibonacci number."""

import os
import uuid

from streaming.client import Connection, Delivery

KAFKA = os.environ.get("DLX_KAFKA", "localhost:9092")
VHOST = os.environ.get("DLX_VHOST", "/")


class FibonacciRpcClient:
    def __init__(self, connection: Connection) -> None:
        self.channel = connection.channel()
        self.publisher = connection.publisher()

        result = self.channel.declare_queue("", exclusive=True)
        self.callback_queue = result.queue

        self.channel.consume(self.callback_queue, self.on_response, auto_ack=True)

        self.responses: list[bytes] = []
        self.corr_id = ""

    def on_response(self, delivery: Delivery) -> None:
        if self.corr_id == delivery.properties["correlation_id"]:
            self.responses.append(delivery.body)
            self.channel.stop_consuming()

    def call(self, n: int) -> int:
        self.corr_id = str(uuid.uuid4())
        self.publisher.publish(
            exchange="",
            routing_key="rpc_queue",
            properties={"reply_to": self.callback_queue, "correlation_id": self.corr_id},
            body=str(n),
        )
        while not self.responses:
            self.channel.start_consuming()
        return int(self.responses.pop())


def main() -> None:
    with Connection(KAFKA, vhost=VHOST) as connection:
        fibonacci_rpc = FibonacciRpcClient(connection)

        print(" [x] Requesting fib(20)")
        response = fibonacci_rpc.call(20)
        print(f" [.] Got {response}")


if __name__ == "__main__":
    main()
