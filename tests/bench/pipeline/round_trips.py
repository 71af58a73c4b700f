"""How long one client waits for one answer after the other: confirms, declarations, gets and RPC.

    client --request--> front or RabbitMQ --> server's queue --> server
       ^                                                            |
       +------------- amq.rabbitmq.reply-to (direct) <--------------+

Client and server are processes of their own, with pika. What they need themselves is in the
figures, too, and is the same for all that they ask.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import pika
from pika.exceptions import AMQPError

from tests.bench.pipeline.figures import Figures, percentile
from tests.bench.pipeline.traffic import BODY_BYTES

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from pika.adapters.blocking_connection import BlockingChannel

WARM_UP: Final = 50
_QUEUE: Final = "round-trips"
_SERVER: Final = "round-trips.rpc"
_REPLY_TO: Final = "amq.rabbitmq.reply-to"
_BODY: Final = bytes(BODY_BYTES)
_PERSISTENT: Final = pika.BasicProperties(delivery_mode=2)


def round_trips(url: str, count: int) -> Figures:
    """Measure medians and 99th percentiles in milliseconds, of `count` round trips each."""
    context = multiprocessing.get_context("spawn")
    mine, theirs = context.Pipe()
    server = context.Process(target=_serve, args=(url, theirs), daemon=True)
    server.start()
    mine.recv()
    client_end, other_end = context.Pipe()
    client = context.Process(target=_ask, args=(url, count, other_end), daemon=True)
    client.start()
    found: dict[str, list[float]] = client_end.recv()
    client.join()
    mine.send(None)
    server.join()
    return {
        f"{name}_p{share * 100:.0f}_ms": round(percentile(waited, share), 2)
        for name, waited in found.items()
        for share in (0.5, 0.99)
    }


def _channel(url: str) -> BlockingChannel:
    parameters = pika.URLParameters(url)
    parameters.heartbeat = 0
    return pika.BlockingConnection(parameters).channel()


def _serve(url: str, orders: Connection) -> None:
    """Answer requests until the other side says that it has ended."""
    channel = _channel(url)
    channel.queue_declare(_SERVER, auto_delete=True)

    def answer(_channel: Any, method: Any, properties: Any, body: bytes) -> None:
        channel.basic_publish("", properties.reply_to, body)
        channel.basic_ack(method.delivery_tag)

    channel.basic_consume(_SERVER, answer)
    orders.send(None)
    with suppress(EOFError, AMQPError):
        while not orders.poll(0):
            channel.connection.process_data_events(0.1)
        channel.connection.close()


def _ask(url: str, count: int, results: Connection) -> None:
    confirming, asking = _channel(url), _channel(url)
    confirming.confirm_delivery()
    confirming.queue_declare(_QUEUE, durable=True)
    answers: list[bytes] = []
    asking.basic_consume(_REPLY_TO, lambda *got: answers.append(got[3]), auto_ack=True)

    def publish() -> None:
        confirming.basic_publish("", _QUEUE, _BODY, _PERSISTENT)

    def get() -> None:
        confirming.basic_get(_QUEUE, auto_ack=True)

    def declare() -> None:
        confirming.queue_declare(f"{_QUEUE}.{time.time_ns()}", exclusive=True)

    def call() -> None:
        asking.basic_publish("", _SERVER, _BODY, pika.BasicProperties(reply_to=_REPLY_TO))
        while not answers:
            asking.connection.process_data_events(None)
        answers.clear()

    steps: dict[str, Callable[[], None]] = {
        "confirm": publish,
        "get": get,
        "declare": declare,
        "rpc": call,
    }
    found = {name: _waited(step, count) for name, step in steps.items()}
    confirming.queue_delete(_QUEUE)
    for channel in (confirming, asking):
        channel.connection.close()
    results.send(found)


def _waited(step: Callable[[], None], count: int) -> list[float]:
    """How long each of so many steps took, in milliseconds, after some that do not count."""
    waited = []
    for _ in range(min(WARM_UP, count) + count):
        began_s = time.perf_counter()
        step()
        waited.append((time.perf_counter() - began_s) * 1_000)
    return waited[-count:]
