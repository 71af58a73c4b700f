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

import threading
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from streaming.client.address import Address, address_of
from streaming.client.channel import Channel
from streaming.client.command_client import Answer, CommandClient
from streaming.client.dispatch import Dispatch
from streaming.client.errors import (
    ConnectionClosedError,
    KafkaUnreachableError,
    NoAnswerError,
)
from streaming.client.flow import HELD_BACK, Flow
from streaming.client.outages import Outages
from streaming.client.publisher import Publisher
from streaming.client.reader import Reader
from streaming.client.sender import Sender
from streaming.client.transactions import Transaction, Transactions
from streaming.config import load_config

if TYPE_CHECKING:
    from streaming.client.messages import Returned
    from streaming.client.publisher import OnFlow

DEFAULT_TIMEOUT_S = 4.5
"""Who asks is told within 5 s, what it takes to say so included."""
DEFAULT_LEASE_MS = 60_000
COMMANDS_PATIENCE_MS = 300_000
"""How long a command waits for Kafka. Who asks is told after `timeout_s`; nobody waits for an ack,
which must outlive an outage. What was published and not taken in time is given up for good."""


class Connection:
    """A connection to one vhost of a job, as one user; safe to share between threads.

    Args:
        address: an `Address`, or Kafka's `HOST:PORT` where the topics have their default names.
        timeout_s: how long to wait for Kafka and for the job before saying that it is down.
        on_outage: called with words when Kafka or the job goes away, and when the job is heard
            again; on the thread that noticed it, and it must not wait.

    Raises:
        KafkaUnreachableError: Kafka does not answer.
        ClientError: the job's topics are not there.
    """

    def __init__(
        self,
        address: Address | str = "localhost:9092",
        *,
        timeout_s: float = DEFAULT_TIMEOUT_S,
        on_outage: Callable[[str], None] | None = None,
    ) -> None:
        self.address = Address(bootstrap=address) if isinstance(address, str) else address
        self.timeout_s = timeout_s
        self.session = uuid.uuid4().hex[:12]
        self._outages = Outages(self.address.bootstrap, on_outage)
        self.flow = Flow()
        self._lock = threading.Lock()
        self._numbers = 0
        self._closed = False
        self.sender = Sender(self.address.properties, timeout_s, self._outages.of_kafka)
        patient = {**self.address.properties, "message.timeout.ms": str(COMMANDS_PATIENCE_MS)}
        self._commands = Sender(patient, timeout_s, self._outages.of_kafka)
        self._asking = CommandClient(self.address, self._commands, timeout_s, lambda: self._reader)
        self.members = Dispatch(self._asking, self.flow, self._outages)
        self._transactions = Transactions(self)
        try:
            self._reader = Reader(self.address, timeout_s, self.members, self._outages)
        except BaseException:
            self.sender.close()
            self._commands.close()
            raise
        self._reader.wait_for_heartbeat(timeout_s)

    @classmethod
    def from_config(
        cls,
        file: Path | str = "dlx.toml",
        *,
        user: str = "guest",
        vhost: str = "/",
        timeout_s: float = DEFAULT_TIMEOUT_S,
        on_outage: Callable[[str], None] | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> Self:
        """Connect to the job of a `dlx.toml`.

        Args:
            environ: where secrets are looked up; this process's environment by default.

        Raises:
            InvalidConfigError: the file cannot be used.
        """
        address = address_of(load_config(Path(file)), user, vhost, environ)
        return cls(address, timeout_s=timeout_s, on_outage=on_outage)

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
        self.members.add_channel(channel)
        try:
            channel.open()
        except BaseException:
            self.members.remove_channel(channel.name)
            raise
        return channel

    def publisher(
        self,
        *,
        confirms: bool = True,
        on_return: Callable[[Returned], None] | None = None,
        on_flow: OnFlow = "block",
        blocked_timeout_s: float | None = None,
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
            blocked_timeout_s=blocked_timeout_s,
            max_unconfirmed=max_unconfirmed,
        )
        self.members.add_publisher(publisher)
        return publisher

    def transaction(self, *, on_flow: OnFlow = "block") -> AbstractContextManager[Transaction]:
        """Let publishes and settlements take effect together, or not at all.

            with connection.transaction() as transaction:
                transaction.publish("orders", "order.paid", body)
                transaction.ack(channel, delivery)

        Raises:
            BrokerError: the broker would refuse some of it: nothing takes effect.
            TransactionAbortedError: Kafka aborted it. An exception inside aborts it too.
            NoAnswerError, KafkaUnreachableError: the job, or Kafka, is down.
        """
        self.check_open()
        return self._transactions.begin(on_flow)

    def close(self) -> None:
        """Close the channels (what is unacked is requeued), hand over what is left, and end."""
        if self._closed:
            return
        for channel in self.members.channels():
            channel.close()
        self._closed = True
        self.flow.release()
        self._transactions.close()
        self.sender.close()
        self._commands.close()
        self._reader.close()
        closed = ConnectionClosedError("the connection was closed")
        for publisher in self.members.publishers():
            publisher.fail_all(closed)
        self._asking.fail_all(closed)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def is_flowing(self) -> bool:
        """Whether the broker lets publishers publish (flow control)."""
        return self.flow.is_open

    @property
    def outage(self) -> str:
        """What is known to be wrong with Kafka or the job; empty while nothing is."""
        return str(self._outages)

    @property
    def outages(self) -> Outages:
        """For channels and transactions, which report what they notice."""
        return self._outages

    @property
    def heard_s(self) -> float:
        """When the job last said something to this vhost and user, on the monotonic clock."""
        return self._reader.heard_s

    @property
    def silence_s(self) -> float:
        """How long the job may say nothing before it counts as down."""
        # While publishers are held back, the notice of it comes every 2 s.
        return self.timeout_s if self.is_flowing else max(self.timeout_s, DEFAULT_TIMEOUT_S)

    # -- what channels and publishers need

    def ask(
        self,
        document: dict[str, Any],
        channel: str,
        *,
        timeout_s: float | None = None,
        patience_s: float = 0.0,
    ) -> Answer:
        """Send a command and wait for its answer; see `CommandClient.ask`."""
        self.check_open()
        return self._asking.ask(document, channel, timeout_s=timeout_s, patience_s=patience_s)

    def ask_all(self, documents: Iterable[dict[str, Any]], channel: str) -> list[Answer]:
        """Send commands and wait for all their answers; raises as `CommandClient.ask`."""
        self.check_open()
        return self._asking.ask_all(documents, channel)

    def ask_later(
        self, document: dict[str, Any], channel: str, then: Callable[[Answer], None]
    ) -> None:
        """Send a command whose answer, if it comes, is handed over on the reader's thread."""
        self._asking.ask_later(document, channel, then)

    def ask_behind(
        self, topic: str, partition: int, channel: str, then: Callable[[], None]
    ) -> None:
        """As `CommandClient.ask_behind`."""
        self._asking.ask_behind(topic, partition, channel, then)

    def tell(
        self,
        document: dict[str, Any],
        channel: str,
        lost: Callable[[KafkaUnreachableError], None] | None = None,
    ) -> None:
        """Send a command and do not wait; `lost` is called if Kafka never takes it."""
        self.check_open()
        self._asking.tell(document, channel, lost)

    def wait_until_flowing(self, timeout_s: float | None) -> bool:
        """Wait while flow control stops publishers, or for so long; whether it does no more.

        Raises:
            NoAnswerError: the job, which repeats its notice, has gone silent meanwhile.
        """
        is_open = self.flow.wait(self._look_while_waiting, timeout_s)
        self.check_open()
        return is_open

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

    # -- inside

    def kafka_error(self, reason: str) -> KafkaUnreachableError:
        """Kafka did not take a record, in words."""
        return self._asking.kafka_error(reason)

    def job_silent(self, what: str, wait_s: float) -> NoAnswerError:
        """The job did not answer, in words."""
        return self._asking.job_silent(what, wait_s)

    def _look_while_waiting(self) -> None:
        self.check_open()
        if time.monotonic() - self.heard_s > self.silence_s:
            raise NoAnswerError(
                f"{HELD_BACK}, and the job, which repeats that, has said nothing for "
                f"{self.silence_s:g} s: is `dlx run` running? The message was not sent"
            )
