"""RabbitMQ's own load generator, PerfTest: its pinned jars, and one run of it.

PerfTest counts in its metrics what was confirmed and what was consumed. It ends once its publishes
are confirmed, whatever its consumers have left, so consumers have a PerfTest of their own.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal
from urllib.error import URLError
from urllib.request import urlopen

from streaming.embedded.jvm.jars import ensure_jars
from streaming.embedded.jvm.java import find_java
from streaming.embedded.jvm.pinned_jars import read_lock
from streaming.embedded.kafka.ports import LOOPBACK, free_port
from streaming.user_folders import user_cache_folder
from tests.bench.pipeline.traffic import BODY_BYTES
from tests.bench.processes import PARTS, CpuUse, Supervised

if TYPE_CHECKING:
    from tests.bench.pipeline.rabbitmq import RabbitMQ
    from tests.bench.pipeline.traffic import Attributes

LOCK: Final = Path(__file__).parent / "perf_test.lock.toml"
TITLE: Final = "RabbitMQ PerfTest"
MAIN: Final = "com.rabbitmq.perf.PerfTest"

UNCONFIRMED: Final = 500
"""How many publishes a producer may have unconfirmed."""

MULTI_ACK: Final = 100
"""A consumer acknowledges this many messages at once."""

WAIT_S: Final = 1_800
REST_S: Final = 60
_POLL_S: Final = 0.1
_LONGEST_POLL_S: Final = 2.0
_COUNTERS: Final = {
    "confirmed": "perftest_confirm_latency_seconds_count",
    "consumed": "perftest_latency_seconds_count",
}

PROPERTIES: Final = {
    "plain": "",
    "ids": (
        "messageId=5f0c3a52-8d1b-4c6e-9b1f-000000000000,correlationId=order-100000,"
        "timestamp=2026-01-01T00:00:00+00:00,contentType=application/json"
    ),
}
"""As long as those of our messages. PerfTest cannot make them unique; RabbitMQ does not care."""


def perf_test_jars() -> list[Path]:
    """Return PerfTest's class path, downloaded if it is not in the cache."""
    folder = user_cache_folder().absolute() / "jars"
    return ensure_jars(read_lock(LOCK), folder, TITLE)


@dataclass(frozen=True)
class Load:
    """What PerfTest publishes and consumes.

    Attributes:
        queues: how the names of the queues start, such as `w`, and how many there are.
        producers: each publishes the same share of the messages.
        consumers: each consumes from one queue.
        prefetch: the limit of each consumer; 0 is none.
    """

    queues: tuple[str, int]
    messages: int
    attributes: Attributes
    producers: int
    consumers: int = 0
    prefetch: int = 0

    @property
    def total(self) -> int:
        """Messages that all producers publish together."""
        return self.messages // self.producers * self.producers

    def publishing(self) -> list[str]:
        """Return the options of the PerfTest that publishes."""
        share = str(self.messages // self.producers)
        properties = PROPERTIES[self.attributes]
        return [
            *self._options(self.producers, 0),
            *("--pmessages", share, "--confirm", str(UNCONFIRMED)),
            *("--size", str(BODY_BYTES), "--flag", "persistent"),
            *(("--message-properties", properties) if properties else ()),
        ]

    def consuming(self) -> list[str]:
        """Return the options of the PerfTest that consumes."""
        settling = ("--qos", str(self.prefetch), "--multi-ack-every", str(MULTI_ACK))
        return [*self._options(0, self.consumers), *settling]

    def _options(self, producers: int, consumers: int) -> list[str]:
        name, count = self.queues
        return [
            *("--predeclared", "--exchange", "orders", "--queue-pattern", f"{name}%d"),
            *("--queue-pattern-from", "0", "--queue-pattern-to", str(count - 1)),
            *("--producers", str(producers), "--consumers", str(consumers)),
        ]


@dataclass(frozen=True)
class PerfTestResult:
    """Messages per second, and the cores of the Erlang VM and of PerfTest meanwhile."""

    rate: float
    cores: dict[str, float]


def run_perf_test(
    rabbitmq: RabbitMQ,
    root: Path,
    load: Load,
    done: Callable[[], int] | None = None,
    *,
    known: Mapping[int, str] | None = None,
) -> PerfTestResult:
    """Publish everything, and wait until it is consumed, or until `done` reaches a number.

    Args:
        done: returns how many messages are not done yet; by default those not consumed.
        known: the processes whose time counts, and the parts that they are, beside those that a
            job has; by default the Erlang VM's alone.

    Raises:
        RuntimeError: PerfTest failed, or it took too long.
    """
    with ExitStack() as closing:

        def start(name: str, options: Sequence[str]) -> PerfTest:
            started = PerfTest(rabbitmq.url, root / f"{name}.out", options)
            closing.callback(started.stop)
            return started

        root.mkdir(parents=True, exist_ok=True)
        parts: tuple[str, ...] = () if known is None else PARTS
        if known is None:
            known = {} if rabbitmq.pid is None else {rabbitmq.pid: "rabbitmq"}
        known = dict(known)
        consumer = start("consumer", load.consuming()) if load.consumers else None
        publisher = start("publisher", load.publishing())
        known.update({each.pid: "perf_test" for each in (consumer, publisher) if each is not None})

        def left() -> int:
            if done is not None:
                return done()
            return load.total - (consumer.count("consumed") if consumer is not None else 0)

        with CpuUse(known) as cpu:
            publisher.wait_until(lambda: publisher.has_ended or publisher.count("confirmed") > 0)
            started_s = time.time()
            progress = Progress(left, load.total)
            publisher.wait_until(progress.is_done, progress.pause_s)
            ended_s = time.time()
    cores = cpu.cores(started_s, ended_s)
    names = [f"{name}_cores" for name in dict.fromkeys((*known.values(), *parts))]
    return PerfTestResult(load.total / (ended_s - started_s), {name: cores[name] for name in names})


class Progress:
    """How far a load is, asked for seldom until it is nearly done: answers cost processor time.

    Args:
        left: returns how many messages are not done yet.
        total: of all messages.
    """

    def __init__(self, left: Callable[[], int], total: int) -> None:
        self._ask = left
        self._total = self._left = total
        self._began_s = time.monotonic()

    def is_done(self) -> bool:
        """Ask whether all messages are done."""
        self._left = self._ask()
        return self._left <= 0

    def pause_s(self) -> float:
        """A quarter of the time that the rest takes at the rate until now, within bounds."""
        done = max(self._total - self._left, 1)
        rest_s = (time.monotonic() - self._began_s) * self._left / done
        return min(max(rest_s / 4, _POLL_S), _LONGEST_POLL_S)


class PerfTest:
    """One running PerfTest."""

    def __init__(self, url: str, output: Path, options: Sequence[str]) -> None:
        port = free_port()
        self._metrics = f"http://{LOOPBACK}:{port}/metrics"
        jars = os.pathsep.join(map(str, perf_test_jars()))
        metrics = ("--metrics-prometheus", "--metrics-prometheus-port", str(port))
        self._process = Supervised(
            [str(find_java().executable), "-cp", jars, MAIN, *options, *metrics],
            output,
            {"URI": url},  # with the password, so not on the command line
        )
        self.pid = self._process.pid

    def count(self, what: Literal["confirmed", "consumed"]) -> int:
        """Return how many messages were confirmed, or consumed and acknowledged; 0 at the start."""
        try:
            with urlopen(self._metrics, timeout=5) as answer:  # noqa: S310 (our own process)
                text = answer.read().decode()
        except (URLError, ConnectionError, TimeoutError):
            return 0
        found = re.search(rf"^{_COUNTERS[what]} (\S+)$", text, re.MULTILINE)
        return int(float(found[1])) if found else 0

    @property
    def has_ended(self) -> bool:
        """Whether it has published everything; RuntimeError if it failed."""
        return self._process.has_ended

    def wait_until(
        self, condition: Callable[[], bool], pause_s: Callable[[], float] = lambda: _POLL_S
    ) -> None:
        """Wait for a condition.

        Args:
            pause_s: how long to wait before the condition is asked for again.

        Raises:
            RuntimeError: PerfTest failed, or it took too long.
        """
        deadline_s = time.monotonic() + WAIT_S
        while not condition():
            if self.has_ended:  # everything is published, and RabbitMQ has to do the rest
                deadline_s = min(deadline_s, time.monotonic() + REST_S)
            if time.monotonic() > deadline_s:
                raise RuntimeError(f"PerfTest is stuck:\n{self._process.output_end()}")
            time.sleep(pause_s())

    def stop(self) -> None:
        """Stop it."""
        self._process.stop()
