"""Publishers and consumers of `dlx bench load`, each a process that may be killed at any time.

    python -m streaming.bench.actors publisher --config dlx.toml --diary FILE --rate 500
    python -m streaming.bench.actors consumer  --config dlx.toml --diary FILE

Each writes a diary, one JSON line a fact, handed to the system at once so that a kill loses none:
a publisher what was confirmed, a consumer what was delivered. They end by SIGTERM.
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
LEASE_MS = 10_000
TIMEOUT_S = 60.0
REJECTED_PERCENT, REQUEUED_PERCENT = 10, 5
_PAUSE_S = 0.5

app = typer.Typer(add_completion=False)


class Diary:
    """Lines that survive a kill of the process."""

    def __init__(self, file: Path) -> None:
        self._file = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    def write(self, **fact: object) -> None:
        """One fact."""
        os.write(self._file, json.dumps(fact).encode() + b"\n")


class Ending:
    """Whether SIGTERM came, or whoever started this process has gone."""

    def __init__(self) -> None:
        self._told = False
        self._parent = os.getppid()
        signal.signal(signal.SIGTERM, self._tell)

    @property
    def asked(self) -> bool:
        """Whether to end."""
        return self._told or os.getppid() != self._parent

    def _tell(self, *_: object) -> None:
        self._told = True


def fate(publisher: str, number: int) -> str:
    """What a consumer does with a message it sees for the first time: the same whoever it is."""
    share = crc32(f"{publisher}:{number}".encode()) % 100
    if share < REJECTED_PERCENT:
        return "reject"
    return "requeue" if share < REJECTED_PERCENT + REQUEUED_PERCENT else "ack"


@app.command()
def publisher(
    config: Annotated[Path, typer.Option()],
    diary: Annotated[Path, typer.Option()],
    rate: Annotated[float, typer.Option()] = 500.0,
) -> None:
    """Publish numbered messages at a rate, with confirms."""
    ending = Ending()
    notes = Diary(diary)
    name = uuid.uuid4().hex[:8]  # a new one after each kill
    number = 0
    while not ending.asked:
        try:
            with Connection.from_config(config, timeout_s=TIMEOUT_S) as connection:
                sending = connection.publisher(max_unconfirmed=50_000)
                number = _publish(sending, name, number, rate, ending, notes)
                sending.wait_for_confirms(TIMEOUT_S)
        except ClientError as error:
            notes.write(trouble=str(error))
            time.sleep(_PAUSE_S)


def _publish(
    sending: Publisher, name: str, number: int, rate: float, ending: Ending, notes: Diary
) -> int:
    started_s = time.monotonic()
    first = number
    while not ending.asked:
        due = first + int((time.monotonic() - started_s) * rate)
        while number < due:
            body = json.dumps({"p": name, "n": number, "at": time.time()})

            def confirmed(future: Future[None], number: int = number) -> None:
                if future.exception() is None:
                    notes.write(p=name, n=number)
                else:
                    notes.write(p=name, lost=number, why=str(future.exception()))

            number += 1
            sending.publish("", WORK, body).add_done_callback(confirmed)
        time.sleep(0.01)
    return number


@app.command()
def consumer(
    config: Annotated[Path, typer.Option()], diary: Annotated[Path, typer.Option()]
) -> None:
    """Consume the work queue: ack most, reject some, requeue some once."""
    ending = Ending()
    notes = Diary(diary)
    while not ending.asked:
        try:
            with (
                Connection.from_config(config, timeout_s=TIMEOUT_S) as connection,
                connection.channel(lease_ms=LEASE_MS) as channel,
            ):
                _consume(channel, ending, notes)
                channel.sync()
        except ClientError as error:
            notes.write(trouble=str(error))
            time.sleep(_PAUSE_S)


def _consume(channel: Channel, ending: Ending, notes: Diary) -> None:
    consuming = channel.consume(WORK, prefetch=PREFETCH)
    session = uuid.uuid4().hex[:8]
    while not ending.asked:
        delivery = consuming.next(_PAUSE_S)
        if delivery is not None:
            _settle(delivery, session, notes)


def _settle(delivery: Delivery, session: str, notes: Diary) -> None:
    message = json.loads(delivery.body)
    notes.write(
        s=session,
        p=message["p"],
        n=message["n"],
        again=delivery.redelivered,
        took_s=round(time.time() - message["at"], 4),
    )
    match fate(message["p"], message["n"]):
        case "reject":
            delivery.reject(requeue=False)
        case "requeue" if not delivery.redelivered:
            delivery.reject(requeue=True)
        case _:
            delivery.ack()


if __name__ == "__main__":
    app()
