"""Publishers and consumers of `dlx bench load`, each a process that may be killed at any time.

    python -m tests.bench.load.actors publisher --config dlx.toml --events FILE --rate 500
    python -m tests.bench.load.actors consumer  --config dlx.toml --events FILE

Each appends JSON lines to an event log with one system call, so that a kill loses none. A publisher
logs confirms, a consumer deliveries. SIGTERM ends them.
"""

from __future__ import annotations

import json
import os
import signal
import time
import uuid
from concurrent.futures import Future
from pathlib import Path
from typing import Annotated
from zlib import crc32

import typer

from streaming.client import Channel, ClientError, Connection, Delivery, Publisher

WORK, GRAVEYARD, DEAD = "work", "graveyard", "dead"
PREFETCH = 200
LEASE_S = 10
TIMEOUT_S = 60.0
REJECTED_PERCENT, REQUEUED_PERCENT = 10, 5
KEYS = 4
"""Record keys of a publisher: its messages with one key are in one partition, and stay in order."""

_PAUSE_S = 0.5

app = typer.Typer(add_completion=False)

Config = Annotated[Path, typer.Option("--config")]
Events = Annotated[Path, typer.Option("--events")]


class EventLog:
    """A file of JSON lines that survives a kill of the process."""

    def __init__(self, file: Path) -> None:
        self._file = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    def write(self, **event: object) -> None:
        """Append an event."""
        os.write(self._file, json.dumps(event).encode() + b"\n")


class StopSignal:
    """Whether SIGTERM came or the parent process is gone."""

    def __init__(self) -> None:
        self._received = False
        self._parent = os.getppid()
        signal.signal(signal.SIGTERM, self._receive)

    def __bool__(self) -> bool:
        return self._received or os.getppid() != self._parent

    def _receive(self, *_: object) -> None:
        self._received = True


def planned_outcome(publisher: str, number: int) -> str:
    """Return what every consumer does with the first delivery of a message."""
    share = crc32(f"{publisher}:{number}".encode()) % 100
    if share < REJECTED_PERCENT:
        return "reject"
    return "requeue" if share < REJECTED_PERCENT + REQUEUED_PERCENT else "ack"


def key_of(number: int) -> int:
    """Return which of its keys a publisher uses for a message."""
    return number % KEYS


@app.command()
def publisher(
    config: Config, events: Events, rate: Annotated[float, typer.Option()] = 500.0
) -> None:
    """Publish numbered messages at a rate, with confirms."""
    stop = StopSignal()
    log = EventLog(events)
    name = uuid.uuid4().hex[:8]  # a new one after each kill
    number = 0
    while not stop:
        try:
            with Connection.from_config(config, timeout_s=TIMEOUT_S) as connection:
                sending = connection.publisher(max_unconfirmed=50_000)
                number = _publish(sending, name, number, rate, stop, log)
                sending.wait_for_confirms(TIMEOUT_S)
        except ClientError as error:
            log.write(error=str(error))
            time.sleep(_PAUSE_S)


def _publish(
    sending: Publisher, name: str, number: int, rate: float, stop: StopSignal, log: EventLog
) -> int:
    start_s = time.monotonic()
    first = number
    while not stop:
        due = first + int((time.monotonic() - start_s) * rate)
        while number < due:
            body = json.dumps({"p": name, "n": number, "at": time.time()})

            def confirmed(future: Future[None], number: int = number) -> None:
                if future.exception() is None:
                    log.write(p=name, n=number)
                else:
                    log.write(p=name, lost=number, why=str(future.exception()))

            key = f"{name}-{key_of(number)}".encode()
            number += 1
            sending.publish("", WORK, body, record_key=key).add_done_callback(confirmed)
        time.sleep(0.01)
    return number


@app.command()
def consumer(config: Config, events: Events) -> None:
    """Consume the work queue: ack most messages, reject some, requeue some once."""
    stop = StopSignal()
    log = EventLog(events)
    while not stop:
        try:
            with (
                Connection.from_config(config, timeout_s=TIMEOUT_S) as connection,
                connection.channel(lease_s=LEASE_S) as channel,
            ):
                _consume(channel, stop, log)
                channel.sync()
        except ClientError as error:
            log.write(error=str(error))
            time.sleep(_PAUSE_S)


def _consume(channel: Channel, stop: StopSignal, log: EventLog) -> None:
    deliveries = channel.consume(WORK, prefetch=PREFETCH)
    session = uuid.uuid4().hex[:8]
    while not stop:
        delivery = deliveries.next(_PAUSE_S)
        if delivery is not None:
            _settle(delivery, session, log)


def _settle(delivery: Delivery, session: str, log: EventLog) -> None:
    message = json.loads(delivery.body)
    log.write(
        s=session,
        p=message["p"],
        n=message["n"],
        again=delivery.redelivered,
        took_s=round(time.time() - message["at"], 4),
    )
    match planned_outcome(message["p"], message["n"]):
        case "reject":
            delivery.reject(requeue=False)
        case "requeue" if not delivery.redelivered:
            delivery.reject(requeue=True)
        case _:
            delivery.ack()


if __name__ == "__main__":
    app()
