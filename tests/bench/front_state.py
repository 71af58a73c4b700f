"""A front on Kafka with many messages in its queues: memory, starts, a takeover.

    fill --> stop, start (snapshot) --> start (no snapshot) --> kill the leader beside a standby
      ^                                                                |
      +---------------- more log behind it: publish and consume -------+

Messages have 200 bytes, an id and headers of their own. What is measured a second time, with
millions of consumed messages in the log behind, should be as before; only a start without a
snapshot reads the whole log. A third time follows with records in the log that went to no queue:
they are written past the front, while it is stopped, so there can be a hundred million.
"""

import re
import shutil
import socket
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import attrs
import psutil

from streaming.amqp import methods as m
from streaming.amqp.entries import Ask, Publish
from streaming.amqp.frames import METHOD, FrameReader, frame
from streaming.amqp.handshake import PROTOCOL_HEADER
from streaming.amqp.method_codec import read_method, write_method
from streaming.amqp.outgoing import Confirms
from streaming.amqp.properties import write_properties
from streaming.amqp.stored import Stored
from streaming.broker import commands
from streaming.broker.events import Actor
from streaming.broker.message import Publication
from streaming.config import show_config
from streaming.config.amqp import AmqpSettings
from streaming.embedded.kafka.broker import EmbeddedKafka
from streaming.protocol.log_records import CONTENT
from streaming.sequencer.records import RecordWriter
from tests.amqp_client import content_frames
from tests.bench.kafka_log import KafkaLog
from tests.bench.processes import Process
from tests.fixtures.fronts import Fronts
from tests.fixtures.waiting import wait_until

QUEUES: Final = 4
BODY: Final = b"x" * 200
START_S: Final = 1_800.0

_BATCH: Final = 500
_WINDOW: Final = 5_000
_LISTENS: Final = "listening on "
_LEADS: Final = re.compile(r"leads since offset (\d+)")


class Client:
    """A connection with one channel on a blocking socket."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=START_S)
        self._reader = FrameReader(0)
        self._confirmed = 0
        self._socket.sendall(PROTOCOL_HEADER)
        self._wait_for(m.ConnectionStart)
        self._send(m.ConnectionStartOk({}, "PLAIN", b"\0guest\0guest", "en_US"), 0)
        self._wait_for(m.ConnectionTune)
        self._send(m.ConnectionTuneOk(2047, 131_072, 0), 0)
        self._send(m.ConnectionOpen("/"), 0)
        self._wait_for(m.ConnectionOpenOk)
        self.ask(m.ChannelOpen(), m.ChannelOpenOk)

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def ask(self, method: m.Method, answer: type[m.Method]) -> Any:
        """Send a method; return its answer."""
        self._send(method, 1)
        return self._wait_for(answer)

    def declare(self, queue: str) -> int:
        """Declare a durable queue; return how many of its messages are ready."""
        found = self.ask(m.QueueDeclare(0, queue, durable=True), m.QueueDeclareOk)
        return int(found.message_count)

    def publish(self, queues: list[str], count: int) -> None:
        """Publish messages to queues in turn; wait until all are confirmed."""
        self.ask(m.ConfirmSelect(), m.ConfirmSelectOk)
        self._confirmed = sent = 0
        while sent < count:
            size = min(_BATCH, count - sent)
            self._socket.sendall(b"".join(_publishes(queues, sent, size)))
            sent += size
            self._wait_until_confirmed(sent - _WINDOW)
        self._wait_until_confirmed(count)

    def consume(self, queue: str, count: int) -> None:
        """Consume that many messages, which count as settled when they are sent."""
        self._send(m.BasicConsume(0, queue, "all", no_ack=True), 1)
        found = 0
        while found < count:
            found += sum(isinstance(each, m.BasicDeliver) for each in self._received())

    def _wait_until_confirmed(self, number: int) -> None:
        while self._confirmed < number:
            for each in self._received():
                if isinstance(each, m.BasicAck):
                    self._confirmed = each.delivery_tag if each.multiple else self._confirmed + 1

    def _wait_for(self, kind: type[m.Method]) -> Any:
        while True:
            for each in self._received():
                if isinstance(each, kind):
                    return each

    def _received(self) -> list[m.Method]:
        data = self._socket.recv(1 << 18)
        if not data:
            raise ConnectionError("the front has closed the connection")
        frames = self._reader.feed(data)
        return [read_method(payload) for kind, _, payload in frames if kind == METHOD]

    def _send(self, method: m.Method, channel: int) -> None:
        self._socket.sendall(frame(METHOD, channel, write_method(method)))


def _publishes(queues: list[str], first: int, count: int) -> Iterator[bytes]:
    for number in range(first, first + count):
        queue = queues[number % len(queues)]
        yield frame(METHOD, 1, write_method(m.BasicPublish(0, "", queue)))
        headers = {"tenant": f"tenant-{number % 97}", "order": number}
        yield content_frames(
            1, BODY, {"message_id": f"m-{number:016x}", "headers": headers, "delivery_mode": 2}
        )


class FrontState:
    """A vhost on a Kafka of its own, and what its front needs for many messages."""

    def __init__(self, root: Path, servers: str) -> None:
        self._servers = servers
        self._fronts = fronts = Fronts(root, servers)
        amqp = attrs.evolve(fronts.config.amqp, body_cache_bytes=AmqpSettings().body_cache_bytes)
        fronts.file.write_text(show_config(attrs.evolve(fronts.config, amqp=amqp)))
        self._snapshots = root / "checkpoints" / "sequencer"
        self._front = self._started()

    def close(self) -> None:
        """Kill what runs."""
        self._fronts.end()

    def fill(self, count: int) -> dict[str, Any]:
        """Put messages into queues."""
        begin_s = time.monotonic()
        queues = [f"q{number}" for number in range(QUEUES)]
        with closing(Client(self._port())) as client:
            for queue in queues:
                client.declare(queue)
            client.publish(queues, count)
        seconds = time.monotonic() - begin_s
        return {"case": "fill", "messages": count, "per_s": round(count / seconds)}

    def lengthen(self, count: int, step: int = 100_000) -> dict[str, Any]:
        """Publish messages, and consume them."""
        begin_s = time.monotonic()
        with closing(Client(self._port())) as client:
            client.declare("past")
            for first in range(0, count, step):
                size = min(step, count - first)
                client.publish(["past"], size)
                with closing(Client(self._port())) as consumer:
                    consumer.consume("past", size)
        return {"case": "history", "messages": count, "s": _since(begin_s)}

    def write_unrouted(self, count: int) -> Iterator[dict[str, Any]]:
        """Write publishes that no queue gets into the log; a start folds them."""
        self._front.stop()
        begin_s = time.monotonic()
        [*_, epoch] = _LEADS.findall(self._front.log.read_text())
        log, topic = KafkaLog(self._servers), self._fronts.config.log_topics()["/"]
        writer = RecordWriter(int(epoch))
        actor = Actor("guest", "unrouted")
        opened = commands.OpenChannel(channel=actor.channel, connection="unrouted")
        command = writer.command(0, 0, Ask(actor, opened))
        log.send(topic, command.value or b"", [*command.headers])
        body, empty = BODY[:20], Stored(b"\0\0", b"")
        entry = Publish(actor, Publication("", "nowhere"), empty, 0, 0, Confirms())
        [header, *_] = writer.publish(0, 0, entry).headers
        for number in range(count):
            properties = write_properties({"message_id": f"u-{number:016x}"})
            log.send(topic, body, [header, (CONTENT, properties)])
        log.flush()
        yield {"case": "unrouted", "records": count, "s": _since(begin_s)}
        yield {"case": "start that folds them", **self._start(), "fresh_mib": self.memory()}

    def measure(self, *, without_snapshot: bool = True) -> Iterator[dict[str, Any]]:
        """Memory, a stop, starts, and a takeover.

        Args:
            without_snapshot: one of the starts folds the whole log.
        """
        yield {"case": "memory", "filled_mib": self.memory()}
        begin_s = time.monotonic()
        self._front.stop()
        [newest] = sorted(self._snapshots.rglob("*.snapshot"), key=_offset)[-1:]
        size = round(newest.stat().st_size / 2**20, 1)
        yield {"case": "stop", "s": _since(begin_s), "snapshot_mib": size}
        yield {"case": "start", **self._start(), "fresh_mib": self.memory()}
        self._front.kill()
        if without_snapshot:
            aside = self._snapshots.with_name("aside")
            self._snapshots.rename(aside)
            yield {"case": "start without snapshot", **self._start(), "fresh_mib": self.memory()}
            self._front.kill()
            shutil.rmtree(self._snapshots, ignore_errors=True)
            aside.rename(self._snapshots)
        self._front = self._started()
        yield {"case": "takeover", **self._take_over()}

    def _start(self) -> dict[str, Any]:
        begin_s = time.monotonic()
        self._front = self._started()
        with closing(Client(self._port())) as client:
            client.publish(["past"], 1)
        return {"first_confirm_s": _since(begin_s), "said": _last_word(self._front)}

    def _take_over(self) -> dict[str, Any]:
        standby = self._fronts.start("--standby")
        wait_until(lambda: "records of" in standby.log_end(), standby.log_end, START_S)
        time.sleep(1.0)
        before_mib = _memory_of(standby)
        begin_s = time.monotonic()
        self._front.kill()
        self._front = standby
        with closing(Client(self._port())) as client:
            client.publish(["past"], 1)
        return {"first_confirm_s": _since(begin_s), "standby_mib": before_mib}

    def _started(self) -> Process:
        front = self._fronts.start()
        wait_until(lambda: _LISTENS in front.log_end(), front.log_end, START_S, 0.01)
        return front

    def _port(self) -> int:
        front = self._front
        wait_until(lambda: _LISTENS in front.log_end(), front.log_end, START_S, 0.01)
        [line] = [one for one in front.log_end().splitlines() if one.startswith(_LISTENS)]
        return int(line.rpartition(":")[2])

    def memory(self) -> int:
        """What the front takes, in MiB."""
        return _memory_of(self._front)


def run(root: Path, resident: int, history: int, unrouted: int) -> Iterator[dict[str, Any]]:
    """Measure with some messages in queues, and again with more log behind them."""
    with (
        EmbeddedKafka(root / "kafka") as kafka,
        closing(FrontState(root, kafka.bootstrap_servers)) as front,
    ):
        yield {"case": "empty", "fresh_mib": front.memory()}
        yield front.fill(resident)
        yield from front.measure()
        if history:
            yield front.lengthen(history)
            yield from front.measure()
        if unrouted:
            yield from front.write_unrouted(unrouted)
            yield from front.measure(without_snapshot=False)


def _memory_of(process: Process) -> int:
    rss: int = psutil.Process(process.pid).memory_info().rss
    return round(rss / 2**20)


def _since(begin_s: float) -> float:
    return round(time.monotonic() - begin_s, 2)


def _offset(file: Path) -> int:
    return int(file.stem)


def _last_word(front: Process) -> str:
    """How the front says it has begun."""
    words = [line for line in front.log_end().splitlines() if " records of " in line]
    return words[-1].partition(": ")[2] if words else ""
