"""Transactions: publishes and settlements that all take effect, or none.

They go to a Kafka topic of their own, in a Kafka transaction and to one partition, so their order
is the order in which they take effect. The job reads committed records only. The topic is one with
`source = "transactions"` in the job's `dlx.toml`: an open transaction holds up whatever is behind
it in its partition, which must not be the records of others.

    begin --> publishes, settlements --> check --> commit: all takes effect
                        |                  |
                        +--> an exception  +--> refused, or no answer --> abort: nothing does

The job sees the records only when they are committed, and then refuses each alone. So it is asked
before, by a command that is not part of the transaction, whether it would refuse any.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaException

from streaming.client.errors import ClientError, KafkaUnreachableError, TransactionAbortedError
from streaming.client.publisher import OnFlow, Publisher
from streaming.client.records import command
from streaming.client.sender import Sender, reason_of
from streaming.client.settling import Settled, refs_of
from streaming.client.transaction_steps import Steps

if TYPE_CHECKING:
    from streaming.client.channel import Channel
    from streaming.client.connection import Connection
    from streaming.client.messages import Body

LONGEST_MS = 60_000
"""Kafka aborts a transaction that is open for so long."""

NO_TOPIC = (
    "the job has no topic for transactions of this user: add one to its dlx.toml, "
    '[[inputs]] with topic = "dlx.transactions" and source = "transactions"'
)


MOST_PUBLISHES = 1_000_000
"""Of one transaction."""


class Transaction:
    """What is to take effect together; made by `Connection.transaction`."""

    def __init__(self, connection: Connection, publisher: Publisher, sender: Sender) -> None:
        self._connection = connection
        self._publisher = publisher
        self._sender = sender
        self._steps = Steps()
        self._publishes = 0
        self._ended = False

    def end(self) -> None:
        """It takes nothing more."""
        self._ended = True

    def check(self) -> None:
        """Ask the broker whether it would refuse any of it.

        Raises:
            BrokerError: it would; the first refusal there would be.
            NoAnswerError, KafkaUnreachableError: no answer in time.
        """
        checks = self._steps.checks(self._connection.address.max_message_bytes // 2)
        self._connection.ask_all(checks, self._publisher.name)

    def publish(
        self,
        exchange: str,
        routing_key: str,
        body: Body,
        properties: Mapping[str, Any] | None = None,
        headers: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> Future[None]:
        """As `Publisher.publish`; the future is done after the commit, or fails with the abort.

        Its `result()` is for behind the block: inside it raises at once.
        """
        self._check()
        if self._publishes == MOST_PUBLISHES:
            raise ClientError(f"a transaction has at most {MOST_PUBLISHES:,} publishes")
        confirm = self._publisher.publish(
            exchange, routing_key, body, properties, headers, **options
        )
        self._publishes += 1
        self._steps.publish(exchange, properties, headers)
        return confirm

    def ack(self, channel: Channel, settled: Settled, *, multiple: bool = False) -> None:
        """As `Channel.ack`, for deliveries of that channel."""
        self._settle(channel, "ack", refs_of(settled), multiple=multiple)

    def nack(
        self, channel: Channel, settled: Settled, *, multiple: bool = False, requeue: bool = True
    ) -> None:
        """As `Channel.nack`."""
        self._settle(channel, "nack", refs_of(settled), multiple=multiple, requeue=requeue)

    def reject(self, channel: Channel, settled: Settled, *, requeue: bool = True) -> None:
        """As `Channel.reject`."""
        self._settle(channel, "reject", refs_of(settled), requeue=requeue)

    def _check(self) -> None:
        if self._ended:
            raise ClientError("the transaction has ended: begin another one")

    def _settle(self, channel: Channel, op: str, refs: list[str], **more: bool) -> None:
        self._check()
        vhost, key = self._connection.address.vhost, self._publisher.name
        record = command({"op": op, "refs": refs, **more, "channel": channel.name}, vhost, key)
        topic = self._connection.address.transactions
        assert topic is not None, "no transaction without a topic"
        self._sender.send(topic, record)
        self._steps.settle(channel.name, refs, multiple=more.get("multiple", False))


class Transactions:
    """The transactions of one connection, one after the other."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._one_at_a_time = threading.Lock()
        self._thread = 0  # that is in a transaction
        self._id = f"dlx-{connection.session}"
        self._sender: Sender | None = None
        self._publisher: Publisher | None = None

    @contextmanager
    def begin(self, on_flow: OnFlow) -> Iterator[Transaction]:
        """A transaction: checked and committed at the end, aborted if an exception comes out.

        Raises:
            ClientError: this thread is in a transaction.
            BrokerError: the broker would refuse some of it; nothing takes effect.
            NoAnswerError: the job does not answer; nothing takes effect.
            TransactionAbortedError: Kafka aborted it; nothing takes effect.
            KafkaUnreachableError: Kafka does not answer.
        """
        if self._connection.address.transactions is None:
            raise ClientError(NO_TOPIC)
        if self._thread == threading.get_ident():
            raise ClientError("a transaction is open on this thread already: Kafka's do not nest")
        with self._one_at_a_time, self._of_this_thread():
            sender, publisher = self._ready()
            publisher.on_flow = on_flow
            publisher.heed_flow()  # not inside: the settlements there are what makes room
            publisher.hold()
            transaction = Transaction(self._connection, publisher, sender)
            try:
                sender.producer.begin_transaction()
                yield transaction
                transaction.end()
                transaction.check()
            except BaseException as error:
                self._abort(sender, publisher, error)
                raise
            finally:
                transaction.end()
            self._commit(sender, publisher)
            publisher.release()

    @contextmanager
    def _of_this_thread(self) -> Iterator[None]:
        self._thread = threading.get_ident()
        try:
            yield
        finally:
            self._thread = 0

    def close(self) -> None:
        """End; what is not committed never will be."""
        if self._sender is not None:
            self._sender.close()

    def _ready(self) -> tuple[Sender, Publisher]:
        """The producer and publisher of transactions, made when first needed."""
        if self._sender is None:
            self._sender = self._new_sender()
        if self._publisher is None:
            connection = self._connection
            self._publisher = Publisher(
                connection,
                connection.new_name("transactions"),
                confirms=True,
                on_return=None,
                on_flow="block",
                max_unconfirmed=MOST_PUBLISHES,
                topic=connection.address.transactions,
                one_partition=True,
            )
            connection.members.add_publisher(self._publisher)
        self._publisher.use(self._sender)
        return self._sender, self._publisher

    def _new_sender(self) -> Sender:
        properties, timeout_s = self._connection.address.properties, self._connection.timeout_s
        ends_ms = max(LONGEST_MS, int(timeout_s * 1000))
        more = {
            "transactional.id": self._id,
            "transaction.timeout.ms": ends_ms,
            "message.timeout.ms": ends_ms,
        }
        sender = Sender(properties, timeout_s, self._connection.outages.of_kafka, **more)
        try:
            sender.producer.init_transactions(timeout_s)
        except KafkaException as error:
            sender.close()
            raise self._unreachable(error) from error
        return sender

    def _commit(self, sender: Sender, publisher: Publisher) -> None:
        try:
            sender.producer.commit_transaction(self._connection.timeout_s)
        except KafkaException as error:
            if error.args[0].txn_requires_abort():
                aborted = TransactionAbortedError(
                    f"Kafka aborted the transaction ({reason_of(error)}): nothing takes effect"
                )
                self._abort(sender, publisher, aborted)
                raise aborted from error
            unreachable = self._unreachable(error)
            publisher.fail_held(unreachable)
            publisher.release()
            self._forget(sender)
            raise unreachable from error

    def _abort(self, sender: Sender, publisher: Publisher, why: BaseException) -> None:
        publisher.fail_held(TransactionAbortedError(f"the transaction was aborted: {why!r}"))
        try:
            if not isinstance(why, KafkaUnreachableError):
                sender.producer.abort_transaction(self._connection.timeout_s)
                return
        except KafkaException:
            pass
        finally:
            publisher.release()
        self._forget(sender)  # Kafka aborts it when it runs out of time, or when we come again

    def _forget(self, sender: Sender) -> None:
        """Let the next transaction begin with a new producer: Kafka ends what this one began."""
        self._sender = None
        with suppress(KafkaException):
            sender.producer.purge()
        sender.close()

    def _unreachable(self, error: KafkaException) -> KafkaUnreachableError:
        return KafkaUnreachableError(
            f"Kafka at {self._connection.address.bootstrap} did not carry out the transaction "
            f"({reason_of(error)}): is it running? Whether it takes effect is not known."
        )
