"""Only the traffic, against the Kafka of some configuration: a job elsewhere does the rest."""

import threading
import time
from typing import Final

from rich.console import Console

from streaming.demo.addresses import Addresses, DemoError
from streaming.demo.live import say
from streaming.demo.traffic import Traffic

LINE_EVERY_S: Final = 5.0
AFTERWORK_S: Final = 3.0
"""How long consumers go on after the last publish."""


def drive(
    addresses: Addresses, seconds: float | None, stopping: threading.Event, console: Console
) -> None:
    """Publish and consume until told to stop.

    Args:
        seconds: from the moment the topology stands; None: until `stopping`.

    Raises:
        DemoError: the traffic cannot go on.
    """
    traffic = Traffic(addresses)
    traffic.start()
    say(console, f"waiting for the job and its topics on {addresses.kafka['bootstrap.servers']}")
    try:
        while not traffic.opened.is_set() and traffic.is_running and not stopping.wait(0.2):
            pass
        ends_s = None if seconds is None else time.monotonic() + seconds
        next_line_s = time.monotonic()
        while traffic.is_running and not stopping.wait(0.2):
            now_s = time.monotonic()
            if ends_s is not None and now_s >= ends_s:
                break
            if now_s >= next_line_s:
                next_line_s = now_s + LINE_EVERY_S
                say(console, counts_line(traffic.counts.now()))
        traffic.close_shop()
        stopping.wait(AFTERWORK_S)
    finally:
        traffic.stop()
    if isinstance(traffic.failure, DemoError):
        raise traffic.failure
    if traffic.failure is not None:
        raise DemoError(f"the traffic has failed: {traffic.failure!r}") from traffic.failure
    say(console, f"closed: {counts_line(traffic.counts.now())}")


def counts_line(counts: dict[str, int]) -> str:
    """What publisher and consumers did, in words."""
    names = ("published", "confirmed", "acked", "rejected", "requeued")
    return ", ".join(f"{counts.get(name, 0)} {name}" for name in names)
