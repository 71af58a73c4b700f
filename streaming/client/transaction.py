"""Transactions: publishes and settlements that all take effect, or none.

They go into one partition of a topic of their own, in a Kafka transaction, so the order in which
they are sent is the order in which they take effect. The job reads committed records only. The
topic is the input with `source = "transactions"` in the job's `dlx.toml`: an open transaction
blocks everything behind it in its partition, so other records must not be there.

    begin --> publishes, settlements --> check --> commit: all takes effect
                        |                  |
                        +--> an exception  +--> refused, or no answer --> abort: nothing does

The job sees the records only after the commit, and then refuses each one alone. So the client asks
before the commit, with a command outside the transaction, whether the broker would refuse any. It
goes to another topic, so the job may read it before an earlier transaction of this connection. If
that may have settled the same deliveries, the client first waits until the job has carried it out.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from typing import Any, Protocol

from confluent_kafka import KafkaException

from streaming.client import tracing
from streaming.client._transport.command_client import Question
from streaming.client._transport.confirms import Confirm
from streaming.client._transport.link import Link
from streaming.client._transport.sender import Sender, reason_of
from streaming.client._wire import command_record, delivery_ids, json_bytes, settlement_reason
from streaming.client.errors import ClientError, KafkaUnreachableError, TransactionAbortedError
from streaming.client.messages import Body, Properties, Settled
from streaming.client.publisher import OnFlow, Publisher
from streaming.protocol.defaults import REQUEUE
from topology.values import table_to_json

MIN_TIMEOUT_MS = 60_000
"""How long Kafka lets a transaction be open; longer if `timeout_s` is."""

MAX_PUBLISHES = 1_000_000
"""In one transaction."""

REFS_PER_STEP = 100

Step = dict[str, Any]


class Named(Protocol):
    """A channel, of which a settlement needs only the name."""

    @property
    def name(self) -> str:
        """The channel's name."""


class TransactionPublisher(Publisher):
    """A publisher whose publishes belong to transactions."""

    def begin(self, sender: Sender, on_flow: OnFlow) -> None:
        """Wait for flow control, then send through a producer; confirms come after `end`."""
        self._on_flow = on_flow
        self._wait_for_flow()  # not later: the settlements inside make room
        self._sender = sender
        self._in_transaction = True

    def fail(self, error: ClientError) -> None:
        """Fail the publishes of the open transaction, but not those of committed ones."""
        self._confirms.fail_transaction(error)

    def end(self) -> None:
        """Wait for confirms from now on."""
        self._confirms.end_transaction()
        self._in_transaction = False


class Transaction:
    """Publishes and settlements that take effect together; created by `Connection.transaction`."""

    def __init__(
        self, vhost: str, publisher: Publisher, sender: Sender, topic: str, steps: Steps
    ) -> None:
        self._vhost = vhost
        self._publisher = publisher
        self._sender = sender
        self._topic = topic
        self._steps = steps
        self._publishes = 0

    def publish(
        self,
        /,
        exchange: str,
        routing_key: str,
        body: Body,
        properties: Properties | None = None,
        headers: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> Future[None]:
        """Publish a message; see `Publisher.publish` for arguments and errors.

        Returns:
            A future that is done after the commit and fails with an abort. Inside the `with` block
            its `result()` raises at once.
        """
        self._check_open()
        if self._publishes == MAX_PUBLISHES:
            raise ClientError(f"a transaction has at most {MAX_PUBLISHES:,} publishes")
        confirm = self._publisher.publish(
            exchange, routing_key, body, properties, headers, **options
        )
        self._publishes += 1
        self._steps.publish(exchange, properties, headers)
        return confirm

    def ack(self, channel: Named, delivery: Settled, *, multiple: bool = False) -> None:
        """Acknowledge deliveries of a channel; see `Channel.ack`."""
        self._settle(channel, "ack", delivery, multiple=multiple)

    def nack(
        self,
        channel: Named,
        delivery: Settled,
        *,
        multiple: bool = False,
        requeue: bool = REQUEUE,
        reason: str | None = None,
    ) -> None:
        """Requeue or dead-letter deliveries of a channel; see `Channel.nack`."""
        why = settlement_reason(reason)
        self._settle(channel, "nack", delivery, multiple=multiple, requeue=requeue, **why)

    def reject(
        self,
        channel: Named,
        delivery: Settled,
        *,
        requeue: bool = REQUEUE,
        reason: str | None = None,
    ) -> None:
        """Requeue or dead-letter deliveries of a channel; see `Channel.reject`."""
        self._settle(channel, "reject", delivery, requeue=requeue, **settlement_reason(reason))

    def _check_open(self) -> None:
        if self._steps.ended:
            raise ClientError("the transaction has ended: begin another one")

    def _settle(self, channel: Named, op: str, delivery: Settled, **members: Any) -> None:
        if isinstance(delivery, Iterator):  # it is read twice
            delivery = list(delivery)
        refs = delivery_ids(delivery)
        self._check_open()
        document = {"op": op, "refs": refs, **members, "channel": channel.name}
        record = command_record(document, self._vhost, self._publisher.name)
        self._sender.send(self._topic, record)
        tracing.settled(op, delivery)
        self._steps.settle(channel.name, refs, multiple=members.get("multiple", False))


class _Settled:
    """Deliveries that were settled on a channel."""

    def __init__(self) -> None:
        self._ids: set[str] = set()
        self._up_to: dict[str, int] = {}  # consumer and lane -> the highest number
        self._has_labels = False  # they name deliveries otherwise than by id

    def add(self, ids: list[str], *, multiple: bool) -> None:
        """Add deliveries; `multiple`: all older ones of the channel, too."""
        self._ids.update(ids)
        for each in ids:
            where, number = _parts(each)
            self._has_labels |= number < 0
            if multiple:
                self._up_to[where] = max(number, self._up_to.get(where, -1))

    def may_have(self, delivery_id: str) -> bool:
        """Whether a delivery may be one of them."""
        where, number = _parts(delivery_id)
        if delivery_id in self._ids or self._has_labels or number < 0:
            return True
        is_younger = self._up_to.keys() == {where} and number > self._up_to[where]
        return bool(self._up_to) and not is_younger


def _parts(delivery_id: str) -> tuple[str, int]:
    """The consumer with its lane, and the number of a delivery; -1 if it is named otherwise."""
    name, at, lane = delivery_id.partition("@")
    consumer, _dot, number = name.rpartition(".")
    return consumer + at + lane, int(number) if number.isdecimal() else -1


class Steps:
    """The content of one transaction as the command `check` asks about it.

    Bodies and whatever else is never refused are omitted. Equal publishes are asked about once, and
    successive settlements of a channel together.

    Attributes:
        ended: the transaction accepts nothing more.
    """

    def __init__(self) -> None:
        self.ended = False
        self._steps: list[Step] = []
        self._publishes: set[bytes] = set()

    def publish(
        self,
        exchange: str,
        properties: Properties | None,
        headers: Mapping[str, Any] | None,
    ) -> None:
        """Add a publish that the client itself accepts."""
        step: Step = {"op": "publish", "exchange": exchange}
        if properties is not None and "expiration" in properties:
            step["expiration"] = properties["expiration"]
        keys = {name: (headers or {}).get(name, []) for name in ("CC", "BCC")}
        invalid = {name: each for name, each in keys.items() if not isinstance(each, list | tuple)}
        if invalid:
            step["headers"] = table_to_json(invalid, exact=True)
        encoded = json_bytes(step)
        if encoded not in self._publishes:
            self._publishes.add(encoded)
            self._steps.append(step)

    def settle(self, channel: str, refs: list[str], *, multiple: bool) -> None:
        """Add a settlement; the broker refuses an ack and a reject for the same reasons."""
        step: Step = {"op": "ack", "channel": channel, "multiple": multiple}
        last = self._steps[-1] if self._steps else {}
        if last == {**step, "refs": last.get("refs")}:
            last["refs"].extend(refs)
        else:
            self._steps.append({**step, "refs": list(refs)})

    def settles(self) -> bool:
        """Whether there is a settlement."""
        return any("refs" in step for step in self._steps)

    def may_settle_what(self, earlier: Steps) -> bool:
        """Whether it names a delivery that an earlier transaction may have settled."""
        settled = earlier._settled()
        return any(
            step["channel"] in settled and settled[step["channel"]].may_have(ref)
            for step in self._steps
            for ref in step.get("refs", ())
        )

    def _settled(self) -> dict[str, _Settled]:
        """What is settled on each channel."""
        found: dict[str, _Settled] = {}
        for step in self._steps:
            if "refs" in step:
                of_channel = found.setdefault(step["channel"], _Settled())
                of_channel.add(step["refs"], multiple=step["multiple"])
        return found

    def checks(self, max_bytes: int) -> list[Step]:
        """Return the commands that ask about everything, each with at most `max_bytes` of steps."""
        groups: list[list[Step]] = []
        room = 0
        for step in self._pieces():
            size = len(json_bytes(step)) + 1
            if size > room:
                groups.append([])
                room = max_bytes
            groups[-1].append(step)
            room -= size
        return [{"op": "check", "steps": steps} for steps in groups]

    def _pieces(self) -> Iterator[Step]:
        for step in self._steps:
            refs = step.get("refs")
            if refs is None:
                yield step
                continue
            for first in range(0, len(refs), REFS_PER_STEP):
                yield {**step, "refs": refs[first : first + REFS_PER_STEP]}


def check_can_wait(confirm: Future[None]) -> None:
    """Refuse to wait for a publish inside the block of its transaction.

    Raises:
        ClientError: waiting would never end.
    """
    if isinstance(confirm, Confirm):
        confirm.check()


class _Earlier:
    """Transactions that were committed, or may have been, before another one began.

    Args:
        question: whether the job has read them; None if there are none.
    """

    def __init__(self, transactions: list[Steps], question: Question | None) -> None:
        self._transactions = transactions
        self._question = question

    def left(self) -> list[Steps]:
        """Those that the job may not have carried out."""
        is_over = self._question is None or self._question.is_answered
        return [] if is_over else self._transactions

    def wait_before(self, steps: Steps, timeout_s: float) -> bool:
        """Wait until `steps` finds deliveries as these have left them; False after a time.

        Raises:
            ClientError: nobody will say so.
        """
        question = self._question
        if question is None or not any(steps.may_settle_what(one) for one in self._transactions):
            return True
        return question.wait(timeout_s)


class Transactions:
    """The transactions of one connection, one at a time."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._one_at_a_time = threading.Lock()
        self._thread = 0  # the thread that is in a transaction
        self._sender: Sender | None = None
        self._publisher: TransactionPublisher | None = None
        self._unread: list[Steps] = []  # the job may not have carried them out

    @contextmanager
    def begin(self, on_flow: OnFlow) -> Iterator[Transaction]:
        """Check and commit at the end, abort on an exception; see `Connection.transaction`."""
        topic = self._link.address.transactions
        if topic is None:
            raise ClientError(
                "the job has no topic for transactions of this user. Add one to its dlx.toml: "
                '[[inputs]] with topic = "dlx.transactions" and source = "transactions"'
            )
        if self._thread == threading.get_ident():
            raise ClientError("this thread is in a transaction already; transactions do not nest")
        with self._one_at_a_time, self._on_this_thread():
            sender, publisher = self._clients(topic)
            earlier = self._earlier(topic, publisher.name)
            publisher.begin(sender, on_flow)
            steps = Steps()
            try:
                self._begin(sender)
                yield Transaction(self._link.address.vhost, publisher, sender, topic, steps)
                steps.ended = True
                self._check(steps, publisher.name, earlier)
            except BaseException as error:
                self._abort(sender, publisher, error)
                raise
            finally:
                steps.ended = True
                self._unread = earlier.left()
            if steps.settles():
                self._unread.append(steps)
            self._commit(sender, publisher)
            publisher.end()

    def _earlier(self, topic: str, channel: str) -> _Earlier:
        """The transactions before the one that begins.

        The job is asked now: an open transaction holds up what is sent to the topic behind it.
        """
        question = self._link.commands.ask_behind(topic, channel) if self._unread else None
        return _Earlier(self._unread, question)

    def _check(self, steps: Steps, channel: str, earlier: _Earlier) -> None:
        link = self._link
        link.check_open()
        link.commands.check_can_wait()
        began_s, timeout_s = time.monotonic(), link.timeout_s
        if not earlier.wait_before(steps, timeout_s):
            aborted = "The transaction after it is aborted: none of it takes effect."
            what, topic = "an earlier transaction", link.address.transactions or ""
            raise link.commands.no_answer(what, timeout_s, aborted, topic=topic, takes_effect=False)
        link.check_open()
        left_s = max(0.0, timeout_s - (time.monotonic() - began_s))
        checks = steps.checks(link.address.max_message_bytes // 2)
        link.commands.request_all(checks, channel, left_s)

    @contextmanager
    def _on_this_thread(self) -> Iterator[None]:
        self._thread = threading.get_ident()
        try:
            yield
        finally:
            self._thread = 0

    def _clients(self, topic: str) -> tuple[Sender, TransactionPublisher]:
        """The producer and publisher of transactions, created on first use."""
        if self._sender is None:
            self._sender = self._new_sender()
        if self._publisher is None:
            self._publisher = TransactionPublisher(
                self._link,
                self._link.new_name("transactions"),
                confirms=True,
                on_return=None,
                on_flow="block",
                max_unconfirmed=MAX_PUBLISHES,
                topic=topic,
                one_partition=True,
            )
        return self._sender, self._publisher

    def _new_sender(self) -> Sender:
        timeout_ms = max(MIN_TIMEOUT_MS, int(self._link.timeout_s * 1000))
        properties = {
            "transactional.id": f"dlx-{self._link.session}",
            "transaction.timeout.ms": timeout_ms,
            "message.timeout.ms": timeout_ms,
        }
        sender = self._link.new_sender(**properties)
        try:
            sender.producer.init_transactions(self._link.timeout_s)
        except KafkaException as error:
            self._link.close_sender(sender)
            raise self._unreachable(error) from error
        return sender

    def _begin(self, sender: Sender) -> None:
        try:
            sender.producer.begin_transaction()
        except KafkaException as error:
            raise self._unreachable(error) from error

    def _commit(self, sender: Sender, publisher: TransactionPublisher) -> None:
        try:
            sender.producer.commit_transaction(self._link.timeout_s)
        except KafkaException as error:
            if error.args[0].txn_requires_abort():
                aborted = TransactionAbortedError(
                    f"Kafka aborted the transaction ({reason_of(error)}): nothing takes effect"
                )
                self._abort(sender, publisher, aborted)
                raise aborted from error
            unreachable = self._unreachable(error)
            publisher.fail(unreachable)
            publisher.end()
            self._discard(sender)
            raise unreachable from error

    def _abort(self, sender: Sender, publisher: TransactionPublisher, cause: BaseException) -> None:
        publisher.fail(TransactionAbortedError(f"the transaction was aborted: {cause!r}"))
        try:
            if not isinstance(cause, KafkaUnreachableError):
                sender.producer.abort_transaction(self._link.timeout_s)
                return
        except KafkaException:
            pass
        finally:
            publisher.end()
        self._discard(sender)  # Kafka aborts at the timeout, or when the next producer starts

    def _discard(self, sender: Sender) -> None:
        """Let the next transaction start a new producer, which ends what this one began."""
        self._sender = None
        with suppress(KafkaException):
            sender.producer.purge()
        self._link.close_sender(sender)

    def _unreachable(self, error: KafkaException) -> KafkaUnreachableError:
        return KafkaUnreachableError(
            f"Kafka at {self._link.address.bootstrap} did not execute the transaction "
            f"({reason_of(error)}): is it running? The transaction may or may not take effect"
        )
