"""RabbitMQ's own load generator against two brokers in turn: `python -m tests.bench.amqp`.

PerfTest publishes with confirms, consumes and acks messages of 200 bytes: as fast as it can through
1 and 10 queues, and 1,000 a second for the latency of a confirm. The brokers take turns on the same
cores, so that other load on the machine affects both; what counts is the ratio. The processor time
of a broker for one message says what it costs, whatever else runs.
"""

import argparse
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

import psutil

from streaming.embedded.jvm.java import find_java
from streaming.embedded.kafka.ports import LOOPBACK, free_port
from tests.bench.pipeline.perf_test import MAIN, UNCONFIRMED, perf_test_jars
from tests.bench.pipeline.rabbitmq import listener
from tests.bench.pipeline.traffic import BODY_BYTES
from tests.bench.processes import Process
from tests.fixtures.waiting import wait_until

WINDOW: Final = UNCONFIRMED
"""Unacked deliveries of each consumer, as many as unconfirmed publishes of each producer."""

STEADY_RATE: Final = 1_000

_CONFIRMED: Final = re.compile(r"confirm latency[^\n]*?([\d./]+) (µs|ms)")


class Run(NamedTuple):
    """What PerfTest measured once.

    Attributes:
        rate: messages a second that were consumed.
        confirm_ms: latency of a confirm: median and 99th percentile.
        second_p99_ms: the 99th percentile within a second: the median of all seconds but the
            first, in which PerfTest's Java warms up.
        cpu_us: processor time of the broker for each message; 0 if it is on another machine.
    """

    rate: int
    confirm_ms: tuple[float, float]
    second_p99_ms: float
    cpu_us: float


def perf_test() -> list[str]:
    """The command of PerfTest; its jars are fetched unless they are in the cache."""
    jars = os.pathsep.join(map(str, perf_test_jars()))
    return [str(find_java().executable), "-cp", jars, MAIN]


def measure(
    command: Sequence[str],
    url: str,
    queues: int,
    seconds: int,
    rate: int = 0,
    *,
    durable: bool = False,
) -> Run:
    """Run PerfTest once: a publisher and a consumer for each queue.

    Args:
        rate: publishes a second of each publisher; 0 for as many as it can.
        durable: queues are durable, and messages persistent.

    Raises:
        RuntimeError: it failed, or printed no summary.
    """
    options = ["--uri", url, "--size", str(BODY_BYTES), "--time", str(seconds)]
    options += ["--confirm", str(UNCONFIRMED), "--qos", str(WINDOW), "--id", "dlx"]
    options += ["--queue-pattern", "dlx-perf-%d", "--queue-pattern-from", "1"]
    options += ["--queue-pattern-to", str(queues)]
    options += ["--producers", str(queues), "--consumers", str(queues)]
    if rate:
        options += ["--rate", str(rate)]
    if durable:
        options += ["--flag", "persistent"]
    pid = listener(url)
    before_s = _cpu_s(pid)
    done = subprocess.run([*command, *options], capture_output=True, text=True, check=False)
    received = re.search(r"receiving rate avg: (\d+) msg/s", done.stdout)
    confirmed = [line for line in done.stdout.splitlines() if "confirm latency" in line]
    if done.returncode or received is None or not confirmed:
        raise RuntimeError(f"PerfTest: {done.stdout[-2000:]}{done.stderr[-2000:]}")
    rate = int(received[1])
    cpu_us = (_cpu_s(pid) - before_s) * 1e6 / (rate * seconds or 1)
    *each_second, whole = map(_confirm_ms, confirmed)
    second_p99_ms = median(p99 for _p50, p99 in each_second[1:] or [whole])
    return Run(rate, whole, second_p99_ms, cpu_us)


def _cpu_s(pid: int | None) -> float:
    """The processor time of a process so far."""
    if pid is None:
        return 0.0
    times = psutil.Process(pid).cpu_times()
    return float(times.user + times.system)


def _confirm_ms(line: str) -> tuple[float, float]:
    """Median and 99th percentile of a line `min/median/75th/95th/99th a/b/c/d/e µs`."""
    found = _CONFIRMED.search(line)
    assert found is not None, line
    values = [float(value) for value in found[1].split("/") if value]
    factor = 0.001 if found[2] == "µs" else 1.0
    return values[1] * factor, values[4] * factor


def main() -> int:
    """Measure both brokers in turn and print figures and ratios."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.amqp", description=__doc__)
    parser.add_argument("--reference", required=True, help="URL of a RabbitMQ")
    parser.add_argument("--url", help="of ours; by default one in memory is started")
    parser.add_argument("--seconds", type=int, default=20, help="of each run")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    command = perf_test()
    with ExitStack() as closing:
        url = options.url or _ours(closing)
        for name, queues, rate in (
            ("1 queue", 1, 0),
            ("10 queues", 10, 0),
            (f"1 queue, {STEADY_RATE:,}/s", 1, STEADY_RATE),
        ):
            _compare(command, name, (options.reference, url), queues, rate, options)
    return 0


def _ours(closing: ExitStack) -> str:
    """The URL of a broker of ours in memory."""
    port = free_port()
    folder = Path(closing.enter_context(TemporaryDirectory()))
    broker = Process(folder, "broker", "streaming.cli", "amqp", "--memory", "--port", str(port))
    broker.start()
    closing.callback(broker.stop)
    wait_until(lambda: "listening on" in broker.log_end(), broker.log_end)
    return f"amqp://guest:guest@{LOOPBACK}:{port}/%2F"


def _compare(
    command: Sequence[str],
    name: str,
    urls: tuple[str, str],
    queues: int,
    rate: int,
    options: argparse.Namespace,
) -> None:
    runs: tuple[list[Run], list[Run]] = ([], [])
    for _ in range(options.rounds):
        for url, into in zip(urls, runs, strict=True):
            into.append(measure(command, url, queues, options.seconds, rate))
    theirs, ours = (median(run.rate for run in each) for each in runs)
    print(f"{name}: RabbitMQ {theirs:,.0f}/s, ours {ours:,.0f}/s, ratio {ours / theirs:.2f}")
    for who, each in zip(("RabbitMQ", "ours"), runs, strict=True):
        p50 = median(run.confirm_ms[0] for run in each)
        p99 = median(run.confirm_ms[1] for run in each)
        cpu_us = median(run.cpu_us for run in each)
        second = median(run.second_p99_ms for run in each)
        latency = f"confirm p50 {p50:.2f} ms, p99 {p99:.2f} ms, {second:.2f} in a warm second"
        print(f"  {who}: {latency}, {cpu_us:.0f} us of processor time a message", flush=True)


if __name__ == "__main__":
    sys.exit(main())
