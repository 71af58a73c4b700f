"""A connection to a job: one producer, one reader, and the channels and publishers on them.

                 publishes, commands                       outbound topic
    user threads --------------------> Kafka -> job -> Kafka --------------> reader thread
         ^                                                                      |
         +--- answers (futures), deliveries (queues), confirms (futures) <------+

Rule 1: whatever is asked has an answer, an error, or its timeout; nothing waits for ever unasked.
Rule 2: Kafka may go and come back; librdkafka connects again and the reader goes on where it was.
Rule 3: the reader thread never waits for the job: it would wait for itself.
"""

from __future__ import annotations

import logging
import os
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from streaming.client.address import Address, address_of
from streaming.client.asking import Answer, Asking
from streaming.client.channel import Channel
from streaming.client.errors import (
    ClientError,
    ConnectionClosedError,
    KafkaUnreachableError,
    NoAnswerError,
    broker_error,
)
from streaming.client.publisher import Publisher
from streaming.client.reader import Reader
from streaming.client.records import Inbound
from streaming.client.sender import Sender
from streaming.client.transactions import Transaction, Transactions
from streaming.config import load_config

if TYPE_CHECKING:
    from streaming.client.messages import Returned
    from streaming.client.publisher import OnFlow

logger = logging.getLogger("dlx.client")

DEFAULT_TIMEOUT_S = 5.0
DEFAULT_LEASE_MS = 60_000
FLOW_LOOK_S = 0.5


class Connection:
    """A connection to one vhost of a job, as one user; safe to share between threads.

    Args:
        address: an `Address`, or Kafka's `HOST:PORT` where the topics have their default names.
        timeout_s: how long to wait for Kafka and for the job before saying that it is down.
        on_trouble: called (on the reader's thread) with words when Kafka or the job goes away.

    Raises:
        KafkaUnreachableError: Kafka does not answer.
        ClientError: the job's topics are not there.
    """

    def __init__(
        self,
        address: Address | str = "localhost:9092",
        *,
        timeout_s: float = DEFAULT_TIMEOUT_S,
        on_trouble: Callable[[str], None] | None = None,
    ) -> None:
        self.address = Address(bootstrap=address) if isinstance(address, str) else address
        self.timeout_s = timeout_s
        self.session = uuid.uuid4().hex[:12]
        self._on_trouble = on_trouble
        self._trouble = ""
        self._lock = threading.Lock()
        self._numbers = 0
        self._channels: dict[str, Channel] = {}
        self._publishers: dict[str, Publisher] = {}
        self._flowing = threading.Event()
        self._flowing.set()
        self._closed = False
        self.sender = Sender(self.address.properties, timeout_s, self.kafka_trouble)
        self._asking = Asking(self.address, self.sender, timeout_s)
        self._transactions = Transactions(self)
        try:
            self._reader = Reader(
                self.address, timeout_s, self._take, self._moment, self.kafka_trouble
            )
        except BaseException:
            self.sender.close()
            raise

    @classmethod
    def from_config(
        cls,
        file: Path | str = "dlx.toml",
        *,
        user: str = "guest",
        vhost: str = "/",
        timeout_s: float = DEFAULT_TIMEOUT_S,
        on_trouble: Callable[[str], None] | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> Self:
        """Connect to the job of a `dlx.toml`.

        Args:
            environ: where secrets are looked up; this process's environment by default.

        Raises:
            InvalidConfigError: the file cannot be used.
        """
        found = os.environ if environ is None else environ
        address = address_of(load_config(Path(file)), user, vhost, found)
        return cls(address, timeout_s=timeout_s, on_trouble=on_trouble)

    # -- what users make

    def channel(self, name: str | None = None, *, lease_ms: int = DEFAULT_LEASE_MS) -> Channel:
        """Open a channel.

        Args:
            name: one that other processes know; by default one that nobody else has.
            lease_ms: the broker closes the channel, and requeues what is unacked on it, when it
                hears nothing for so long. It is renewed in the background.

        Raises:
            NoAnswerError, KafkaUnreachableError: the job, or Kafka, is down.
        """
        self.check_open()
        channel = Channel(self, name or self.new_name("channel"), lease_ms)
        with self._lock:
            if channel.name in self._channels:
                raise ClientError(f"this connection has a channel {channel.name!r} already")
            self._channels[channel.name] = channel
        try:
            channel.open()
        except BaseException:
            self.forget_channel(channel.name)
            raise
        return channel

    def publisher(
        self,
        *,
        confirms: bool = True,
        on_return: Callable[[Returned], None] | None = None,
        on_flow: OnFlow = "block",
        max_unconfirmed: int = 10_000,
    ) -> Publisher:
        """Make a publisher; see `Publisher`."""
        self.check_open()
        publisher = Publisher(
            self,
            self.new_name("publisher"),
            confirms=confirms,
            on_return=on_return,
            on_flow=on_flow,
            max_unconfirmed=max_unconfirmed,
        )
        self.know_publisher(publisher)
        return publisher

    def transaction(self, *, on_flow: OnFlow = "block") -> AbstractContextManager[Transaction]:
        """Let publishes and settlements take effect together, or not at all.

            with connection.transaction() as transaction:
                transaction.publish("orders", "order.paid", body)
                transaction.ack(channel, delivery)

        Raises:
            TransactionAbortedError: Kafka aborted it. An exception inside aborts it too.
        """
        self.check_open()
        return self._transactions.begin(on_flow)

    def close(self) -> None:
        """Close the channels (what is unacked is requeued), hand over what is left, and end."""
        if self._closed:
            return
        for channel in list(self._channels.values()):
            channel.close()
        self._closed = True
        self._flowing.set()
        self._transactions.close()
        self.sender.close()
        self._reader.close()
        closed = ConnectionClosedError("the connection was closed")
        for publisher in list(self._publishers.values()):
            publisher.fail_all(closed)
        self._asking.fail_all(closed)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def is_flowing(self) -> bool:
        """Whether the broker lets publishers publish (flow control)."""
        return self._flowing.is_set()

    @property
    def heard_s(self) -> float:
        """When the job last said something, on the monotonic clock."""
        return self._reader.heard_s

    @property
    def silence_s(self) -> float:
        """How long the job may say nothing before it counts as down."""
        if self.is_flowing:
            return self.timeout_s
        return max(self.timeout_s, DEFAULT_TIMEOUT_S)  # the notice comes every 2 s

    @property
    def trouble(self) -> str:
        """What is wrong with Kafka or the job, in words; empty when nothing is known to be."""
        return self._trouble

    # -- what channels and publishers need

    def ask(
        self, document: dict[str, Any], channel: str, *, timeout_s: float | None = None
    ) -> Answer:
        """Send a command and wait for its answer; raises as `Asking.ask`."""
        self.check_open()
        return self._asking.ask(document, channel, timeout_s=timeout_s)

    def ask_later(
        self, document: dict[str, Any], channel: str, then: Callable[[Answer], None]
    ) -> None:
        """Send a command whose answer, if it comes, is handed over on the reader's thread."""
        self._asking.ask_later(document, channel, then)

    def tell(self, document: dict[str, Any], channel: str) -> None:
        """Send a command and do not wait."""
        self.check_open()
        self._asking.tell(document, channel)

    def wait_until_flowing(self) -> None:
        """Wait while flow control stops publishers.

        Raises:
            NoAnswerError: the job, which repeats its notice, has gone silent meanwhile.
        """
        while not self._flowing.wait(FLOW_LOOK_S):
            self.check_open()
            if time.monotonic() - self.heard_s > self.silence_s:
                raise self.job_silent("flow control's question for room", self.silence_s)
        self.check_open()

    def check_open(self) -> None:
        """Refuse to go on after `close`.

        Raises:
            ConnectionClosedError: it was closed.
        """
        if self._closed:
            raise ConnectionClosedError("the connection was closed")

    def new_name(self, what: str) -> str:
        """A name that nobody else has."""
        with self._lock:
            self._numbers += 1
            return f"{what}-{self.session}-{self._numbers}"

    def know_publisher(self, publisher: Publisher) -> None:
        """Hand it what is for its channel."""
        with self._lock:
            self._publishers[publisher.name] = publisher

    def forget_publisher(self, name: str) -> None:
        """Hand it nothing more."""
        with self._lock:
            self._publishers.pop(name, None)

    def forget_channel(self, name: str) -> None:
        """Hand it nothing more."""
        with self._lock:
            self._channels.pop(name, None)

    def note_trouble(self, words: str) -> None:
        """Something is wrong with Kafka or the job; said once until things are well again."""
        if words and words != self._trouble:
            logger.warning("%s", words)
            if self._on_trouble is not None:
                self._on_trouble(words)
        self._trouble = words

    def kafka_trouble(self, reason: str) -> None:
        """Librdkafka complained; it tries again by itself."""
        if not self._trouble:
            self.note_trouble(
                f"Kafka at {self.address.bootstrap} is in trouble ({reason}); trying again"
            )

    # -- inside

    def kafka_error(self, reason: str) -> KafkaUnreachableError:
        """Kafka did not take a record, in words."""
        return self._asking.kafka_error(reason)

    def job_silent(self, what: str, wait_s: float) -> NoAnswerError:
        """The job did not answer, in words."""
        return self._asking.job_silent(what, wait_s)

    def _take(self, record: Inbound) -> None:
        """Hand a record of the outbound topic to whom it is for."""
        if self._trouble:
            self.note_trouble("")
        match record.kind:
            case "flow":
                self._flow(active=bool(record.document.get("active", True)))
            case "delivery":
                channel = self._channels.get(record.channel)
                if channel is not None:
                    channel.take_delivery(record)
            case "answer":
                self._answered(record)
            case "confirm" | "return" | "publish_error":
                publisher = self._publishers.get(record.channel)
                if publisher is not None:
                    publisher.take(record)

    def _answered(self, record: Inbound) -> None:
        document = record.document
        error = document.get("error")
        refusal = None if error is None else broker_error(error["code"], error["text"])
        result = document.get("result", {})
        channel = self._channels.get(record.channel)
        if channel is not None:
            channel.take_answer(document["op"], result, refusal)
        self._asking.answered(document.get("reply_id") or "", result, refusal)

    def _flow(self, *, active: bool) -> None:
        if active:
            self._flowing.set()
        else:
            self._flowing.clear()
        logger.info("flow control: publishers may %s", "go on" if active else "not go on")

    def _moment(self) -> None:
        """Now and then, on the reader's thread: leases are renewed, timeouts found."""
        now_s = time.monotonic()
        for channel in list(self._channels.values()):
            channel.renew_if_due(now_s)
        for publisher in list(self._publishers.values()):
            publisher.fail_late(now_s)
