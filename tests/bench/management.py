"""What the management API costs the clients of `dlx amqp`: `python -m tests.bench.management`.

    10,000 queues; PerfTest publishes 5,000 messages a second to five of them and consumes them
    in turns:  nobody asks the API  |  ten clients ask it once a second each

The ratio of the 99th percentiles of a confirm with and without them is what counts, since both see
the same machine. One more client then asks for all queues, and for a page of 100, under that load.

The clients of the API have the lowest priority, since they are on other machines elsewhere.
"""

import argparse
import base64
import json
import multiprocessing
import os
import sys
import threading
import time
from contextlib import ExitStack, contextmanager
from http.client import HTTPConnection
from multiprocessing.synchronize import Event
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

from streaming.embedded.kafka.ports import LOOPBACK, free_port
from tests.bench.amqp import Run, measure, perf_test
from tests.bench.processes import Process
from tests.fixtures.fronts import Fronts
from tests.fixtures.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

QUEUES: Final = 10_000
BUSY: Final = 5
"""Queues with traffic."""

RATE: Final = 1_000
"""Messages a second to each of them."""

PAGE: Final = "/api/queues?page=1&page_size=100"
LIST: Final = "/api/queues"
MIXES: Final = {
    "pages": (PAGE, "/api/overview", "/api/connections?page=1", "/api/nodes", "/api/queues/%2F/q7"),
    "lists": (LIST,),
}
"""What the clients ask for, in turn."""

CLIENTS: Final = 10
_HEADERS: Final = {"authorization": "Basic " + base64.b64encode(b"guest:guest").decode()}


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


def poll(port: int, paths: tuple[str, ...], here: Event) -> None:
    """Ask once a second each, as ten clients, while they are there."""
    os.nice(19)
    for number in range(CLIENTS):
        threading.Thread(target=_client, args=(port, paths, number, here), daemon=True).start()
    threading.Event().wait()


def _client(port: int, paths: tuple[str, ...], number: int, here: Event) -> None:
    time.sleep(number / CLIENTS)
    turn = number
    while here.wait():
        connection = HTTPConnection(LOOPBACK, port, timeout=60)
        while here.is_set():
            began_s = time.monotonic()
            fetch(connection, paths[turn % len(paths)])
            turn += 1
            time.sleep(max(0.0, 1 - (time.monotonic() - began_s)))
        connection.close()


@contextmanager
def polling(port: int, paths: tuple[str, ...]) -> "Iterator[Event]":
    """Clients that ask while the event is set."""
    context = multiprocessing.get_context("spawn")
    here = context.Event()
    process = context.Process(target=poll, args=(port, paths, here), daemon=True)
    process.start()
    try:
        yield here
    finally:
        process.kill()
        process.join()


def times_ms(port: int, path: str, count: int) -> list[float]:
    """How long each of some requests took, one after the other, a second apart."""
    connection = HTTPConnection(LOOPBACK, port, timeout=60)
    found = []
    for _ in range(count):
        began_s = time.monotonic()
        fetch(connection, path)
        found.append((time.monotonic() - began_s) * 1000)
        time.sleep(1.1)  # longer than an answer is shared
    return sorted(found)


class Broker:
    """A broker of ours in memory, or on a Kafka of its own, with its API."""

    def __init__(self, closing: ExitStack, *, on_kafka: bool) -> None:
        root = Path(closing.enter_context(TemporaryDirectory()))
        self.port, self.api = free_port(), free_port()
        where = ["--port", str(self.port), "--management", str(self.api)]
        if on_kafka:
            from streaming.embedded.kafka.broker import EmbeddedKafka

            kafka = closing.enter_context(EmbeddedKafka(root / "kafka"))
            fronts = Fronts(root / "front", kafka.bootstrap_servers)
            where += ["--config", str(fronts.file)]
        else:
            where.append("--memory")
        broker = Process(root, "broker", "streaming.cli", "amqp", *where)
        broker.start()
        closing.callback(broker.stop)
        signs = ("listening on", "management at")
        wait_until(lambda: all(one in broker.log_end() for one in signs), broker.log_end)
        connection = HTTPConnection(LOOPBACK, self.api, timeout=60)
        document = {
            "queues": [
                {"name": f"q{number}", "vhost": "/", "durable": True, "arguments": {}}
                for number in range(QUEUES)
            ]
        }
        connection.request("POST", "/api/definitions", json.dumps(document), headers=_HEADERS)
        response = connection.getresponse()
        assert response.status == 204, response.read()
        response.read()

    @property
    def url(self) -> str:
        """Where its clients connect."""
        return f"amqp://guest:guest@{LOOPBACK}:{self.port}/%2F"


def main() -> int:
    """Measure and print figures and ratios."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.management", description=__doc__)
    parser.add_argument("--seconds", type=int, default=15, help="of each run")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--mix", choices=MIXES, default="pages", help="what the clients ask for")
    parser.add_argument("--kafka", action="store_true", help="on Kafka instead of in memory")
    options = parser.parse_args()
    command = perf_test()
    runs: dict[str, list[Run]] = {"quiet": [], "polled": []}
    with ExitStack() as closing:
        broker = Broker(closing, on_kafka=options.kafka)
        here = closing.enter_context(polling(broker.api, MIXES[options.mix]))

        def traffic() -> Run:
            return measure(command, broker.url, BUSY, options.seconds, RATE, durable=options.kafka)

        traffic()  # not counted: the JVM's files are read, the broker is warm
        for number in range(options.rounds):
            for name in ("quiet", "polled") if number % 2 else ("polled", "quiet"):
                (here.set if name == "polled" else here.clear)()
                runs[name].append(traffic())
        here.clear()
        answers: dict[str, list[float]] = {}
        for path in (LIST, PAGE):
            thread = threading.Thread(target=traffic)
            thread.start()
            time.sleep(3)
            answers[path] = times_ms(broker.api, path, max(options.seconds - 5, 2))
            thread.join()
    _print(runs, answers)
    return 0


def _print(runs: dict[str, list[Run]], answers: dict[str, list[float]]) -> None:
    for name, each in runs.items():
        p50s, p99s = zip(*(run.confirm_ms for run in each), strict=True)
        print(
            f"{name}: {median(run.rate for run in each):,.0f} messages/s, confirm p50 "
            f"{median(p50s):.2f} ms, p99 {median(p99s):.2f} ms "
            f"({', '.join(f'{one:.1f}' for one in p99s)}), "
            f"{median(run.cpu_us for run in each):.0f} us of processor time a message"
        )
    pairs = zip(runs["quiet"], runs["polled"], strict=True)
    ratios = [polled.confirm_ms[1] / quiet.confirm_ms[1] for quiet, polled in pairs]
    print(f"p99 polled / quiet: {median(ratios):.2f} (goal 1.2)")
    for path, found in answers.items():
        print(f"{path}: median {median(found):.0f} ms, at most {found[-1]:.0f} ms")


if __name__ == "__main__":
    sys.exit(main())
