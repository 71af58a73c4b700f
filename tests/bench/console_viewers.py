"""Measures what viewers of the console beside a job cost the job.

    python -m tests.bench.console_viewers [--viewers 20] [--batches 64] [--rows 10000]

A job works through a full topic as fast as it can, so its batches need all cores. Viewers come and
go in turns: each follows the events and fetches its page after each batch, as a browser does. The
ratio is that of the medians of batch times with and without them. It fails above 1.05.

The viewers are a process of the lowest priority, since their browsers are on other machines.
"""

import argparse
import json
import logging
import multiprocessing
import os
import queue
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPConnection, HTTPException
from itertools import pairwise
from logging.handlers import QueueHandler
from multiprocessing.synchronize import Event
from pathlib import Path
from statistics import median
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from streaming.config.console import ConsoleSettings
from streaming.config.metrics import split_address
from streaming.console import beside_job
from streaming.console.beside_job import ConsoleProcess, yield_to_job
from streaming.embedded.kafka.ports import free_port
from streaming.user_folders import user_state_folder
from tests.bench.pipeline.environment import BenchEnvironment, RunningJob
from tests.bench.pipeline.traffic import Shape, declarations

MAX_RATIO: Final = 1.05
WARM_UP: Final = 12
"""Batches that are not measured: the JVMs compile."""

SHARE: Final = 10
"""A page is fetched again once ten times its own time has passed: see console.js."""

LINK_S: Final = 60
TOPIC: Final = "viewed"
PAGES: Final = (
    *("/", "/queues", "/queue?queue=w1", "/queue?queue=dlq", "/causes", "/search"),
    *("/definitions", "/topology", "/redrives", "/health", "/balance"),
)


class Sizes(NamedTuple):
    """How much is measured; viewers come or go after each `turn` batches."""

    viewers: int = 20
    batches: int = 64
    rows: int = 10_000
    turn: int = 8


class Viewer(threading.Thread):
    """Follows one page while viewers are there.

    Attributes:
        took_s: how long each fetch took.
    """

    def __init__(self, address: str, cookie: str, page: str, here: Event) -> None:
        super().__init__(daemon=True)
        self.took_s: list[float] = []
        self._address = address
        self._headers = {"cookie": cookie, "hx-request": "true"}
        self._page = page
        self._here = here

    def run(self) -> None:
        """Come and go for ever."""
        while self._here.wait():
            with suppress(OSError, HTTPException):
                self._follow()

    def _follow(self) -> None:
        events = HTTPConnection(self._address, timeout=30)
        events.request("GET", "/events", headers=self._headers)
        told = events.getresponse()
        next_s = 0.0
        while self._here.is_set():
            line = told.readline()
            if not line:
                break
            if line.startswith(b"data:") and time.monotonic() >= next_s:
                started_s = time.monotonic()
                self._fetch()
                took_s = time.monotonic() - started_s
                self.took_s.append(took_s)
                next_s = started_s + SHARE * took_s
        events.close()

    def _fetch(self) -> None:
        connection = HTTPConnection(self._address, timeout=60)
        connection.request("GET", self._page, headers=self._headers)
        answer = connection.getresponse()
        answer.read()
        connection.close()
        assert answer.status == 200, f"{self._page}: {answer.status}"


def watch(address: str, cookie: str, viewers: int, here: Event, end: Event, said: Any) -> None:
    """Run viewers in this process until the end; then say how long their fetches took."""
    os.setsid()
    yield_to_job()
    all_of_them = [
        Viewer(address, cookie, PAGES[number % len(PAGES)], here) for number in range(viewers)
    ]
    for one in all_of_them:
        one.start()
    said.put(viewers)
    end.wait()
    said.put([took_s for one in all_of_them for took_s in one.took_s])


@contextmanager
def console_beside(environment: BenchEnvironment, tables: str) -> Iterator[tuple[str, str]]:
    """Start the console as a job does; yield its address and the cookie of a session."""
    listen = f"127.0.0.1:{free_port()}"
    file = environment.root / "dlx.toml"
    file.write_text(
        f"[job]\ntables_location = {json.dumps(tables)}\n"
        f"[kafka]\nbootstrap_servers = [{json.dumps(environment.servers)}]\n"
        f'[console]\nlisten = "{listen}"\n'
    )
    messages: queue.Queue[logging.LogRecord] = queue.Queue()
    logger, handler = logging.getLogger(beside_job.__name__), QueueHandler(messages)
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    console = ConsoleProcess(ConsoleSettings(listen=listen), file)
    try:
        messages.get(timeout=LINK_S)  # it has begun; the link is in a file, not in the log
        own = user_state_folder() / "console" / f"link-{split_address(listen)[1]}"
        link = urlsplit(own.read_text().strip())
        connection = HTTPConnection(listen, timeout=LINK_S)
        connection.request("GET", f"{link.path}?{link.query}")
        answer = connection.getresponse()
        cookie = str(answer.getheader("set-cookie")).partition(";")[0]
        assert "=" in cookie, f"the link does not log in: {answer.status}"
        connection.close()
        yield listen, cookie
    finally:
        console.stop()
        logger.removeHandler(handler)


def measure(root: Path, sizes: Sizes) -> dict[str, Any]:
    """Run the job; the median batch with and without viewers, and what they saw."""
    shape = Shape(death="length", max_length=100)
    with BenchEnvironment(root) as environment:
        total = (WARM_UP + sizes.batches) * sizes.rows
        environment.traffic.create_topic(TOPIC, environment.cores)
        environment.declare(TOPIC, declarations(shape))
        environment.traffic.publish(TOPIC, shape, total, environment.cores)
        config = environment.config(TOPIC, TOPIC, batch_rows=sizes.rows)
        context = multiprocessing.get_context("spawn")
        here, end, said = context.Event(), context.Event(), context.Queue()
        with (
            environment.job(config) as job,
            console_beside(environment, config.job.tables_location) as (address, cookie),
        ):
            arguments = (address, cookie, sizes.viewers, here, end, said)
            viewers = context.Process(target=watch, args=arguments, daemon=True)
            viewers.start()
            said.get()  # they are ready, which takes a while at this priority
            job.wait_until(lambda: len(job.batches) >= WARM_UP)
            switched = _take_turns(job, sizes, here, total)
            here.clear()
            end.set()
            took_s = said.get()
            viewers.join()
    times = _batch_times(job, switched)
    with_s, without_s = median(times[True]), median(times[False])
    return {
        "viewers": sizes.viewers,
        "batches_with": len(times[True]),
        "batches_without": len(times[False]),
        "with_s": round(with_s, 3),
        "without_s": round(without_s, 3),
        "ratio": round(with_s / without_s, 3),
        "pages_fetched": len(took_s),
        "page_s": round(median(took_s), 3) if took_s else None,
    }


def _take_turns(job: RunningJob, sizes: Sizes, here: Event, total: int) -> list[int]:
    """Let viewers come and go until the topic is read; the batches before which they did."""
    switched: list[int] = []
    while job.published < total:
        count = len(job.batches)
        switched.append(count)
        if here.is_set():
            here.clear()
        else:
            here.set()
        job.wait_until(
            lambda: job.published >= total or len(job.batches) >= switched[-1] + sizes.turn
        )
    return switched


def _batch_times(job: RunningJob, switched: list[int]) -> dict[bool, list[float]]:
    """The time of each batch, by whether viewers were there; the first of each turn is left out."""
    found: dict[bool, list[float]] = {True: [], False: []}
    rows = Counter(batch.publishes for batch in job.batches).most_common(1)[0][0]
    for number, (before, batch) in enumerate(pairwise(job.batches), start=1):
        turns = [turn for turn, first in enumerate(switched) if first < number]
        if not turns or number == switched[turns[-1]] + 1 or batch.publishes != rows:
            continue
        found[turns[-1] % 2 == 0].append(batch.at_s - before.at_s)
    return found


def main() -> None:
    """Read the options and measure."""
    options = argparse.ArgumentParser(description=__doc__)
    for name, default in Sizes()._asdict().items():
        options.add_argument(f"--{name}", type=int, default=default)
    sizes = Sizes(**vars(options.parse_args()))
    with tempfile.TemporaryDirectory(prefix="dlx-viewers-") as folder:
        found = measure(Path(folder), sizes)
    print(json.dumps(found))
    if not found["pages_fetched"]:
        sys.exit("no viewer got a page: the machine does too much besides")
    if found["ratio"] > MAX_RATIO:
        sys.exit(f"{found['ratio']} is more than {MAX_RATIO}")


if __name__ == "__main__":
    main()
