"""What the management API costs the clients of `dlx amqp`: `python -m tests.bench.management`.

    10,000 queues; 5,000 messages a second through five of them, and a probe that waits for confirms
    in turns:  nobody asks the API  |  ten clients ask it once a second each

The ratio of the 99th percentiles of the probe's confirms with and without them is what counts,
since both see the same machine. One more client then asks for all queues, and for a page of 100,
under that load. Clients of the API have a low priority: they are on other machines elsewhere.
"""

import argparse
import base64
import json
import multiprocessing
import os
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from http.client import HTTPConnection
from multiprocessing.synchronize import Event
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, Final

import psutil

from streaming.amqp import methods as m
from streaming.amqp.frames import METHOD, frame
from streaming.amqp.method_codec import write_method
from streaming.embedded.kafka.broker import EmbeddedKafka
from streaming.embedded.kafka.ports import LOOPBACK, free_port
from tests.amqp_client import content_frames
from tests.bench.front_state import Client
from tests.bench.processes import Process
from tests.fixtures.fronts import Fronts
from tests.fixtures.waiting import wait_until

QUEUES: Final = 10_000
BUSY: Final = 5
"""Queues with traffic."""

RATE: Final = 1_000
"""Messages a second to each of them."""

TICK_S: Final = 0.01
PROBE_S: Final = 0.005
"""The time between two publishes of the probe, at least."""

PAGE: Final = "/api/queues?page=1&page_size=100"
LIST: Final = "/api/queues"
MIXES: Final = {
    "pages": (PAGE, "/api/overview", "/api/connections?page=1", "/api/nodes", "/api/queues/%2F/q7"),
    "sorted": (f"{PAGE}&sort=messages&sort_reverse=true", f"{PAGE}&name=q7&use_regex=true"),
    "lists": (LIST,),
}
"""What the clients ask for, in turn."""

CLIENTS: Final = 10
_HEADERS: Final = {"authorization": "Basic " + base64.b64encode(b"guest:guest").decode()}
_JSON: Final = _HEADERS | {"content-type": "application/json"}
_BODY: Final = b"x" * 200


class Traffic(Client):
    """A connection that publishes or consumes as the bench wants."""

    def publish_for_ever(self, queue: str) -> None:
        """Publish at the rate, whatever the broker does."""
        self.ask(m.ConfirmSelect(), m.ConfirmSelectOk)
        threading.Thread(target=self._discard, daemon=True).start()
        some = _message(queue) * round(RATE * TICK_S)
        next_s = time.monotonic()
        while True:
            self._socket.sendall(some)
            next_s += TICK_S
            time.sleep(max(0.0, next_s - time.monotonic()))

    def consume_for_ever(self, queue: str) -> None:
        """Consume without acks."""
        self.ask(m.BasicConsume(0, queue, no_ack=True), m.BasicConsumeOk)
        self._discard()

    def confirm_ms(self, message: bytes) -> float:
        """How long a confirm takes."""
        began_s = time.perf_counter()
        self._socket.sendall(message)
        self._wait_for(m.BasicAck)
        return (time.perf_counter() - began_s) * 1000

    def _discard(self) -> None:
        while self._socket.recv(1 << 18):
            pass


def _message(queue: str) -> bytes:
    method = frame(METHOD, 1, write_method(m.BasicPublish(0, "", queue)))
    return method + content_frames(1, _BODY, {"delivery_mode": 2})


def run_traffic(port: int) -> None:
    """Publish to the busy queues and consume from them, for ever."""
    for number in range(BUSY):
        for act in (Traffic.consume_for_ever, Traffic.publish_for_ever):
            args = (Traffic(port), f"q{number}")
            threading.Thread(target=act, args=args, daemon=True).start()
    threading.Event().wait()


def fetch(connection: HTTPConnection, path: str) -> bytes:
    """The answer at a path.

    Raises:
        RuntimeError: it is not 200.
    """
    connection.request("GET", path, headers=_HEADERS)
    response = connection.getresponse()
    body = response.read()
    if response.status != 200:
        raise RuntimeError(f"{path}: {response.status} {body[:200]!r}")
    return body


def poll(port: int, paths: tuple[str, ...], here: Event, polls: Any) -> None:
    """Ask once a second each, as ten clients, while they are there."""
    os.nice(5)
    for number in range(CLIENTS):
        args = (port, paths, number, here, polls)
        threading.Thread(target=_client, args=args, daemon=True).start()
    threading.Event().wait()


def _client(port: int, paths: tuple[str, ...], number: int, here: Event, polls: Any) -> None:
    time.sleep(number / CLIENTS)
    turn = number
    while here.wait():
        connection = HTTPConnection(LOOPBACK, port, timeout=60)
        while here.is_set():
            began_s = time.monotonic()
            fetch(connection, paths[turn % len(paths)])
            turn += 1
            with polls.get_lock():
                polls.value += 1
            time.sleep(max(0.0, 1 - (time.monotonic() - began_s)))
        connection.close()


@contextmanager
def running(target: Any, *args: Any) -> Iterator[None]:
    """Run something in a process of its own."""
    process = multiprocessing.get_context("spawn").Process(target=target, args=args, daemon=True)
    process.start()
    try:
        yield
    finally:
        process.kill()
        process.join()


class Broker:
    """A broker of ours in memory, or on a Kafka of its own, with its API."""

    def __init__(self, closing: ExitStack, *, on_kafka: bool) -> None:
        root = Path(closing.enter_context(TemporaryDirectory()))
        self.port, self.api = free_port(), free_port()
        where = ["--port", str(self.port), "--management", str(self.api)]
        if on_kafka:
            kafka = closing.enter_context(EmbeddedKafka(root / "kafka"))
            fronts = Fronts(root, kafka.bootstrap_servers)
            where += ["--config", str(fronts.file)]
        else:
            where.append("--memory")
        broker = Process(root, "broker", "streaming.cli", "amqp", *where)
        broker.start()
        closing.callback(broker.stop)
        signs = ("listening on", "management at")
        wait_until(lambda: all(one in broker.log_end() for one in signs), broker.log_end)
        assert broker.pid is not None
        self._process = psutil.Process(broker.pid)
        names = (f"q{number}" for number in range(QUEUES))
        queues = [{"name": one, "vhost": "/", "durable": True, "arguments": {}} for one in names]
        connection = HTTPConnection(LOOPBACK, self.api, timeout=60)
        body = json.dumps({"queues": queues})
        connection.request("POST", "/api/definitions", body, headers=_JSON)
        response = connection.getresponse()
        assert response.status == 204, (response.status, response.read())

    def cpu_s(self) -> float:
        """The processor time that it has taken."""
        times = self._process.cpu_times()
        return float(times.user + times.system)

    def times_ms(self, path: str, count: int) -> list[float]:
        """How long each of some requests took, one after the other, a second apart."""
        connection = HTTPConnection(LOOPBACK, self.api, timeout=60)
        found = []
        for _ in range(count):
            began_s = time.monotonic()
            fetch(connection, path)
            found.append((time.monotonic() - began_s) * 1000)
            time.sleep(1.1)  # longer than an answer is shared
        return sorted(found)


class Stretch:
    """What was measured while nobody, or everybody, asked the API."""

    def __init__(self) -> None:
        self.confirms_ms: list[float] = []
        self.cpu_s = self.seconds = 0.0

    def probe(self, broker: Broker, client: Traffic, seconds: float) -> None:
        """Probe for a while."""
        message = _message("q9999")
        before_s, began_s = broker.cpu_s(), time.monotonic()
        while time.monotonic() - began_s < seconds:
            took_ms = client.confirm_ms(message)
            self.confirms_ms.append(took_ms)
            time.sleep(max(0.0, PROBE_S - took_ms / 1000))
        self.cpu_s += broker.cpu_s() - before_s
        self.seconds += time.monotonic() - began_s

    def percentile(self, share: float) -> float:
        """A percentile of the confirms."""
        return sorted(self.confirms_ms)[int(share * (len(self.confirms_ms) - 1))]

    def __str__(self) -> str:
        shown = ", ".join(f"p{share * 100:g} {self.percentile(share):.2f} ms" for share in _SHARES)
        cores = self.cpu_s / self.seconds
        return f"{len(self.confirms_ms):,} confirms, {shown}; {cores:.2f} cores of the broker"


_SHARES: Final = (0.5, 0.9, 0.99, 0.999)


def main() -> int:
    """Measure and print figures and ratios."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.management", description=__doc__)
    parser.add_argument("--seconds", type=float, default=4, help="of each turn")
    parser.add_argument("--turns", type=int, default=10, help="with, and as many without clients")
    parser.add_argument("--mixes", nargs="*", choices=MIXES, default=list(MIXES))
    parser.add_argument("--kafka", action="store_true", help="on Kafka instead of in memory")
    options = parser.parse_args()
    with ExitStack() as closing:
        broker = Broker(closing, on_kafka=options.kafka)
        closing.enter_context(running(run_traffic, broker.port))
        client = Traffic(broker.port)
        client.ask(m.ConfirmSelect(), m.ConfirmSelectOk)
        Stretch().probe(broker, client, 3)  # not counted: everything is warm then
        for mix in options.mixes:
            _measure(broker, client, mix, options)
        for path in (LIST, PAGE):
            _print(path, broker.times_ms(path, 10))
    return 0


def _measure(broker: Broker, client: Traffic, mix: str, options: argparse.Namespace) -> None:
    context = multiprocessing.get_context("spawn")
    here, polls = context.Event(), context.Value("i", 0)
    quiet, polled = Stretch(), Stretch()
    with running(poll, broker.api, MIXES[mix], here, polls):
        for _ in range(options.turns):
            here.clear()
            time.sleep(1)
            quiet.probe(broker, client, options.seconds)
            here.set()
            time.sleep(1)
            polled.probe(broker, client, options.seconds)
    print(f"{mix}: {polls.value / (options.turns * (options.seconds + 1)):.1f} requests a second")
    print(f"  without: {quiet}\n  with:    {polled}")
    ratio = polled.percentile(0.99) / quiet.percentile(0.99)
    print(f"  p99 with / without: {ratio:.2f} (goal 1.2)", flush=True)


def _print(path: str, found: Sequence[float]) -> None:
    print(f"{path}: median {median(found):.0f} ms, at most {found[-1]:.0f} ms", flush=True)


if __name__ == "__main__":
    sys.exit(main())
