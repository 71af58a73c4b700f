"""Appends records to the logs of sequenced vhosts, in order, and hears what Kafka has taken.

    event loop --append--> librdkafka --> Kafka
        ^                                   |
        +-- highest offset of each log <----+   (a thread that waits for acknowledgements)

One idempotent producer serves all logs of a process. It never gives a record up: while Kafka does
not answer, records wait. So each log has the records in the order of `append`, without gaps, unless
the producer itself fails; then `failed` is told, and nothing more is acknowledged.
"""

import asyncio
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from functools import partial
from threading import Lock, Thread
from typing import Any, Final, NamedTuple

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from streaming.sequencer.records import Record

LINGER_MS: Final = 1
"""How long librdkafka collects records before it sends them."""

_POLL_S: Final = 0.2
_QUEUE_RECORDS: Final = 200_000
_QUEUE_KBYTES: Final = 262_144


class Acknowledged(NamedTuple):
    """Kafka has all records of a log up to one.

    Attributes:
        number: of the record among those that were appended to this log.
        offset: its offset.
    """

    number: int
    offset: int


class LogWriter:
    """The producer of one process. Use it on the event loop only.

    Args:
        properties: of librdkafka.
        acknowledged: called on the loop with what is new, by topic.
        failed: called on the loop, once, when a record is lost or the producer cannot go on.

    Attributes:
        said_s: when Kafka took the newest heartbeat, by the monotonic clock; None for never.
    """

    def __init__(
        self,
        properties: Mapping[str, Any],
        acknowledged: Callable[[dict[str, Acknowledged]], None],
        failed: Callable[[str], None],
        *,
        linger_ms: float = LINGER_MS,
    ) -> None:
        settings: dict[str, Any] = {
            "linger.ms": linger_ms,
            "queue.buffering.max.messages": _QUEUE_RECORDS,
            "queue.buffering.max.kbytes": _QUEUE_KBYTES,
            "socket.nagle.disable": True,
            **properties,
            "enable.idempotence": True,
            "enable.gapless.guarantee": True,
            "message.timeout.ms": 0,
            "acks": "all",
            "log_level": 0,
            "error_cb": self._note_error,
        }
        self.said_s: float | None = None
        self._loop = asyncio.get_running_loop()
        self._producer = Producer(settings)
        self._acknowledged = acknowledged
        self._failed = failed
        self._counts: dict[str, int] = {}
        self._lock = Lock()
        self._news: dict[str, Acknowledged] = {}
        self._failure: str | None = None
        self._is_told = False
        self._is_stopping = False
        self._thread = Thread(target=self._poll, name="kafka acknowledgements", daemon=True)
        self._thread.start()

    def __len__(self) -> int:
        """How many records wait to be acknowledged."""
        return len(self._producer)

    def append(self, topic: str, records: Collection[Record]) -> int:
        """Append records in order; return how many are taken: append the rest later.

        The acknowledgement of the last one is told, and with it that of all before. Nothing is
        taken behind a record that was lost.
        """
        if self._failure is not None:
            return 0
        produce = self._producer.produce
        before = count = self._counts.get(topic, 0)
        end = before + len(records)
        report = None
        try:
            for record in records:
                if count + 1 == end:
                    report = partial(self._delivered, topic, end)
                # by position, which takes half as long: no key, partition 0, one of two callbacks
                produce(
                    *(topic, record.value, None, 0, report, None, record.at_ms),
                    record.headers,  # type: ignore[arg-type] # no list of pairs of bytes in its stubs
                )
                count += 1
        except BufferError:
            pass  # too many records wait for Kafka
        except KafkaException as error:
            self._lose(error.args[0].str())
        except Exception as error:
            self._lose(f"{type(error).__name__}: {error}")
            raise
        self._counts[topic] = count
        return count - before

    def appended(self, topic: str) -> int:
        """The number of the newest record of a log that was appended."""
        return self._counts.get(topic, 0)

    def say(self, topic: str, key: str, value: bytes, at_ms: int) -> None:
        """Send a heartbeat, if Kafka takes anything now: there is another one soon."""
        with suppress(BufferError, KafkaException):
            self._producer.produce(
                topic, value, key, partition=0, timestamp=at_ms, on_delivery=self._said
            )

    def close(self, timeout_s: float) -> bool:
        """Wait until Kafka has everything; return whether it has. Nothing is told any more."""
        self._is_stopping = True
        self._thread.join()
        return self._producer.flush(timeout_s) == 0

    # -- on the thread

    def _poll(self) -> None:
        while not self._is_stopping:
            self._producer.poll(_POLL_S)

    def _delivered(
        self, topic: str, number: int, error: KafkaError | None, message: Message
    ) -> None:
        if error is not None:
            self._lose(error.str())
            return
        offset = message.offset()
        assert offset is not None, "an acknowledged record has an offset"
        with self._lock:
            self._news[topic] = Acknowledged(number, offset)
            self._tell()

    def _said(self, error: KafkaError | None, _message: Message) -> None:
        if error is None:
            self.said_s = time.monotonic()

    def _note_error(self, error: KafkaError) -> None:
        if error.fatal():
            self._lose(error.str())

    def _lose(self, reason: str) -> None:
        with self._lock:
            if self._failure is None:
                self._failure = reason
                self._tell()

    def _tell(self) -> None:
        if not self._is_told:
            self._is_told = True
            self._loop.call_soon_threadsafe(self._pass_on)

    # -- on the loop

    def _pass_on(self) -> None:
        with self._lock:
            self._is_told = False
            news, self._news = self._news, {}
            failure = self._failure
        if news:
            self._acknowledged(news)
        if failure is not None:
            self._failed(failure)
