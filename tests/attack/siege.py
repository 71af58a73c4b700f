"""A broker under attack: its log, its memory, and the well-behaved client beside the attackers."""

import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import pika
import psutil
from pika.exceptions import AMQPError

from streaming.embedded.kafka.ports import LOOPBACK, free_port
from tests.attack.attacks import Attack
from tests.bench.processes import Process
from tests.fixtures.waiting import wait_until

MAX_GROWTH_BYTES: Final = 400 << 20
"""How much more memory a broker may hold during attacks than before: several clients' buffers."""

_MARKS: Final = ("Traceback", "Fatal error", "Exception")


class DefeatedError(AssertionError):
    """The broker did what no attack may make it do; the text says what, after which attack."""


class Siege:
    """Attacks on one broker, one after the other.

    Args:
        address: of its AMQP port.
        log: what it printed.
        pid: of its process.
    """

    def __init__(self, address: tuple[str, int], log: Path, pid: int) -> None:
        self._address = address
        self._log = log
        self._process = psutil.Process(pid)
        self._before_bytes = self._process.memory_info().rss
        self.largest_bytes = self._before_bytes

    def run(self, attack: Attack, seed: int) -> None:
        """Make one attack, and check what must hold.

        Raises:
            DefeatedError: it does not hold.
        """
        attack(self._address, random.Random(f"{attack.__name__} {seed}"))
        named = f"{attack.__name__}, seed {seed}"
        if not self._process.is_running() or self._process.status() == psutil.STATUS_ZOMBIE:
            raise DefeatedError(f"the broker ended: {named}\n{self._log_end()}")
        text = self._log_end()
        if any(mark in text for mark in _MARKS):
            raise DefeatedError(f"the broker printed an error: {named}\n{text}")
        self.largest_bytes = max(self.largest_bytes, self._process.memory_info().rss)
        grown_bytes = self.largest_bytes - self._before_bytes
        if grown_bytes > MAX_GROWTH_BYTES:
            raise DefeatedError(f"memory grew by {grown_bytes >> 20} MB: {named}")

    def _log_end(self) -> str:
        return self._log.read_text("utf-8", "replace")[-6000:] if self._log.exists() else ""


@contextmanager
def besieged(folder: Path) -> Iterator[Siege]:
    """A broker of ours in memory, with a well-behaved client that works while it is attacked.

    Raises:
        DefeatedError: that client was disturbed.
    """
    port = free_port()
    broker = Process(folder, "besieged", "streaming.cli", "amqp", "--memory", "--port", str(port))
    broker.log.unlink(missing_ok=True)
    broker.start()
    try:
        wait_until(lambda: "listening on" in broker.log_end(), broker.log_end)
        assert broker.pid is not None
        # without heartbeats: a machine that sleeps meanwhile is no attack
        with _bystander(f"amqp://guest:guest@{LOOPBACK}:{port}/%2F?heartbeat=0"):
            yield Siege((LOOPBACK, port), broker.log, broker.pid)
        broker.check()
    finally:
        broker.stop()


@contextmanager
def _bystander(url: str) -> Iterator[None]:
    ended = threading.Event()
    troubles: list[str] = []

    def work() -> None:
        count = 0
        try:
            with pika.BlockingConnection(pika.URLParameters(url)) as connection:
                channel = connection.channel()
                channel.confirm_delivery()
                channel.queue_declare("bystander", exclusive=True)
                while not ended.is_set():
                    channel.basic_publish("", "bystander", str(count).encode(), mandatory=True)
                    _, _, body = channel.basic_get("bystander", auto_ack=True)
                    if body != str(count).encode():
                        troubles.append(f"{body!r} instead of {count}")
                    count += 1
                    ended.wait(0.02)
        except AMQPError as error:
            troubles.append(f"{error!r} after {count} messages at {urlsplit(url).port}")

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
    if troubles:
        raise DefeatedError(f"the well-behaved client was disturbed: {troubles}")
