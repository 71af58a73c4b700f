"""A connection to a job: its channels, publishers and transactions.

                 publishes, commands                       outbound topic
    user threads --------------------> Kafka -> job -> Kafka --------------> reader thread
         ^                                                                      |
         +--- answers (futures), deliveries (queues), confirms (futures) <------+

Rule 1: every command ends with an answer, an error or its timeout.
Rule 2: after an outage of Kafka, librdkafka reconnects and the reader resumes where it left off.
Rule 3: the reader thread never waits for the job, because only it reads the job's answers.
"""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Self, get_args

from streaming.client._transport.discovery import find_address
from streaming.client._transport.link import Link
from streaming.client.address import Address, address_of
from streaming.client.channel import Channel
from streaming.client.errors import ClientError, check_seconds
from streaming.client.messages import Returned
from streaming.client.publisher import OnFlow, Publisher
from streaming.client.transaction import Transaction, Transactions
from streaming.protocol.defaults import (
    DEFAULT_USER,
    DEFAULT_VHOST,
    LEASE_S,
    MAX_UNCONFIRMED,
    TIMEOUT_S,
)


class Connection:
    """A connection to one vhost of a job, as one user. Threads can share it.

    It needs no configuration of the job: the job's heartbeat says which topics to use.

    Args:
        address: Kafka's `HOST:PORT`, or several, separated by commas; or an `Address`.
        user: the user to act as.
        vhost: the vhost to connect to.
        kafka: further librdkafka properties, such as
            `{"security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-512", ...}`.
        timeout_s: how long to wait for Kafka and for the job, in seconds.
        on_outage: called with a text when Kafka or the job goes down, and when the job answers
            again. It runs on the thread that noticed it and must not wait.

    Attributes:
        address: where the connection writes and reads.

    Raises:
        KafkaUnreachableError: Kafka does not answer.
        ClientError: no job serves this vhost and user, or its topics do not exist.
    """

    def __init__(
        self,
        address: Address | str = "localhost:9092",
        *,
        user: str | None = None,
        vhost: str | None = None,
        kafka: Mapping[str, str] | None = None,
        timeout_s: float = TIMEOUT_S,
        on_outage: Callable[[str], None] | None = None,
    ) -> None:
        check_seconds("timeout_s", timeout_s)
        if isinstance(address, str):
            names = user or DEFAULT_USER, vhost or DEFAULT_VHOST
            self.address = find_address(address, *names, kafka or {}, timeout_s)
        elif not isinstance(address, Address):
            raise ClientError(f"address must be HOST:PORT or an Address, not {address!r:.100}")
        elif (user, vhost, kafka) == (None, None, None):
            self.address = address
        else:
            raise ClientError("user, vhost and kafka are part of the Address: give only that")
        self._link = Link(self.address, timeout_s, on_outage)
        self._transactions = Transactions(self._link)

    @classmethod
    def from_config(
        cls,
        file: Path | str = "dlx.toml",
        *,
        user: str = DEFAULT_USER,
        vhost: str = DEFAULT_VHOST,
        timeout_s: float = TIMEOUT_S,
        on_outage: Callable[[str], None] | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> Self:
        """Connect to the job of a `dlx.toml`.

        Args:
            file: the path of the `dlx.toml`.
            user: the user to act as.
            vhost: the vhost to connect to.
            timeout_s: how long to wait for Kafka and for the job, in seconds.
            on_outage: as for `Connection`.
            environ: where secrets are looked up; by default the environment of this process.

        Raises:
            ClientError: the file is invalid, a secret cannot be found, the job has no such user or
                vhost, or its topics do not exist.
            KafkaUnreachableError: Kafka does not answer.
        """
        from streaming.config import InvalidConfigError, load_config  # noqa: PLC0415 - slow

        try:
            address = address_of(load_config(Path(file)), user, vhost, environ)
        except InvalidConfigError as error:
            raise ClientError(str(error)) from error
        return cls(address, timeout_s=timeout_s, on_outage=on_outage)

    def channel(self, name: str | None = None, *, lease_s: float = LEASE_S) -> Channel:
        """Open a channel.

        Args:
            name: one that other processes know; by default a new one.
            lease_s: the broker closes a channel without a command for this long, and requeues
                what is unacknowledged on it. The client renews the lease in the background.

        Raises:
            ClientError: this connection has a channel of that name.
            NoAnswerError, KafkaUnreachableError: the job, or Kafka, is down.
        """
        check_seconds("lease_s", lease_s)
        self._link.check_open()
        return Channel(self._link, name or self._link.new_name("channel"), lease_s)

    def publisher(
        self,
        *,
        confirms: bool = True,
        on_return: Callable[[Returned], None] | None = None,
        on_flow: OnFlow = "block",
        blocked_timeout_s: float | None = None,
        max_unconfirmed: int = MAX_UNCONFIRMED,
    ) -> Publisher:
        """Create a publisher.

        Args:
            confirms: whether futures wait for the broker; otherwise only for Kafka.
            on_return: called on the reader's thread with each returned message. It may publish, but
                must not wait for a channel.
            on_flow: `"block"` waits while flow control stops publishers, `"raise"` raises
                FlowStoppedError.
            blocked_timeout_s: how long flow control may delay a message. After that, `publish`
                raises FlowStoppedError, and so do futures of messages that Kafka already has. None
                means no limit.
            max_unconfirmed: `publish` waits while this many are unconfirmed.
        """
        self._link.check_open()
        if on_flow not in get_args(OnFlow):
            raise ClientError(f'on_flow must be "block" or "raise", not {on_flow!r}')
        if max_unconfirmed < 1:
            raise ClientError(f"max_unconfirmed must be at least 1, not {max_unconfirmed}")
        return Publisher(
            self._link,
            self._link.new_name("publisher"),
            confirms=confirms,
            on_return=on_return,
            on_flow=on_flow,
            blocked_timeout_s=blocked_timeout_s,
            max_unconfirmed=max_unconfirmed,
        )

    def transaction(self, *, on_flow: OnFlow = "block") -> AbstractContextManager[Transaction]:
        """Let publishes and settlements take effect together, or not at all.

        An exception inside the block aborts the transaction.

            with connection.transaction() as transaction:
                transaction.publish("orders", "order.paid", body)
                transaction.ack(channel, delivery)

        Args:
            on_flow: as for `publisher`; the transaction waits before its block starts.

        Raises:
            ClientError: this thread is in a transaction, or the job has no topic for them.
            BrokerError: the broker would refuse some of it: nothing takes effect.
            TransactionAbortedError: Kafka aborted it.
            NoAnswerError, KafkaUnreachableError: the job, or Kafka, is down.
        """
        self._link.check_open()
        return self._transactions.begin(on_flow)

    def request(
        self, command: Mapping[str, Any], channel: str, *, timeout_s: float | None = None
    ) -> dict[str, Any]:
        """Send a command of the wire format and wait for its answer.

        `Channel` has a method for every command. This one also reaches a channel that another
        process has opened.

        Args:
            command: its `op` and members, such as `{"op": "ack", "refs": ["1.0.0"]}`.
            channel: the name of the channel.

        Raises:
            ClientError: the command is malformed; nothing was sent.
            BrokerError: the broker refused the command.
            NoAnswerError, KafkaUnreachableError: no answer in time.
        """
        self._link.check_open()
        return self._link.commands.request(command, channel, timeout_s=timeout_s)

    def send(self, command: Mapping[str, Any], channel: str) -> None:
        """Send a command of the wire format without waiting; see `request`."""
        self._link.check_open()
        self._link.commands.send(command, channel)

    def require_job(self) -> None:
        """Check by its heartbeat that a job is running, before anything is sent to it.

        Takes up to four seconds if none is.

        Raises:
            NoJobError: no job is heard, or its heartbeat cannot be read.
        """
        self._link.check_open()
        self._link.require_job()

    def close(self) -> None:
        """Close the channels, wait for Kafka to accept what is queued, and stop.

        The broker requeues what is unacknowledged. Futures without a confirm fail with
        ConnectionClosedError. A callback that still runs has `timeout_s` to return. Closing twice
        is harmless.
        """
        self._link.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def is_flowing(self) -> bool:
        """Whether flow control lets publishers publish."""
        return self._link.flow.is_open

    @property
    def outage(self) -> str:
        """The present outage of Kafka or the job as a text; empty if there is none."""
        return self._link.outages.text
